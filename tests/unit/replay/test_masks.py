"""The tables of fields that mean more or less than they say: each row is about something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol import codec
from kafkalite.protocol.spec import load_spec, snake_case
from kafkalite.replay.mapping import Kind
from kafkalite.replay.masks import ANY, KEYS, MASKS, OPTIONAL_ROWS, SETS, Treatment, mask_of

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
NAMES = {path.rpartition(".")[2] for paths in PATHS.values() for path in paths}


def test_every_row_is_about_a_field_that_there_is_and_says_why() -> None:
    for (api, path), mask in MASKS.items():
        if api == ANY:
            assert path in NAMES, path
        else:
            own = PATHS[api]
            assert path in own | {each.rpartition(".")[2] for each in own}, (api, path)
        assert mask.why, path


def test_what_names_something_is_compared_by_it_or_for_its_presence() -> None:
    allowed = {Treatment.MAPPED, Treatment.PRESENCE, Treatment.RECORDS}
    assert all(mask.treatment in allowed for mask in MASKS.values() if mask.kind is not None)
    assert all(mask.kind is not None for mask in MASKS.values() if mask.teaches)


def test_lists_without_order_and_rows_left_out_are_fields_that_there_are() -> None:
    assert set(KEYS) <= NAMES
    assert SETS <= NAMES
    assert {name for names in KEYS.values() for name in names} <= NAMES
    assert all(path in PATHS[api] for api, path in OPTIONAL_ROWS)


def test_the_closest_row_counts() -> None:
    assert mask_of("JoinGroup", "member_id").teaches
    assert not mask_of("JoinGroup", "members.member_id").teaches
    assert mask_of("Heartbeat", "member_id").kind is Kind.MEMBER
    assert mask_of("DescribeAcls", "resources.acls.host").treatment is Treatment.EXACT
    assert mask_of("Metadata", "brokers.host").treatment is Treatment.PRESENCE
    assert mask_of("Metadata", "topics.is_internal").treatment is Treatment.EXACT
    assert mask_of("Produce", "timeout_ms").treatment is Treatment.EXACT
    assert mask_of("CreateTopics", "timeout_ms").treatment is Treatment.IGNORED
