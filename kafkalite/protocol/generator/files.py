"""The generated files: api_keys.py, error_codes.py and the packages below _generated/.

`python -m kafkalite.protocol.generator` rewrites them all. A test compares the committed files
with the result of `render`. A codec module of the broker has one version of one API, so that a
broker loads only the code that it needs:

    _generated/messages/<api>.py               classes of requests and responses
    _generated/records/<name>.py               classes of records
    _generated/codecs/broker/<api>_v<N>.py     parse_request, build_response; a factory of both
    _generated/codecs/client/<api>.py          build_request_v<N>, parse_response_v<N>
    _generated/codecs/records/<message>.py     parse_v<N>, build_v<N>; headers are here too
    _generated/codecs/index.py                 all APIs and versions, and their modules
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.generator.codecs import compile_module
from kafkalite.protocol.generator.messages import render_module
from kafkalite.protocol.generator.source import HEADER
from kafkalite.protocol.schema import message_tree, module_of
from kafkalite.protocol.spec import MessageSpec, load_specs, snake_case, spec_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT: Final = Path(__file__).parents[1]
"""The directory of the generated files."""

PACKAGES: Final = (
    "_generated",
    "_generated/messages",
    "_generated/records",
    "_generated/codecs",
    "_generated/codecs/broker",
    "_generated/codecs/client",
    "_generated/codecs/records",
)
"""Directories that contain only generated files."""


def render(specs: Iterable[MessageSpec] | None = None) -> dict[str, str]:
    """Return the text of every generated file, by its path below `protocol/`."""
    specs = list(load_specs() if specs is None else specs)
    files = {
        f"{package}/__init__.py": f'{HEADER}\n"""Generated code: {package}."""\n'
        for package in PACKAGES
    }
    files["error_codes.py"] = _error_codes()
    files.update(_message_modules(specs))
    apis = [spec for spec in specs if spec.kind in ("request", "response")]
    aliases = dict[str, str]()
    pairs = _pairs(apis)
    for request, response in pairs:
        files.update(_broker_codecs(request, response, aliases))
        client = f"_generated/codecs/client/{request.stem}.py"
        files[client] = _client_codec(request, response)
    for spec in specs:
        if spec not in apis:
            files[f"_generated/codecs/records/{snake_case(spec.name)}.py"] = _record_codec(spec)
    files["_generated/codecs/index.py"] = _index(pairs, specs, aliases)
    files["api_keys.py"] = _api_keys(request for request, _ in pairs)
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


def _broker_codecs(
    request: MessageSpec, response: MessageSpec, aliases: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield an API's codecs for brokers. Versions with equal code share a module."""
    written: dict[str, str] = {}
    for version in request.versions.within(response.versions):
        code = compile_module(
            {"parse_request": message_tree(request, version)},
            {"build_response": message_tree(response, version)},
            has_hooks=True,
        )
        name = f"{request.stem}_v{version}"
        earlier_name = written.setdefault(code, name)
        if earlier_name != name:
            aliases[name] = earlier_name
            continue
        api = f"{request.name.removesuffix('Request')}, version {version}"
        yield (
            f"_generated/codecs/broker/{name}.py",
            _module(f"{api}: parse a request, build a response.", code),
        )


def _client_codec(request: MessageSpec, response: MessageSpec) -> str:
    versions = request.versions.within(response.versions)
    code = compile_module(
        {f"parse_response_v{version}": message_tree(response, version) for version in versions},
        {f"build_request_v{version}": message_tree(request, version) for version in versions},
    )
    api = request.name.removesuffix("Request")
    return _module(f"{api}: build a request, parse a response, in each version.", code)


def _record_codec(spec: MessageSpec) -> str:
    trees = {
        version: message_tree(spec, version) for version in spec.versions.within(spec.versions)
    }
    code = compile_module(
        {f"parse_v{version}": tree for version, tree in trees.items()},
        {f"build_v{version}": tree for version, tree in trees.items()},
    )
    return _module(f"{spec.name}: parse and build each version.", code)


def _module(docstring: str, code: str) -> str:
    return f'{HEADER}\n"""{docstring}"""\n{code}'


def _index(
    pairs: Sequence[tuple[MessageSpec, MessageSpec]],
    specs: Sequence[MessageSpec],
    aliases: dict[str, str],
) -> str:
    lines = [HEADER, '"""Index of the codecs: APIs, versions and record types."""', ""]
    lines += ["from typing import Final", ""]
    lines.append("# key: (stem, name, lowest, highest stable, highest, first flexible or -1)")
    lines.append("APIS: Final[dict[int, tuple[str, str, int, int, int, int]]] = {")
    for request, _ in pairs:
        flexible = -1 if request.flexible is None else request.flexible.lowest
        facts = (
            request.stem, request.name.removesuffix("Request"), request.versions.lowest,
            request.stable.highest, request.versions.highest, flexible,
        )  # fmt: skip
        lines.append(f"    {request.key}: {_tuple(facts)},")
    lines += [
        "}",
        "",
        "# broker codec without a module: the codec of an earlier version with the same code",
    ]
    lines.append("ALIASES: Final[dict[str, str]] = {")
    lines += [f'    "{name}": "{earlier_name}",' for name, earlier_name in aliases.items()]
    lines += ["}", ""]
    lines += _record_types(specs)
    return "\n".join(lines) + "\n"


def _record_types(specs: Sequence[MessageSpec]) -> Iterator[str]:
    """Yield the lines of the tables of record types."""
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


_INT_ENUM = "from kafkalite.ports.int_enums import IntEnum"


def _api_keys(requests: Iterable[MessageSpec]) -> str:
    lines = [HEADER, '"""Keys of Kafka\'s APIs."""', ""]
    lines += ["from __future__ import annotations", "", _INT_ENUM]
    lines += ["", "", "class ApiKey(IntEnum):"]
    lines += ['    """Key of every API that has a spec, by its name in Kafka."""', ""]
    lines += [f"    {request.stem.upper()} = {request.key}" for request in requests]
    return "\n".join([*lines, ""])


def _error_codes() -> str:
    rows = json.loads((spec_directory() / "errors.json").read_text(encoding="utf-8"))
    lines = [HEADER, '"""Error codes of Kafka, and two of kafkalite, with default messages."""', ""]
    lines.append("# ruff: noqa: E501 - messages are not wrapped")
    lines += ["from __future__ import annotations", "", "from typing import Final", "", _INT_ENUM]
    lines += ["", "", "class ErrorCode(IntEnum):"]
    lines += [
        '    """Error codes, by their names in Kafka; codes from 10000 on are kafkalite\'s."""',
        "",
    ]
    lines += [f"    {row['name']} = {row['code']}" for row in rows]
    lines += ["", "    @property", "    def retriable(self) -> bool:"]
    lines += ['        """Whether a client should retry the same request."""']
    lines += ["        return self in _RETRIABLE", "", "    @property"]
    lines += ["    def message(self) -> str:"]
    lines += ['        """The meaning of the code in one sentence, the default error message."""']
    lines += ["        return _MESSAGES[self]", "", ""]
    lines += ["_RETRIABLE: Final = frozenset(", "    {"]
    lines += [f"        ErrorCode.{row['name']}," for row in rows if row["retriable"]]
    lines += ["    }", ")", "", "_MESSAGES: Final = {"]
    lines += [f"    ErrorCode.{row['name']}: {json.dumps(row['message'])}," for row in rows]
    return "\n".join([*lines, "}", ""])


def write(root: Path = ROOT) -> int:
    """Write the generated files; return the number of changed ones."""
    files = render()
    changed = 0
    for package in PACKAGES:
        for path in (root / package).glob("*.py"):
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
