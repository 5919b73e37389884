"""The tables of field rules name existing fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.replay.comparison.field_rules import (
    ANY,
    FIELD_RULES,
    OPTIONAL_ROWS,
    ROW_KEYS,
    UNORDERED_VALUES,
    Treatment,
    field_rule,
)
from kafkalite.lab.replay.rewriting.id_mapping import ValueKind
from kafkalite.protocol import codec
from kafkalite.protocol.spec import load_spec, snake_case

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kafkalite.protocol.spec import FieldSpec, StructSpec


def paths_of(
    fields: Sequence[FieldSpec], structs: Mapping[str, StructSpec], prefix: str = ""
) -> Iterator[str]:
    for field in fields:
        yield f"{prefix}{field.attribute}"
        if field.type in structs:
            inner = structs[field.type].fields
            yield from paths_of(inner, structs, f"{prefix}{field.attribute}.")


PATHS = {
    api: {
        path
        for direction in ("request", "response")
        for spec in [load_spec("apis", f"{snake_case(api)}_{direction}")]
        for path in paths_of(spec.fields, spec.structs)
    }
    for api in map(codec.api_name, codec.api_keys())
}
FIELD_NAMES = {path.rpartition(".")[2] for paths in PATHS.values() for path in paths}


def test_every_rule_has_an_existing_field_and_a_reason() -> None:
    for (api, path), rule in FIELD_RULES.items():
        if api == ANY:
            assert path in FIELD_NAMES, path
        else:
            paths = PATHS[api]
            names = {field_path.rpartition(".")[2] for field_path in paths}
            assert path in paths | names, (api, path)
        assert rule.reason, path


def test_every_epoch_has_a_rule() -> None:
    no_rule = field_rule("Heartbeat", "no_such_field")
    missing = {
        (api, path)
        for api, paths in PATHS.items()
        for path in paths
        if {"epoch", "generation"} & {*path.rpartition(".")[2].split("_")}
        and field_rule(api, path) == no_rule
        and not any(other.startswith(f"{path}.") for other in paths)
    }
    assert missing == set()


def test_field_with_a_kind_is_mapped_or_compared_by_presence() -> None:
    allowed = {Treatment.MAPPED, Treatment.PRESENCE, Treatment.RECORDS}
    assert all(rule.treatment in allowed for rule in FIELD_RULES.values() if rule.kind is not None)
    assert all(rule.kind is not None for rule in FIELD_RULES.values() if rule.is_generated)


def test_unordered_lists_and_optional_rows_are_existing_fields() -> None:
    assert set(ROW_KEYS) <= FIELD_NAMES
    assert UNORDERED_VALUES <= FIELD_NAMES
    assert {name for names in ROW_KEYS.values() for name in names} <= FIELD_NAMES
    assert all(path in PATHS[api] for api, path in OPTIONAL_ROWS)


def test_most_specific_rule_has_precedence() -> None:
    assert field_rule("JoinGroup", "member_id").is_generated
    assert not field_rule("JoinGroup", "members.member_id").is_generated
    assert field_rule("Heartbeat", "member_id").kind is ValueKind.MEMBER
    assert field_rule("DescribeAcls", "resources.acls.host").treatment is Treatment.EXACT
    assert field_rule("Metadata", "brokers.host").treatment is Treatment.PRESENCE
    assert field_rule("Metadata", "topics.is_internal").treatment is Treatment.EXACT
    assert field_rule("Produce", "timeout_ms").treatment is Treatment.EXACT
    assert field_rule("CreateTopics", "timeout_ms").treatment is Treatment.IGNORED


def test_ids_of_tokens_are_compared_by_presence_and_their_hmacs_not() -> None:
    assert field_rule("CreateDelegationToken", "token_id").treatment is Treatment.PRESENCE
    assert field_rule("DescribeDelegationToken", "tokens.token_id").treatment is Treatment.PRESENCE
    assert field_rule("DescribeDelegationToken", "tokens.hmac").treatment is Treatment.IGNORED
