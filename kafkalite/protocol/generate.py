"""Writes messages/, records/, codecs/ and error_codes.py from the specs.

`python -m kafkalite.protocol.generate` rewrites them all; a test compares what is committed
with what `render` says today. A codec module holds one version of one API, for the side that
needs it, so that a broker loads no byte of code it does not run:

    codecs/broker/<api>_v<N>.py     parse_request, build_response
    codecs/client/<api>_v<N>.py     build_request, parse_response
    codecs/records/<message>.py     parse_v<N>, build_v<N>; headers are here too
    codecs/index.py                 which APIs and versions there are, and where
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.compiler import compile_module
from kafkalite.protocol.generate_messages import render_module
from kafkalite.protocol.schema import message_tree, module_of
from kafkalite.protocol.source import BANNER
from kafkalite.protocol.spec import MessageSpec, load_specs, snake_case, spec_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT: Final = Path(__file__).parent
"""Where the generated files go."""

SHELVES: Final = (
    "messages", "records", "codecs", "codecs/broker", "codecs/client", "codecs/records",
)  # fmt: skip
"""The directories that hold generated files and nothing else."""


def render(specs: Iterable[MessageSpec] | None = None) -> dict[str, str]:
    """Write every generated file, by its path below `protocol/`."""
    specs = list(load_specs() if specs is None else specs)
    files = {f"{shelf}/__init__.py": f"{BANNER}\n" for shelf in SHELVES}
    files["error_codes.py"] = _error_codes()
    files.update(_message_modules(specs))
    apis = [spec for spec in specs if spec.kind in ("request", "response")]
    aliases = dict[str, str]()
    pairs = _pairs(apis)
    for request, response in pairs:
        files.update(_api_codecs(request, response, aliases))
    for spec in specs:
        if spec not in apis:
            files[f"codecs/records/{snake_case(spec.name)}.py"] = _record_codec(spec)
    files["codecs/index.py"] = _index(pairs, specs, aliases)
    return files


def _pairs(specs: Sequence[MessageSpec]) -> list[tuple[MessageSpec, MessageSpec]]:
    by_name = {spec.name: spec for spec in specs}
    requests = [spec for spec in specs if spec.kind == "request"]
    requests.sort(key=lambda spec: spec.key or 0)
    return [
        (request, by_name[f"{request.name.removesuffix('Request')}Response"])
        for request in requests
    ]


def _message_modules(specs: Sequence[MessageSpec]) -> Iterator[tuple[str, str]]:
    modules: dict[str, list[MessageSpec]] = {}
    for spec in specs:
        modules.setdefault(module_of(spec), []).append(spec)
    for module, members in modules.items():
        path = module.removeprefix("kafkalite.protocol.").replace(".", "/")
        yield f"{path}.py", render_module(members)


def _api_codecs(
    request: MessageSpec, response: MessageSpec, aliases: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Write an API's codecs; versions that look alike on the wire share a module."""
    seen: dict[tuple[str, str], str] = {}
    for version in request.versions.within(response.versions):
        asked = message_tree(request, version)
        answered = message_tree(response, version)
        broker = compile_module({"parse_request": asked}, {"build_response": answered})
        client = compile_module({"parse_response": answered}, {"build_request": asked})
        name = f"{request.stem}_v{version}"
        same = seen.setdefault((broker, client), name)
        if same != name:
            aliases[name] = same
            continue
        yield f"codecs/broker/{name}.py", broker
        yield f"codecs/client/{name}.py", client


def _record_codec(spec: MessageSpec) -> str:
    trees = {
        version: message_tree(spec, version) for version in spec.versions.within(spec.versions)
    }
    return compile_module(
        {f"parse_v{version}": tree for version, tree in trees.items()},
        {f"build_v{version}": tree for version, tree in trees.items()},
    )


def _index(
    pairs: Sequence[tuple[MessageSpec, MessageSpec]],
    specs: Sequence[MessageSpec],
    aliases: dict[str, str],
) -> str:
    lines = [BANNER, "", "from typing import Final", ""]
    lines.append("# key: (stem, name, lowest, highest stable, highest, first flexible or -1)")
    lines.append("APIS: Final[dict[int, tuple[str, str, int, int, int, int]]] = {")
    for request, _ in pairs:
        flexible = -1 if request.flexible is None else request.flexible.lowest
        facts = (
            request.stem, request.name.removesuffix("Request"), request.versions.lowest,
            request.stable.highest, request.versions.highest, flexible,
        )  # fmt: skip
        lines.append(f"    {request.key}: {_tuple(facts)},")
    lines += ["}", "", "# a version that looks like an earlier one: where that one's code is"]
    lines.append("ALIASES: Final[dict[str, str]] = {")
    lines += [f'    "{name}": "{same}",' for name, same in aliases.items()]
    lines += ["}", ""]
    lines += _record_types(specs)
    return "\n".join(lines) + "\n"


def _record_types(specs: Sequence[MessageSpec]) -> Iterator[str]:
    """Write what a record's number means, in each log that has numbers."""
    by_name = {spec.name: spec for spec in specs}
    keys = sorted((s for s in specs if s.kind == "key"), key=lambda spec: spec.key or 0)
    yield "# log: {record type: (stem, codec of the key, codec of the value, version of the key)}"
    yield "RECORD_TYPES: Final[dict[str, dict[int, tuple[str, str, str, int]]]] = {"
    for log in ("group", "transaction", "share"):
        yield f'    "{log}": {{'
        for key in keys:
            if _log_of(key) == log:
                value = by_name[f"{key.name.removesuffix('Key')}Value"]
                codecs = (snake_case(key.name), snake_case(value.name), key.versions.highest)
                yield f"        {key.key}: {_tuple((key.stem, *codecs))},"
        yield "    },"
    yield "}"
    yield ""
    yield "# API key of a metadata record: its codec"
    yield "METADATA_RECORDS: Final[dict[int, str]] = {"
    metadata = [spec for spec in specs if spec.kind == "metadata"]
    for spec in sorted(metadata, key=lambda spec: spec.key or 0):
        yield f'    {spec.key}: "{snake_case(spec.name)}",'
    yield "}"


def _log_of(spec: MessageSpec) -> str:
    if spec.name.startswith("TransactionLog"):
        return "transaction"
    return "share" if spec.name in ("ShareSnapshotKey", "ShareUpdateKey") else "group"


def _tuple(values: Sequence[object]) -> str:
    return "(" + ", ".join(json.dumps(value) for value in values) + ")"


def _error_codes() -> str:
    rows = json.loads((spec_directory() / "errors.json").read_text(encoding="utf-8"))
    lines = [BANNER, "", "# ruff: noqa: E501 - a sentence is not broken"]
    lines += ["from __future__ import annotations", "", "from enum import IntEnum"]
    lines += ["from typing import Final", "", "", "class ErrorCode(IntEnum):"]
    lines += ['    """What a broker may answer instead of doing as it was asked."""', ""]
    lines += [f"    {row['name']} = {row['code']}" for row in rows]
    lines += ["", "    @property", "    def retriable(self) -> bool:"]
    lines += ['        """Whether a client should ask again unchanged."""']
    lines += ["        return self in _RETRIABLE", "", "    @property"]
    lines += ["    def message(self) -> str:"]
    lines += ['        """What the code means, in one sentence; the default error message."""']
    lines += ["        return _MESSAGES[self]", "", ""]
    lines += ["_RETRIABLE: Final = frozenset(", "    {"]
    lines += [f"        ErrorCode.{row['name']}," for row in rows if row["retriable"]]
    lines += ["    }", ")", "", "_MESSAGES: Final = {"]
    lines += [f"    ErrorCode.{row['name']}: {json.dumps(row['message'])}," for row in rows]
    return "\n".join([*lines, "}", ""])


def write(root: Path = ROOT) -> int:
    """Bring the generated files up to date; how many of them changed."""
    files = render()
    changed = 0
    for shelf in SHELVES:
        for path in (root / shelf).glob("*.py"):
            if path.relative_to(root).as_posix() not in files:
                path.unlink()
                changed += 1
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed += 1
    return changed


if __name__ == "__main__":
    sys.stdout.write(f"{write()} files changed\n")
