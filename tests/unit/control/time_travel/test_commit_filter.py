"""A condition changes at the same batches, whether chunks are filtered or decoded."""

# ruff: noqa: S311 - the logs are to be repeatable
from __future__ import annotations

import struct
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.control.time_travel.commit_filter import CommitFilter
from kafkalite.control.time_travel.commits import CommitReplay
from kafkalite.control.time_travel.conditions import calls_of, parse_condition
from kafkalite.control.time_travel.logs import PastLog
from kafkalite.control.time_travel.points import LATEST, TimeTravelError
from kafkalite.control.time_travel.replay import commit_needle
from kafkalite.control.time_travel.scan import Scan, plain_batches
from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.group import OffsetAndMetadata
from kafkalite.groups.offsets_topic_records import offset_commit_record, written_version
from kafkalite.groups.pending_offsets import OffsetKey
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

    from kafkalite.control.time_travel.conditions import Condition

SERDE = CoordinatorSerde(written_version)
SHOP, OTHER = OffsetKey("shop", "orders", 0), OffsetKey("other", "orders", 0)
CONDITIONS = (
    "committed(shop, orders, 0) < 20",
    "committed(shop, orders, 0) == none",
    "not (committed(shop, orders, 0) > 900 or committed(shop, orders, 0) == none)",
    "committed(shop, orders, 0) >= 50 and 900 != committed(shop, orders, 0)",
)


class Chunks(NamedTuple):
    """A part of a log with these chunks."""

    contents: list[bytes]
    first_offset: int = 0

    def chunks(self) -> Iterator[bytes]:
        yield from self.contents


def record(random: Random, *, is_plain: bool) -> NewRecord:
    metadata = ""
    if random.random() < 0.2:  # it looks like a commit of the other partition
        fake = commit_needle(*SHOP) + b"\x20\x00\x03" + struct.pack(">q", random.randrange(30))
        metadata = fake.decode("latin-1") if fake.isascii() else ""
    offset = OffsetAndMetadata(
        offset=random.choice((random.randrange(100, 1000), random.randrange(100, 1000), 10, 950)),
        leader_epoch=0,
        metadata=metadata,
        commit_timestamp_ms=1,
        topic_id=bytes(16),
    )
    name = random.choice((SHOP, OTHER)) if not metadata else OTHER
    key, value = SERDE.encode(offset_commit_record(*name, offset))
    return NewRecord(key, value if is_plain or random.random() < 0.9 else None, 1)


def batches(random: Random, *, is_plain: bool) -> Iterator[bytes]:
    for _ in range(random.randrange(1, 12)):
        if not is_plain and random.random() < 0.2:
            marker = ControlMarker(random.choice(list(ControlKind)[:2]), 0)
            yield build_control_batch(marker, producer_id=1, producer_epoch=0, now_ms=1)
            continue
        attributes = 0 if is_plain else random.choice((0, 0, 1, TRANSACTIONAL))
        producer = BatchProducer(1, 0, 0) if attributes & TRANSACTIONAL else BatchProducer()
        records = [record(random, is_plain=is_plain) for _ in range(random.randrange(1, 4))]
        yield build_batch(records, attributes=attributes, producer=producer)


def log_of(random: Random) -> PastLog:
    """Return a log of chunks, most of which have only plain batches."""
    contents, base_offset = [], 0
    for _ in range(40):
        chunk = b""
        for data in batches(random, is_plain=random.random() < 0.7):
            chunk += struct.pack(">q", base_offset) + data[8:]
            base_offset = BatchView(memoryview(chunk)[-len(data) :]).last_offset + 1
        contents.append(chunk)
    return PastLog("log", 0, [Chunks(contents)])


def changes(log: PastLog, condition: Condition, *, is_filtered: bool) -> tuple[list[object], int]:
    """Return where the condition changes, with the values, and the number of batches read."""
    replay = CommitReplay("log", [SHOP])
    scan = Scan(log, LATEST, replay.needles)
    if is_filtered:
        scan.filter = CommitFilter(condition, calls_of(condition)[0], replay)
    found: list[object] = []
    count = 0
    for batch in scan:
        if batch is None:
            continue
        count += 1
        before = replay.machine.offsets.get(SHOP)
        for _ in replay.apply(batch):
            pass
        after = replay.machine.offsets.get(SHOP)
        truth = [condition.is_true(lambda _, offset=each: offset) for each in (before, after)]  # type: ignore[misc]
        if truth[0] is not truth[1]:
            found.append((batch.base_offset, before, after))
    found.append((scan.end_offset, replay.machine.offsets))
    return found, count


@pytest.mark.parametrize("text", CONDITIONS)
def test_changes_are_those_of_all_batches(text: str) -> None:
    condition = parse_condition(text)
    counts = []
    for seed in range(6):
        log = log_of(Random(seed))
        expected, most = changes(log, condition, is_filtered=False)
        found, count = changes(log, condition, is_filtered=True)
        assert found == expected
        counts.append((count, most))
        assert len(expected) > 3
    assert sum(each[0] for each in counts) < sum(each[1] for each in counts)


def plain(*offsets: int) -> bytes:
    """Return equal batches of one commit each, from offset 0 on."""
    chunk = b""
    for base_offset, offset in enumerate(offsets):
        committed = OffsetAndMetadata(
            offset=offset, leader_epoch=0, commit_timestamp_ms=1, topic_id=bytes(16)
        )
        key, value = SERDE.encode(offset_commit_record(*SHOP, committed))
        data = build_batch([NewRecord(key, value, 1)])
        chunk += struct.pack(">q", base_offset) + data[8:]
    return chunk


def test_only_the_batches_that_change_a_condition_are_read() -> None:
    log = PastLog("log", 0, [Chunks([plain(*range(100, 200), 3, *range(100, 200))])])
    found, count = changes(log, parse_condition(CONDITIONS[0]), is_filtered=True)
    assert found[:2] == [(100, 199, 3), (101, 3, 100)]
    assert count == 2


@pytest.mark.parametrize(
    ("position", "value"), [(7, 9), (16, 1), (22, 1), (22, 0x10), (26, 1), (60, 2), (35, 1)]
)
def test_chunks_with_other_batches_are_not_plain(position: int, value: int) -> None:
    chunk = bytearray(plain(1, 2, 3))
    step = len(chunk) // 3
    assert plain_batches(bytes(chunk), 0) == (range(0, 3 * step, step), 3)
    assert plain_batches(bytes(chunk[: 2 * step]) + plain(1), 0)[0] == ()
    for number in range(3):
        damaged = chunk.copy()
        damaged[number * step + position] = value
        assert plain_batches(bytes(damaged), 0)[0] == ()
    assert plain_batches(bytes(chunk), 1)[0] == ()
    assert not plain_batches(b"", 0)[0]


def test_a_commit_that_cannot_be_decoded_is_refused() -> None:
    chunk = plain(1, 2)
    position = chunk.index(commit_needle(*SHOP)) + len(commit_needle(*SHOP)) + 2
    damaged = chunk[:position] + b"\x09" + chunk[position + 1 :]
    log = PastLog("log", 0, [Chunks([damaged])])
    with pytest.raises(TimeTravelError, match="the record at offset 0 of log cannot be decoded"):
        changes(log, parse_condition(CONDITIONS[0]), is_filtered=True)
