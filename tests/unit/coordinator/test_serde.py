"""Coordinator records ↔ bytes, in the version that the coordinator chooses."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey, OffsetCommitValue
from kafkalite.protocol._generated.records.share_update import ShareUpdateKey, ShareUpdateValue

KEY = OffsetCommitKey(group="g", topic="t", partition=1)


@pytest.mark.parametrize("version", [1, 3, 4])
def test_a_record_is_written_in_the_version_chosen_and_read_back(version: int) -> None:
    serde = CoordinatorSerde(lambda _: version)
    record = CoordinatorRecord[object, object](KEY, OffsetCommitValue(offset=5, commit_timestamp=9))
    key, value = serde.encode(record)
    assert value is not None
    assert int.from_bytes(value[:2], "big") == version
    assert serde.decode(key, value) == record


def test_a_tombstone_has_no_value() -> None:
    serde = CoordinatorSerde(lambda _: 4)
    key, value = serde.encode(CoordinatorRecord(KEY, None))
    assert value is None
    assert serde.decode(key, None) == CoordinatorRecord(KEY, None)


def test_record_without_a_known_key_is_ignored() -> None:
    serde = CoordinatorSerde(lambda _: 4)
    assert serde.decode(None, b"") is None
    assert serde.decode(b"\x7f\xff", b"") is None


def test_each_log_has_its_own_types_of_records() -> None:
    serde = CoordinatorSerde(lambda _: 0, "share")
    key = ShareUpdateKey(group_id="g", topic_id=bytes(16), partition=1)
    record = CoordinatorRecord[object, object](key, ShareUpdateValue(start_offset=5))
    assert serde.decode(*serde.encode(record)) == record
