"""RecordTypes: records of all types of modern groups."""

from __future__ import annotations

import pytest

from kafkalite.groups.consumer import consumer_group_records as consumer
from kafkalite.groups.share import share_group_records as share
from kafkalite.groups.streams import streams_group_records as streams

KINDS = {
    "consumer": (consumer.TYPES, [8, 7, 6, 5, 3]),
    "share": (share.TYPES, [14, 13, 12, 10, 11]),
    "streams": (streams.TYPES, [22, 21, 20, 19, 17]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_tombstones_name_group_and_member_in_the_order_of_kafka(kind: str) -> None:
    types, expected = KINDS[kind]
    last = types.group_tombstone("g")
    tombstones = types.group_tombstones("g", ["m"], [last])
    assert sorted(each.key.RECORD_TYPE for each in tombstones) == sorted(expected)  # type: ignore[attr-defined]
    assert all(each.value is None for each in tombstones)
    current, target, target_epoch, member, group = tombstones
    assert types.member_tombstones("g", "m") == [current, target, member]
    assert (target_epoch, group) == (types.target_epoch_tombstone("g"), last)


@pytest.mark.parametrize("kind", KINDS)
def test_the_target_epoch_is_written_with_its_time(kind: str) -> None:
    types, _ = KINDS[kind]
    record = types.target_epoch_record("g", 5, 99)
    assert record.key == types.target_epoch_key(group_id="g")
    assert record.value == types.target_epoch_value(assignment_epoch=5, assignment_timestamp=99)
