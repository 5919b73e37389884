"""Our specs equal Kafka's own definitions, field by field.

They are compared with two releases: the newest one, and for versions that Kafka 4 dropped, the last
release that had them. Intended differences are lines of `protocol-specs/ledger.md`; a line without
a difference is an error.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.protocol._generated.codecs.index import APIS
from kafkalite.protocol.api_names import APIS_WITHOUT_SPEC, known_api_name
from kafkalite.protocol.spec import FieldSpec, MessageSpec, spec_directory
from kafkalite.protocol.versions import Versions
from tests.java_codec.official import (
    KINDS,
    Definition,
    definitions,
    older_definitions,
    older_jar_directory,
    supported_versions,
)
from tests.oracle.jars import jar_directory
from tests.oracle.requirements import required
from tests.properties.codec_samples import all_specs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

pytestmark = pytest.mark.endurance

Facts = dict[str, str]
"""Facts of a field or a message, by name."""
LEDGER_LINE: Final = re.compile(r"^- `([^`]+)`: ", re.MULTILINE)

_COMMON_WORDS: Final = 3
"""Descriptions with up to this many words, such as "The topic name.", may be equal by chance."""


@pytest.fixture(scope="module", autouse=True)
def _jars() -> None:
    with required():
        jar_directory()
        older_jar_directory()


def test_every_message_of_a_broker_has_a_spec() -> None:
    required = {
        name
        for name, definition in definitions().items()
        if definition["type"].startswith(("coordinator-", "metadata", "header"))
        or definition.get("apiKey") in served_keys()
    }
    assert required - set(all_specs()) == set()


def test_a_spec_without_a_definition_is_named() -> None:
    with pytest.raises(AssertionError, match="Kafka has no message NoSuchRequest"):
        definition_of("NoSuchRequest", definitions())


def test_every_api_has_the_name_of_kafka() -> None:
    names = {
        definition["apiKey"]: name.removesuffix("Request")
        for name, definition in {**older_definitions(), **definitions()}.items()
        if definition["type"] == "request"
    }
    assert {key: known_api_name(key) for key in names} == names
    assert APIS_WITHOUT_SPEC.keys() == names.keys() - APIS.keys()


def test_specs_equal_the_newest_release() -> None:
    differences = {
        difference
        for name, spec in all_specs().items()
        for definition in (definition_of(name, definitions()),)
        for difference in differences_in(spec, definition, supported_versions(definition))
    }
    assert differences == ledger("differences")


def test_dropped_versions_equal_the_older_release() -> None:
    differences = set()
    for name, spec in all_specs().items():
        now = supported_versions(definition_of(name, definitions()))
        if spec.versions.lowest < now.lowest:
            dropped = Versions(spec.versions.lowest, now.lowest - 1)
            differences |= set(
                differences_in(spec, definition_of(name, older_definitions()), dropped)
            )
    # The sets of versions differ between the two releases by intention.
    differences -= {f"{name} versions" for name in all_specs()}
    differences -= {f"{name} unstable" for name in all_specs()}
    assert differences == ledger("older differences")


def test_field_descriptions_are_present_and_not_copied() -> None:
    official = {
        text for definition in definitions().values() for text in _descriptions_of(definition)
    }
    missing, copied = set(), set()
    for name, spec in all_specs().items():
        for path, text in _descriptions(spec, spec.fields, ""):
            if not text:
                missing.add(f"{name}.{path}")
            elif len(text.split()) > _COMMON_WORDS and text in official:
                copied.add(f"{name}.{path}")
    assert (missing, copied) == (set(), set())


def _descriptions(
    spec: MessageSpec, fields: tuple[FieldSpec, ...], prefix: str
) -> Iterator[tuple[str, str]]:
    for field in fields:
        yield f"{prefix}{field.name}", field.about
        if field.type in spec.structs:
            yield from _descriptions(
                spec, spec.structs[field.type].fields, f"{prefix}{field.name}."
            )


def _descriptions_of(definition: Definition) -> Iterator[str]:
    """Yield the descriptions of all fields of a definition."""
    if definition.get("about"):
        yield " ".join(definition["about"].split())
    for field in (*definition.get("fields", ()), *definition.get("commonStructs", ())):
        yield from _descriptions_of(field)


def served_keys() -> set[int]:
    """Return the keys of the APIs that brokers of the newest release serve."""
    return {
        definition["apiKey"]
        for definition in definitions().values()
        if "broker" in definition.get("listeners", ())
    }


def definition_of(name: str, release: Mapping[str, Definition]) -> Definition:
    """Return the definition of a message in a release."""
    assert name in release, f"Kafka has no message {name}: only APIs of Kafka can be added"
    return release[name]


def ledger(section: str) -> set[str]:
    """Return the names at the start of the lines of a section of the ledger."""
    text = (spec_directory() / "ledger.md").read_text(encoding="utf-8")
    body = text.partition(f"<!-- {section} -->")[2].partition("<!-- end -->")[0]
    return {match[1] for match in LEDGER_LINE.finditer(body)}


def differences_in(
    spec: MessageSpec, definition: Definition, compared_versions: Versions
) -> Iterator[str]:
    """Yield the names of the facts that differ in the compared versions."""
    spec_facts, official_facts = message_facts(spec), official_message_facts(definition)
    yield from differing_facts(spec.name, spec_facts, official_facts)
    fields = fields_in(spec_fields(spec), compared_versions)
    official_field_facts = fields_in(official_fields(definition), compared_versions)
    added = fields.keys() - official_field_facts.keys()
    yield from (f"{spec.name}.{path} added" for path in added)
    if [path for path in fields if path not in added] != list(official_field_facts):
        yield f"{spec.name} order"
    for path in sorted((fields.keys() | official_field_facts.keys()) - added):
        yield from differing_facts(
            f"{spec.name}.{path}", fields.get(path) or {}, official_field_facts.get(path) or {}
        )


def fields_in(
    fields: Iterator[tuple[str, Callable[[Versions], Facts]]], compared_versions: Versions
) -> dict[str, Facts]:
    """Return the fields that exist in the compared versions, in order."""
    all_facts = ((path, facts(compared_versions)) for path, facts in fields)
    return {path: facts for path, facts in all_facts if facts}


def differing_facts(where: str, spec_facts: Facts, official_facts: Facts) -> Iterator[str]:
    for fact in sorted(spec_facts.keys() | official_facts.keys()):
        if spec_facts.get(fact) != official_facts.get(fact):
            yield f"{where} {fact}"


# -- facts of a spec --------------------------------------------------------------------------


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

        def facts(compared_versions: Versions, field: FieldSpec = field) -> Facts:
            return comparable_facts(
                compared_versions,
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


# -- facts of a definition --------------------------------------------------------------------


def official_message_facts(definition: Definition) -> Facts:
    unstable = definition.get("latestVersionUnstable") in (True, "true")
    highest = supported_versions(definition).highest
    return {
        "kind": KINDS.get(str(definition["type"]), str(definition["type"])),
        "key": str(definition.get("apiKey")),
        "versions": str(supported_versions(definition)),
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

        def facts(compared_versions: Versions, field: Definition = field) -> Facts:
            versions = field.get("versions", field.get("taggedVersions"))
            return comparable_facts(
                compared_versions,
                type_name=field["type"],
                entity=field.get("entityType"),
                versions=range_of(versions),
                nullable=range_of(field.get("nullableVersions")),
                tag=None if "tag" not in field else str(int(field["tag"])),
                tagged=range_of(field.get("taggedVersions")),
                flexible=str(field.get("flexibleVersions")),
                ignorable=field.get("ignorable") in (True, "true"),
                default=default_of(field),
            )

        yield path, facts
        inner = field.get("fields") or shared.get(field["type"].removeprefix("[]"), [])
        yield from _official_fields(shared, inner, f"{path}.")


def default_of(field: Definition) -> str | None:
    """Return the default as Kafka's generator reads it: only the text "null" is null."""
    default = field.get("default")
    if isinstance(default, bool):
        return str(default).lower()
    return None if default is None else str(default)


# -- common form ------------------------------------------------------------------------------


def range_of(text: str | None) -> Versions | None:
    return None if text in (None, "none") else Versions.parse(text)


def comparable_facts(
    compared_versions: Versions,
    *,
    versions: Versions | None,
    **facts: Any,  # noqa: ANN401 - values of several types
) -> Facts:
    """Return the facts that matter in the compared versions, limited to them."""
    overlap = overlap_of(versions, compared_versions)
    if overlap is None:
        return {}
    return {
        "type": facts["type_name"],
        "entity": str(facts["entity"]),
        "versions": str(overlap),
        "nullable": str(overlap_of(facts["nullable"], overlap)),
        "tag": str(facts["tag"]),
        "tagged": str(overlap_of(facts["tagged"], overlap)),
        "flexible": facts["flexible"],
        "ignorable": str(facts["ignorable"]),
        "default": effective_default(facts["type_name"], facts["default"]),
    }


def overlap_of(versions: Versions | None, compared_versions: Versions) -> Versions | None:
    return None if versions is None else versions.overlap(compared_versions)


def effective_default(type_name: str, default: str | None) -> str:
    """Return the default value of a field, also if it is implicit."""
    if default not in (None, ""):
        assert default is not None
        is_number = type_name.startswith(("int", "uint"))
        return str(int(default, 0)) if is_number else default
    if type_name.startswith("[]"):
        return "[]"
    if type_name == "bool":
        return "false"
    return "0" if type_name.startswith(("int", "uint", "float")) else ""
