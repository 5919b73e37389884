"""Readers of committed records, whatever happens to the log that they read.

Producers of both protocols write, commit and abort; segments roll, are compacted and deleted; the
broker is stopped or killed at any point. No reader sees a record that was aborted or is undecided,
every committed one is there, and the last stable offset never moves back.
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
from kafkalite.storage.batch import TRANSACTIONAL, BatchView, Producer, build_batch, split_batches
from kafkalite.storage.cleaning import clean
from kafkalite.storage.compaction import compaction_of
from kafkalite.storage.log import Log
from kafkalite.storage.marker import TransactionMarker
from kafkalite.storage.records import NewRecord, Record
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.ports.files import Files

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
    """One thing that happens: what, to which producer, and with how many records or bytes."""

    what: str
    who: int = 0
    size: int = 1


STEPS = st.lists(
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
    """A transactional producer, and what it has written and not yet ended."""

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


class World:
    """A partition, those who write to it, and what has been decided."""

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

    def take(self, step: Step) -> None:
        self.now_ms += STEP_MS
        getattr(self, step.what)(step)
        assert self.partition.last_stable_offset >= self.stable
        self.stable = self.partition.last_stable_offset

    def send(self, step: Step) -> None:
        writer = self.writers[step.who]
        producer = Producer(writer.producer_id, writer.epoch, writer.sequence)
        writer.undecided += self.append(step.size, producer, TRANSACTIONAL)
        writer.sequence += step.size

    def plain(self, step: Step) -> None:
        self.committed += self.append(step.size)

    def append(
        self, count: int, producer: Producer | None = None, attributes: int = 0
    ) -> list[Row]:
        rows = []
        for _ in range(count):
            self.written += 1
            rows.append((KEYS[self.written % len(KEYS)], b"%d" % self.written))
        records = [NewRecord(key, value, self.now_ms) for key, value in rows]
        data = build_batch(records, attributes=attributes, producer=producer or Producer())
        place = self.partition.append(BatchView(data), self.now_ms, is_verified=True)
        return [(place.base_offset + delta, *row) for delta, row in enumerate(rows)]

    def commit(self, step: Step) -> None:
        writer = self.writers[step.who]
        self.partition.append_marker(writer.marker(is_commit=True), self.now_ms)
        self.committed += writer.undecided
        writer.undecided = []

    def abort(self, step: Step) -> None:
        writer = self.writers[step.who]
        self.partition.append_marker(writer.marker(is_commit=False), self.now_ms)
        writer.undecided = []

    def roll(self, _: Step) -> None:
        self.partition.log.roll(self.now_ms)

    def compact(self, step: Step) -> None:
        self.now_ms += step.size * STEP_MS
        plan = compaction_of(
            self.partition.log,
            last_stable_offset=self.partition.last_stable_offset,
            now_ms=self.now_ms,
        )
        if plan is not None:
            for _ in clean(self.partition.log, plan, now_ms=self.now_ms):
                pass

    def stop(self, _: Step) -> None:
        self.partition.log.close()
        self.partition = self.open(clean_shutdown=True)

    def kill(self, _: Step) -> None:
        self.partition.log.abandon()
        self.partition = self.open(clean_shutdown=False)


def read_committed(partition: Partition, max_bytes: int = 10**6) -> list[Record]:
    """Return what a consumer that reads committed records makes of the answers it gets."""
    offset = partition.log_start_offset
    limit_offset = partition.last_stable_offset
    seen: list[Record] = []
    while offset < limit_offset:
        data = partition.read(
            offset, max_bytes=max_bytes, limit_offset=limit_offset, at_least_one=True
        )
        if not data:
            break
        aborted = sorted(
            (one.first_offset, one.producer_id)
            for one in partition.aborted_in_read(offset, len(data))
        )
        hidden: set[int] = set()
        for batch in split_batches(data):
            while aborted and aborted[0][0] <= batch.last_offset:
                hidden.add(aborted.pop(0)[1])
            marker = batch.control_marker() if batch.is_control else None
            if marker is not None and not marker.kind:
                hidden.discard(batch.producer_id)
            if not (batch.is_control or (batch.is_transactional and batch.producer_id in hidden)):
                seen += [record for record in batch.records() if record.offset >= offset]
            offset = batch.last_offset + 1
    return seen


def judge(world: World, max_bytes: int) -> None:
    """Check what a reader of committed records sees."""
    stable = world.partition.last_stable_offset
    undecided = [row[0] for writer in world.writers for row in writer.undecided]
    assert stable == min(undecided, default=world.partition.end_offset)
    decided = {row for row in world.committed if row[0] < stable}
    rows = [(one.offset, one.key, one.value) for one in read_committed(world.partition, max_bytes)]
    assert rows == sorted(rows)
    if "compact" not in world.config.cleanup_policy:
        assert rows == sorted(decided)
    assert decided.issuperset(rows)
    latest = {key: value for _, key, value in sorted(decided)}
    assert {key: value for _, key, value in rows} == latest


@pytest.mark.parametrize("config", [DELETE, COMPACT], ids=["delete", "compact"])
@given(steps=STEPS, max_bytes=st.sampled_from((1, 200, 10**6)))
def test_readers_see_what_was_committed(
    config: LogConfig, steps: Sequence[Step], max_bytes: int
) -> None:
    world = World(config)
    for step in steps:
        world.take(step)
    judge(world, max_bytes)
    for what in ("roll", "compact", "kill", "stop"):
        world.take(Step(what, size=4))
        judge(world, max_bytes)
    for writer in range(3):
        world.take(Step("abort", writer))
    judge(world, max_bytes)
    assert world.partition.last_stable_offset == world.partition.end_offset


SCRIPT = [
    Step("send", 0, 2), Step("plain"), Step("send", 1, 2), Step("abort", 0), Step("send", 2),
    Step("roll"), Step("send", 0), Step("commit", 1), Step("compact"), Step("abort", 2),
    Step("send", 1), Step("stop"), Step("roll"), Step("plain"), Step("abort", 0), Step("send", 2),
    Step("commit", 1), Step("roll"), Step("compact", 0, 4), Step("commit", 2),
]  # fmt: skip


class Seen(NamedTuple):
    """What can be seen of a log from outside."""

    last_stable_offset: int
    end_offset: int
    rows: tuple[Row, ...]
    """Every record that is committed; of a compacted log, the last of each key."""


def seen_in(partition: Partition) -> Seen:
    rows = [(one.offset, one.key or b"", one.value or b"") for one in read_committed(partition)]
    if "compact" in partition.log.config.cleanup_policy:
        rows = sorted({row[1]: row for row in rows}.values())
    return Seen(partition.last_stable_offset, partition.end_offset, tuple(rows))


def steps_until_the_end(config: LogConfig, files: FaultyFiles) -> int:
    """Return how many steps of the script are done when the disk gives up."""
    done = 0
    try:
        world = World(config, files)
        for step in SCRIPT:
            world.take(step)
            done += 1
    except CrashedError:
        return done
    return len(SCRIPT)


@pytest.mark.parametrize("part", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("config", [DELETE, COMPACT], ids=["delete", "compact"])
def test_a_broker_that_dies_at_any_step_leaves_every_transaction_whole(
    config: LogConfig, part: float
) -> None:
    disk = FaultyFiles(MemoryFiles())
    world = World(config, disk)
    states = [seen_in(world.partition)]
    for step in SCRIPT:
        world.take(step)
        states.append(seen_in(world.partition))
    for fail_at in range(disk.steps):
        files = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=part)
        done = steps_until_the_end(config, files)
        assert done < len(SCRIPT)
        again = Log.open(files.disk, "data/t-0", config, now_ms=2000)
        assert seen_in(Partition("t", bytes(16), IMAGE, again)) in states[done : done + 2]
