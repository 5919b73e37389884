"""Metadata records survive the log, byte for byte as Kafka writes them."""

from __future__ import annotations

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.metadata.serde import MetadataSerde
from kafkalite.protocol.records.partition import PartitionRecord
from kafkalite.protocol.records.topic import TopicRecord

ID = bytes(range(16))


def test_a_topic_record_has_kafkas_bytes() -> None:
    """Frame 1, API key 2, version 0, the name's length and one, the name, the id, no tags."""
    record: CoordinatorRecord[object, object] = CoordinatorRecord(
        None, TopicRecord(name="abc", topic_id=ID)
    )
    key, value = MetadataSerde().encode(record)
    assert key is None
    assert value == b"\x01\x02\x00\x04abc" + ID + b"\x00"
    assert MetadataSerde().decode(key, value) == record


def test_a_partition_record_is_written_in_the_newest_version() -> None:
    record: CoordinatorRecord[object, object] = CoordinatorRecord(
        None, PartitionRecord(partition_id=1, topic_id=ID, replicas=[1], isr=[1], leader=1)
    )
    key, value = MetadataSerde().encode(record)
    assert value is not None
    assert value[:3] == b"\x01\x03\x02"
    assert MetadataSerde().decode(key, value) == record


def test_what_is_no_metadata_record_is_passed_over() -> None:
    assert MetadataSerde().decode(b"k", b"v") is None
    assert MetadataSerde().decode(None, None) is None
