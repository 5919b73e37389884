"""Committed offsets that are read alone equal those of the coordinator's state."""

# ruff: noqa: S311 - the work is to be repeatable
from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.control.time_travel.commits import CommitReplay
from kafkalite.control.time_travel.points import TimeTravelError
from kafkalite.control.time_travel.replay import GroupReplay, commit_needle
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offsets_topic_records import offset_commit_record, written_version
from kafkalite.groups.pending_offsets import OffsetKey
from kafkalite.groups.shard import GroupShard
from kafkalite.metadata.image import MetadataImage
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_batch,
    build_control_batch,
)
from kafkalite.storage.record_format import NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = [OffsetKey("shop", "orders", each) for each in range(2)]
OTHER = OffsetKey("shop", "orders", 2)
SERDE = CoordinatorSerde(written_version)


def record(random: Random) -> NewRecord:
    offset = OffsetAndMetadata(
        offset=random.randrange(1000), leader_epoch=0, commit_timestamp_ms=1, topic_id=bytes(16)
    )
    key, value = SERDE.encode(offset_commit_record(*random.choice([*KEYS, OTHER]), offset))
    return NewRecord(key, value if random.random() < 0.8 else None, 1)


def batches(random: Random) -> Iterator[BatchView]:
    """Yield plain and compressed batches of commits, some of two transactions, and their ends."""
    base_offset = 0
    for _ in range(300):
        producer_id = random.randrange(2)
        if random.random() < 0.2:
            marker = ControlMarker(random.choice(list(ControlKind)[:2]), 0)
            data = build_control_batch(marker, producer_id=producer_id, producer_epoch=0, now_ms=1)
        else:
            codec, is_transactional = random.randrange(2), random.random() < 0.5
            data = build_batch(
                [record(random) for _ in range(random.randrange(1, 4))],
                attributes=codec | (TRANSACTIONAL if is_transactional else 0),
                producer=BatchProducer(producer_id, 0, 0) if is_transactional else BatchProducer(),
            )
        batch = BatchView(struct.pack(">q", base_offset) + data[8:])
        yield batch
        base_offset = batch.last_offset + 1


@pytest.mark.parametrize("seed", range(5))
def test_offsets_are_those_of_the_coordinator_after_each_batch(seed: int) -> None:
    commits = CommitReplay("log", KEYS)
    machine = GroupShard(
        config=BrokerConfig.from_text(), entropy=SystemEntropy(), image=MetadataImage()
    )
    groups = GroupReplay("log", [commit_needle(*each) for each in KEYS], machine)
    changes = 0
    for batch in batches(Random(seed)):
        applied = list(commits.apply(batch))
        expected = list(groups.apply(batch))
        assert list(map(commits.decoded, applied)) == list(map(groups.decoded, expected))
        assert [each[:2] for each in applied] == [each[:2] for each in expected]
        offsets = machine.offsets.of_group("shop").get("orders", {})
        assert commits.machine.offsets == {
            key: offsets[key.partition].offset for key in KEYS if key.partition in offsets
        }
        changes += len(applied)
    assert changes > 100


@pytest.mark.parametrize("value", [b"", bytes(9), b"\x7f\x7f" + bytes(8)])
def test_a_value_that_is_no_offset_is_an_error(value: bytes) -> None:
    key = b"\0\1" + commit_needle(*KEYS[0])
    batch = BatchView(build_batch([NewRecord(key, value, 1)], base_offset=7))
    with pytest.raises(TimeTravelError, match="the record at offset 7 of log cannot be decoded"):
        list(CommitReplay("log", KEYS).apply(batch))
