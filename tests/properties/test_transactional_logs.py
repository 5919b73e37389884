"""Readers of committed records, for any history of their log.

Producers of both protocols write, commit and abort. Segments roll, are compacted and deleted. The
broker is stopped or killed at any time. No reader sees an aborted or open record, every committed
record is readable, and the last stable offset never moves back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.config.log_config import LogConfig
from kafkalite.metadata.image import PartitionImage
from kafkalite.partitions.partition import Partition
from kafkalite.ports.background import run_steps
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    build_batch,
    split_batches,
)
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.log import Log
from kafkalite.storage.log_cleaner import clean
from kafkalite.storage.record_format import NewRecord, Record
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.ports.files import Files

pytestmark = pytest.mark.endurance  # it takes ten seconds

DELETE = LogConfig(segment_bytes=700, index_interval_bytes=150)
COMPACT = DELETE._replace(
    cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, delete_retention_ms=40
)
IMAGE = PartitionImage(
    index=0, leader=0, leader_epoch=0, partition_epoch=0, replicas=(0,), isr=(0,)
)
KEYS = (b"a", b"b", b"c")
STEP_MS = 10
Row = tuple[int, bytes, bytes]
"""Offset, key and value."""


class Step(NamedTuple):
    """One event: its kind, its producer, and a number of records or bytes."""

    event: str
    writer: int = 0
    size: int = 1


END_ACTIONS = st.lists(
    st.builds(
        Step,
        st.sampled_from(
            ("send", "send", "send", "commit", "abort", "plain", "roll", "compact", "stop", "kill")
        ),
        st.integers(0, 2),
        st.integers(1, 4),
    ),
    min_size=40,
    max_size=80,
)


@dataclass
class Writer:
    """A transactional producer with the records of its open transaction."""

    producer_id: int
    grows_epochs: bool
    epoch: int = 0
    sequence: int = 0
    undecided: list[Row] = field(default_factory=list)

    def marker(self, *, is_commit: bool) -> TransactionMarker:
        if self.grows_epochs:
            self.epoch, self.sequence = self.epoch + 1, 0
        version = 2 if self.grows_epochs else 1
        return TransactionMarker(self.producer_id, self.epoch, 0, is_commit, version)


class WrittenPartition:
    """A partition, its producers, and the decided transactions."""

    def __init__(self, config: LogConfig, files: Files | None = None) -> None:
        self.files = files or MemoryFiles()
        self.config = config
        self.now_ms = 1000
        self.written = 0
        self.stable = 0
        self.writers = [Writer(number, grows_epochs=number != 1) for number in range(3)]
        self.committed: list[Row] = []
        self.partition = self.open(clean_shutdown=True)

    def open(self, *, clean_shutdown: bool) -> Partition:
        log = Log.open(
            self.files, "data/t-0", self.config, now_ms=self.now_ms, clean_shutdown=clean_shutdown
        )
        return Partition("t", bytes(16), IMAGE, log)

    def apply(self, step: Step) -> None:
        self.now_ms += STEP_MS
        getattr(self, step.event)(step)
        assert self.partition.last_stable_offset >= self.stable
        self.stable = self.partition.last_stable_offset

    def send(self, step: Step) -> None:
        writer = self.writers[step.writer]
        producer = BatchProducer(writer.producer_id, writer.epoch, writer.sequence)
        writer.undecided += self.append(step.size, producer, TRANSACTIONAL)
        writer.sequence += step.size

    def plain(self, step: Step) -> None:
        self.committed += self.append(step.size)

    def append(
        self, count: int, producer: BatchProducer | None = None, attributes: int = 0
    ) -> list[Row]:
        rows = []
        for _ in range(count):
            self.written += 1
            rows.append((KEYS[self.written % len(KEYS)], b"%d" % self.written))
        records = [NewRecord(key, value, self.now_ms) for key, value in rows]
        data = build_batch(records, attributes=attributes, producer=producer or BatchProducer())
        appended = self.partition.append(BatchView(data), self.now_ms, is_verified=True)
        return [(appended.base_offset + delta, *row) for delta, row in enumerate(rows)]

    def commit(self, step: Step) -> None:
        writer = self.writers[step.writer]
        self.partition.append_marker(writer.marker(is_commit=True), self.now_ms)
        self.committed += writer.undecided
        writer.undecided = []

    def abort(self, step: Step) -> None:
        writer = self.writers[step.writer]
        self.partition.append_marker(writer.marker(is_commit=False), self.now_ms)
        writer.undecided = []

    def roll(self, _: Step) -> None:
        self.partition.log.roll(self.now_ms)

    def compact(self, step: Step) -> None:
        self.now_ms += step.size * STEP_MS
        plan = plan_log_compaction(
            self.partition.log,
            last_stable_offset=self.partition.last_stable_offset,
            now_ms=self.now_ms,
        )
        if plan is not None:
            run_steps(clean(self.partition.log, plan, now_ms=self.now_ms))

    def stop(self, _: Step) -> None:
        self.partition.log.close()
        self.partition = self.open(clean_shutdown=True)

    def kill(self, _: Step) -> None:
        self.partition.log.close_files()
        self.partition = self.open(clean_shutdown=False)


def read_committed(partition: Partition, max_bytes: int = 10**6) -> list[Record]:
    """Return the records that a read_committed consumer gets from the responses."""
    offset = partition.log_start_offset
    limit_offset = partition.last_stable_offset
    records: list[Record] = []
    while offset < limit_offset:
        data = partition.read(
            offset, max_bytes=max_bytes, limit_offset=limit_offset, at_least_one=True
        )
        if not data:
            break
        aborted = sorted(
            (transaction.first_offset, transaction.producer_id)
            for transaction in partition.aborted_in_read(offset, len(data))
        )
        aborting: set[int] = set()
        for batch in split_batches(data):
            while aborted and aborted[0][0] <= batch.last_offset:
                aborting.add(aborted.pop(0)[1])
            marker = batch.control_marker() if batch.is_control else None
            if marker is not None and not marker.kind:
                aborting.discard(batch.producer_id)
            if not (batch.is_control or (batch.is_transactional and batch.producer_id in aborting)):
                records += [record for record in batch.records() if record.offset >= offset]
            offset = batch.last_offset + 1
    return records


def check(partition: WrittenPartition, max_bytes: int) -> None:
    """Check the records that a reader of committed records sees."""
    stable = partition.partition.last_stable_offset
    undecided = [row[0] for writer in partition.writers for row in writer.undecided]
    assert stable == min(undecided, default=partition.partition.end_offset)
    decided = {row for row in partition.committed if row[0] < stable}
    rows = [
        (record.offset, record.key, record.value)
        for record in read_committed(partition.partition, max_bytes)
    ]
    assert rows == sorted(rows)
    if "compact" not in partition.config.cleanup_policy:
        assert rows == sorted(decided)
    assert decided.issuperset(rows)
    latest = {key: value for _, key, value in sorted(decided)}
    assert {key: value for _, key, value in rows} == latest


@pytest.mark.parametrize("config", [DELETE, COMPACT], ids=["delete", "compact"])
@given(steps=END_ACTIONS, max_bytes=st.sampled_from((1, 200, 10**6)))
def test_readers_see_committed_records(
    config: LogConfig, steps: Sequence[Step], max_bytes: int
) -> None:
    partition = WrittenPartition(config)
    for step in steps:
        partition.apply(step)
    check(partition, max_bytes)
    for event in ("roll", "compact", "kill", "stop"):
        partition.apply(Step(event, size=4))
        check(partition, max_bytes)
    for writer in range(3):
        partition.apply(Step("abort", writer))
    check(partition, max_bytes)
    assert partition.partition.last_stable_offset == partition.partition.end_offset


SCRIPT = [
    Step("send", 0, 2), Step("plain"), Step("send", 1, 2), Step("abort", 0), Step("send", 2),
    Step("roll"), Step("send", 0), Step("commit", 1), Step("compact"), Step("abort", 2),
    Step("send", 1), Step("stop"), Step("roll"), Step("plain"), Step("abort", 0), Step("send", 2),
    Step("commit", 1), Step("roll"), Step("compact", 0, 4), Step("commit", 2),
]  # fmt: skip


class VisibleState(NamedTuple):
    """The visible state of a log."""

    last_stable_offset: int
    end_offset: int
    rows: tuple[Row, ...]
    """Every committed record; of a compacted log, the last one of each key."""


def visible_state(partition: Partition) -> VisibleState:
    rows = [
        (record.offset, record.key or b"", record.value or b"")
        for record in read_committed(partition)
    ]
    if "compact" in partition.log.config.cleanup_policy:
        rows = sorted({row[1]: row for row in rows}.values())
    return VisibleState(partition.last_stable_offset, partition.end_offset, tuple(rows))


def steps_until_the_end(config: LogConfig, files: FaultyFiles) -> int:
    """Return how many steps of the script were done when the disk failed."""
    completed = 0
    try:
        partition = WrittenPartition(config, files)
        for step in SCRIPT:
            partition.apply(step)
            completed += 1
    except CrashedError:
        return completed
    return len(SCRIPT)


@pytest.mark.parametrize("part", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("config", [DELETE, COMPACT], ids=["delete", "compact"])
def test_crash_at_any_step_leaves_every_transaction_complete(
    config: LogConfig, part: float
) -> None:
    disk = FaultyFiles(MemoryFiles())
    partition = WrittenPartition(config, disk)
    states = [visible_state(partition.partition)]
    for step in SCRIPT:
        partition.apply(step)
        states.append(visible_state(partition.partition))
    for fail_at in range(disk.steps):
        files = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=part)
        completed = steps_until_the_end(config, files)
        assert completed < len(SCRIPT)
        log = Log.open(files.disk, "data/t-0", config, now_ms=2000)
        assert (
            visible_state(Partition("t", bytes(16), IMAGE, log))
            in states[completed : completed + 2]
        )
