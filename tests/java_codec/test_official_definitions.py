"""Our specs say what Kafka's own definitions say, field by field.

Two releases judge: the pinned one, and for versions that Kafka 4 dropped the last release that
still spoke them. What differs on purpose is a line of `protocol-specs/ledger.md`, and each such
line must be needed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.protocol.spec import FieldSpec, MessageSpec, spec_directory
from kafkalite.protocol.versions import Versions
from tests.java_codec.official import (
    KINDS,
    Definition,
    definitions,
    older_definitions,
    older_jar_directory,
    speaks,
)
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required
from tests.properties.codec_samples import all_specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SERVED_KEYS: Final = frozenset(
    {*range(4), *range(8, 52), 55, 57, 60, 61, 64, 65, 66, 68, 69, 71, 72}
    | {*range(74, 82), *range(83, 93)}
)
"""The APIs a Kafka 4.3 broker listener shows to clients."""

Facts = dict[str, str]
"""What is said of a field or a message, each fact by its name."""

LEDGER_LINE: Final = re.compile(r"^- `([^`]+)`: ", re.MULTILINE)


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    with required():
        jar_directory()
        older_jar_directory()


def test_every_message_a_broker_needs_has_a_spec() -> None:
    named = {
        name
        for name, definition in definitions().items()
        if definition["type"].startswith(("coordinator-", "metadata", "header"))
        or definition.get("apiKey") in SERVED_KEYS
    }
    assert named - set(all_specs()) == set()


def test_the_specs_say_what_the_release_says() -> None:
    differences = {
        difference
        for name, spec in all_specs().items()
        for difference in compared(spec, definitions()[name], speaks(definitions()[name]))
    }
    assert differences == ledger("differences")


def test_dropped_versions_say_what_the_older_release_said() -> None:
    differences = set()
    for name, spec in all_specs().items():
        now = speaks(definitions()[name])
        if spec.versions.lowest < now.lowest:
            dropped = Versions(spec.versions.lowest, now.lowest - 1)
            differences |= set(compared(spec, older_definitions()[name], dropped))
    # Which versions there are is no question here: that is why there are two judges.
    differences -= {f"{name} versions" for name in all_specs()}
    differences -= {f"{name} unstable" for name in all_specs()}
    assert differences == ledger("older differences")


def ledger(section: str) -> set[str]:
    """Read the names that lead the lines of one section."""
    text = (spec_directory() / "ledger.md").read_text(encoding="utf-8")
    body = text.partition(f"<!-- {section} -->")[2].partition("<!-- end -->")[0]
    return {match[1] for match in LEDGER_LINE.finditer(body)}


def compared(spec: MessageSpec, definition: Definition, judged: Versions) -> Iterator[str]:
    """Name each fact that differs in the versions that are judged."""
    ours, theirs = message_facts(spec), official_message_facts(definition)
    yield from differing(spec.name, ours, theirs)
    our_fields = judged_fields(spec_fields(spec), judged)
    their_fields = judged_fields(official_fields(definition), judged)
    added = our_fields.keys() - their_fields.keys()
    yield from (f"{spec.name}.{path} added" for path in added)
    if [path for path in our_fields if path not in added] != list(their_fields):
        yield f"{spec.name} order"
    for path in sorted((our_fields.keys() | their_fields.keys()) - added):
        yield from differing(
            f"{spec.name}.{path}", our_fields.get(path) or {}, their_fields.get(path) or {}
        )


def judged_fields(
    fields: Iterator[tuple[str, Callable[[Versions], Facts]]], judged: Versions
) -> dict[str, Facts]:
    """Keep the fields that exist in the versions that are judged, in their order."""
    found = ((path, facts(judged)) for path, facts in fields)
    return {path: facts for path, facts in found if facts}


def differing(where: str, ours: Facts, theirs: Facts) -> Iterator[str]:
    for fact in sorted(ours.keys() | theirs.keys()):
        if ours.get(fact) != theirs.get(fact):
            yield f"{where} {fact}"


# -- what a spec says -------------------------------------------------------------------------


def message_facts(spec: MessageSpec) -> Facts:
    return {
        "kind": spec.kind,
        "key": str(spec.key),
        "versions": str(spec.versions),
        "unstable": str(spec.unstable),
        "flexible": str(spec.flexible),
    }


def spec_fields(spec: MessageSpec) -> Iterator[tuple[str, Callable[[Versions], Facts]]]:
    yield from _spec_fields(spec, spec.fields, "")


def _spec_fields(
    spec: MessageSpec, fields: tuple[FieldSpec, ...], prefix: str
) -> Iterator[tuple[str, Callable[[Versions], Facts]]]:
    for field in fields:
        path = f"{prefix}{field.name}"

        def facts(judged: Versions, field: FieldSpec = field) -> Facts:
            return normal(
                judged,
                type_name=f"{'[]' if field.is_array else ''}{field.type}",
                entity=field.entity,
                versions=field.versions,
                nullable=field.nullable,
                tag=None if field.tag is None else str(field.tag),
                tagged=field.tagged,
                flexible="none" if field.never_flexible else str(field.flexible),
                ignorable=field.ignorable,
                default=field.default,
            )

        yield path, facts
        if field.type in spec.structs:
            yield from _spec_fields(spec, spec.structs[field.type].fields, f"{path}.")


# -- what a definition says -------------------------------------------------------------------


def official_message_facts(definition: Definition) -> Facts:
    unstable = definition.get("latestVersionUnstable") in (True, "true")
    highest = speaks(definition).highest
    return {
        "kind": KINDS.get(str(definition["type"]), str(definition["type"])),
        "key": str(definition.get("apiKey")),
        "versions": str(speaks(definition)),
        "unstable": str(highest if unstable else None),
        "flexible": str(range_of(definition.get("flexibleVersions"))),
    }


def official_fields(
    definition: Definition,
) -> Iterator[tuple[str, Callable[[Versions], Facts]]]:
    shared = {struct["name"]: struct["fields"] for struct in definition.get("commonStructs", [])}
    yield from _official_fields(shared, definition["fields"], "")


def _official_fields(
    shared: dict[str, list[Definition]], fields: list[Definition], prefix: str
) -> Iterator[tuple[str, Callable[[Versions], Facts]]]:
    for field in fields:
        path = f"{prefix}{field['name']}"

        def facts(judged: Versions, field: Definition = field) -> Facts:
            versions = field.get("versions", field.get("taggedVersions"))
            return normal(
                judged,
                type_name=field["type"],
                entity=field.get("entityType"),
                versions=range_of(versions),
                nullable=range_of(field.get("nullableVersions")),
                tag=None if "tag" not in field else str(int(field["tag"])),
                tagged=range_of(field.get("taggedVersions")),
                flexible=str(field.get("flexibleVersions")),
                ignorable=field.get("ignorable") in (True, "true"),
                default=said_default(field),
            )

        yield path, facts
        inner = field.get("fields") or shared.get(field["type"].removeprefix("[]"), [])
        yield from _official_fields(shared, inner, f"{path}.")


def said_default(field: Definition) -> str | None:
    """Return the default as Kafka's generator takes it: only the text "null" means null."""
    default = field.get("default")
    if isinstance(default, bool):
        return str(default).lower()
    return None if default is None else str(default)


# -- both in one form -------------------------------------------------------------------------


def range_of(text: str | None) -> Versions | None:
    return None if text in (None, "none") else Versions.parse(text)


def normal(judged: Versions, *, versions: Versions | None, **said: Any) -> Facts:  # noqa: ANN401
    """Keep what matters in the versions that are judged, open ends closed by them."""
    here = within(versions, judged)
    if here is None:
        return {}
    return {
        "type": said["type_name"],
        "entity": str(said["entity"]),
        "versions": str(here),
        "nullable": str(within(said["nullable"], here)),
        "tag": str(said["tag"]),
        "tagged": str(within(said["tagged"], here)),
        "flexible": said["flexible"],
        "ignorable": str(said["ignorable"]),
        "default": effective_default(said["type_name"], said["default"]),
    }


def within(versions: Versions | None, judged: Versions) -> Versions | None:
    return None if versions is None else versions.overlap(judged)


def effective_default(type_name: str, default: str | None) -> str:
    """Write out the default a field has when nothing is said."""
    if default not in (None, ""):
        assert default is not None
        is_number = type_name.startswith(("int", "uint"))
        return str(int(default, 0)) if is_number else default
    if type_name.startswith("[]"):
        return "[]"
    if type_name == "bool":
        return "false"
    return "0" if type_name.startswith(("int", "uint", "float")) else ""
