"""Offsets that are loaded without decoding each record are those that a decoder finds."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.contract import CoordinatorRecord, UnreadableLogError
from kafkalite.coordinator.loading import replay_transactions
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offsets_topic_records import (
    offset_commit_record,
    offset_commit_tombstone,
    written_version,
)
from kafkalite.groups.shard import GroupShard
from kafkalite.metadata.image import MetadataImage
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.records.group_metadata import GroupMetadataKey
from kafkalite.protocol._generated.records.offset_commit import OffsetCommitKey
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.testing.coordinator_log import Entry

SERDE = CoordinatorSerde(written_version)
OLD_SERDE = CoordinatorSerde(lambda value: min(written_version(value), 3))


def entries(random: Random, count: int) -> Iterator[Entry]:
    """Yield records of few groups and topics: commits of several versions, and tombstones."""
    for number in range(count):
        group, topic = random.choice(("g", "", "gruppe-ä")), random.choice(("t", "topic"))
        partition = random.choice((0, 1, 2**31 - 1))
        kind = random.randrange(10)
        if kind == 0:
            yield SERDE.encode(offset_commit_tombstone(group, topic, partition))
        elif kind == 1:
            yield SERDE.encode(CoordinatorRecord(GroupMetadataKey(group=group), None))
        else:
            offset = OffsetAndMetadata(
                number,
                random.randrange(2**40),
                random.choice((-1, 7)),
                random.choice(("", "", "", "note", "n" * 200)),
                random.choice((None, None, 10**12)),
                random.choice((bytes(16), b"i" * 16)),
                random.choice((-1, 3)),
            )
            serde = random.choice((SERDE, SERDE, OLD_SERDE))
            key, value = serde.encode(offset_commit_record(group, topic, partition, offset))
            assert key is not None
            yield (key + b"x" if kind == 2 else key), value


def new_shard() -> GroupShard:
    return GroupShard(
        config=BrokerConfig.from_text({}), entropy=SeededEntropy(), image=MetadataImage()
    )


def load(log: MemoryCoordinatorLog, *, is_decoded: bool) -> GroupShard:
    shard = new_shard()
    if is_decoded:
        replay_transactions(log, SERDE, shard)
    else:
        replay_transactions(log, SERDE, shard, shard.offsets.loader.replay_encoded)
    return shard


def log_of(batches: Sequence[Entry]) -> MemoryCoordinatorLog:
    log = MemoryCoordinatorLog()
    for entry in batches:
        log.append([entry], 0)
    return log


@pytest.mark.parametrize("seed", range(20))
def test_all_offsets_and_groups_are_those_of_decoded_records(seed: int) -> None:
    log = log_of(list(entries(Random(seed), 200)))  # noqa: S311 - a seeded test
    expected, loaded = load(log, is_decoded=True), load(log, is_decoded=False)
    assert list(loaded.offsets.all_committed()) == list(expected.offsets.all_committed())
    assert list(loaded.directory.groups) == list(expected.directory.groups)
    assert any(expected.offsets.all_committed())


def test_a_value_that_cannot_be_decoded_makes_the_log_unreadable() -> None:
    offset = OffsetAndMetadata(1, 2)
    records = [SERDE.encode(offset_commit_record("g", "t", index, offset)) for index in range(3)]
    key, value = records[-1]
    assert value is not None
    with pytest.raises(UnreadableLogError, match="entry 2 is not a record"):
        load(log_of([*records[:2], (key, value[:-3])]), is_decoded=False)


def test_records_of_other_types_are_left_to_the_shard() -> None:
    loader = new_shard().offsets.loader
    assert not loader.replay_encoded(b"\x7f\xff", b"")
    key, _ = SERDE.encode(CoordinatorRecord(GroupMetadataKey(group="g"), None))
    assert not loader.replay_encoded(key, b"\x00\x03")


def test_offsets_of_open_transactions_are_superseded() -> None:
    shard = new_shard()
    offset = OffsetAndMetadata(1, 2)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    record = offset_commit_record("g", "t", 0, offset)
    shard.replay_transactional(5, record)
    encoded_key, encoded_value = SERDE.encode(record)
    assert not shard.offsets.loader.replay_encoded(encoded_key, encoded_value)
    assert shard.offsets.pending.of_group(key.group)
