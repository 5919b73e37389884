"""A log whose truncation is interrupted loses no record before it and keeps no removed one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.cluster.cluster import Cluster
from kafkalite.config.broker import BrokerConfig
from kafkalite.config.log_config import LogConfig
from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.background import run_steps
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.storage.log_cleaner import clean
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from tests.properties.crash_points import crashes, different_disks
from tests.unit.storage.logs import batch, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.partitions.partition import Partition
    from kafkalite.storage.log import Log

DELETE = LogConfig(segment_bytes=700, index_interval_bytes=150)
# Every record has its own key, so compaction changes the files but not the records.
COMPACT = DELETE._replace(cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0)
CONFIGS = {"delete": DELETE, "compact": COMPACT}
NAME = ("t", 0)


class PowerLoss(NamedTuple):
    """Which changes of the disk that were not synced survive a loss of power."""

    share: float
    """The part of the new bytes of each file that survives."""
    restores_removed: bool
    """Whether removed bytes and files come back."""

    def after(self, disk: MemoryFiles) -> MemoryFiles:
        """Return the disk after the loss of power."""
        return disk.after_power_loss(
            lambda size: int(size * self.share), restores_removed=self.restores_removed
        )


POWER_LOSSES = [
    PowerLoss(share, restores_removed) for share in (0.0, 0.6) for restores_removed in (False, True)
]
at_every_step = pytest.mark.endurance  # crashes of such a long history take minutes


# --- a truncation ----------------------------------------------------------------------------


class History:
    """The records of a log, as its user knows them."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        """All values that were appended, or whose append was attempted."""
        self.acknowledged = 0
        self.flushed = 0
        self.truncation: int | None = None
        """The offset of a truncation that has begun and not yet ended."""
        self.epoch = 0

    def expectation(self, durable: int) -> tuple[object, ...]:
        """Return all that `check` compares with the log."""
        return durable, self.truncation, self.epoch, tuple(self.values)

    def append(self, log: Log, value: bytes) -> None:
        self.values.append(value)
        log.append([batch(value, keys=[value])], leader_epoch=self.epoch, now_ms=0)
        self.acknowledged = len(self.values)

    def flush(self, log: Log) -> None:
        log.flush()
        self.flushed = log.end_offset

    def truncate(self, directory: DataDirectory, log: Log, offset: int) -> None:
        self.truncation = offset
        self.epoch += 1
        log.prepare_truncation(offset)
        directory.checkpoint({NAME: log})
        log.truncate_to(offset)
        self.truncation = None
        del self.values[offset:]
        self.acknowledged = offset
        self.flushed = min(self.flushed, offset)


def truncate_often(files: FaultyFiles, history: History, seed: int, config: LogConfig) -> None:
    """Append, flush, compact, restart and truncate; results are recorded in `history`."""
    rng = random.Random(seed)  # noqa: S311 - repeatable work
    directory = DataDirectory(files, "data")
    log = directory.open_log(*NAME, config, now_ms=0)
    for step in range(40):
        history.append(log, b"%d-" % step * rng.randrange(1, 30))
        choice = rng.randrange(9)
        if choice == 0:
            history.flush(log)
        elif choice == 1:
            directory.checkpoint({NAME: log})
        elif choice == 2:
            directory.close({NAME: log})
            history.flushed = log.end_offset
            directory = DataDirectory(files, "data")
            log = directory.open_log(*NAME, config, now_ms=0)
        elif choice == 3:
            log.roll(0)
            plan = plan_log_compaction(log, last_stable_offset=log.end_offset, now_ms=0)
            if plan is not None:
                run_steps(clean(log, plan, now_ms=0))
        elif choice in {4, 5}:
            at_most = min(log.end_offset, 12)
            offset = log.end_offset - rng.randrange(at_most + 1)
            if choice == 5:
                offset = max(segment.base_offset for segment in log.segments)
            history.truncate(directory, log, offset)


def check(disk: MemoryFiles, history: History, durable: int, config: LogConfig) -> None:
    """Check the log after a crash, complete the truncation, and check that it is complete."""
    directory = DataDirectory(disk, "data")
    log = directory.open_log(*NAME, config, now_ms=0)
    at_least = durable if history.truncation is None else min(durable, history.truncation)
    assert not log.damage_errors
    assert at_least <= log.end_offset <= len(history.values)
    assert values_of(log) == history.values[: log.end_offset]
    offset = history.truncation
    if offset is not None and offset < log.end_offset:
        assert log.leader_epoch_at(offset) < history.epoch
        log.prepare_truncation(offset)
        directory.checkpoint({NAME: log})
        log.truncate_to(offset)
    expected = [*history.values[: log.end_offset], b"after"]
    log.append([batch(b"after", keys=[b"after"])], leader_epoch=history.epoch, now_ms=0)
    for _ in range(2):
        assert values_of(log) == expected
        log = DataDirectory(disk, "data").open_log(*NAME, config, now_ms=0)
    log.flush()
    again = DataDirectory(disk.after_power_loss(lambda _: 0, restores_removed=True), "data")
    assert values_of(again.open_log(*NAME, config, now_ms=0)) == expected


def steps_of(seed: int, config: LogConfig) -> int:
    files = FaultyFiles(MemoryFiles())
    truncate_often(files, History(), seed, config)
    return files.steps


each_policy = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


@at_every_step
@each_policy
@pytest.mark.parametrize("seed", range(2))
def test_crash_or_loss_of_power_at_any_step_loses_no_record_before_a_truncation(
    seed: int, config: LogConfig
) -> None:
    points = crashes(lambda files, history: truncate_often(files, history, seed, config), History())
    assert len(points) == steps_of(seed, config)
    for fail_at in range(5, len(points), 101):
        files, expected = FaultyFiles(MemoryFiles(), fail_at=fail_at), History()
        with pytest.raises(CrashedError):
            truncate_often(files, expected, seed, config)
        disk, observed = points[fail_at]
        assert disk.state() == files.disk.state()
        assert vars(observed) == vars(expected)
    for loss in POWER_LOSSES:
        after = [(loss.after(disk), history) for disk, history in points]
        for disk, history in different_disks(after, lambda each: each.expectation(each.flushed)):
            check(disk, history, history.flushed, config)
    for disk, history in different_disks(points, lambda each: each.expectation(each.acknowledged)):
        check(disk, history, history.acknowledged, config)


@at_every_step
@each_policy
@pytest.mark.parametrize("seed", range(2))
def test_refused_step_loses_no_record_before_a_truncation(seed: int, config: LogConfig) -> None:
    for fail_at in range(steps_of(seed, config)):
        files, history = FaultyFiles(MemoryFiles(), fail_at=fail_at, crash=False), History()
        try:
            truncate_often(files, history, seed, config)
        except OSError:
            check(files.disk, history, history.acknowledged, config)


@each_policy
def test_crash_at_some_steps_loses_no_record_before_a_truncation(config: LogConfig) -> None:
    for fail_at in range(5, steps_of(0, config), 31):
        files, history = FaultyFiles(MemoryFiles(), fail_at=fail_at), History()
        with pytest.raises(CrashedError):
            truncate_often(files, history, 0, config)
        check(POWER_LOSSES[1].after(files.disk), history, history.flushed, config)
        check(files.disk, history, history.acknowledged, config)


# --- a change of the leader --------------------------------------------------------------------


class Changes:
    """What a cluster did before it crashed."""

    def __init__(self) -> None:
        self.logs: list[list[bytes]] = [[]]
        """The values of the log in each leader epoch, the last one being in force or attempted."""
        self.completed = 0
        """The number of changes of the leader that have returned."""
        self.acknowledged = 0
        self.flushed = 0

    def expectation(self, durable: int) -> tuple[object, ...]:
        """Return all that `check_changes` compares with the log."""
        return durable, self.completed, tuple(map(tuple, self.logs))


def new_cluster(files: FaultyFiles | MemoryFiles) -> Cluster:
    cluster = Cluster(
        cluster_id="cluster",
        directory=DataDirectory(files, "data"),
        clock=ManualClock(),
        entropy=SeededEntropy(),
        config=BrokerConfig.from_text({"replica.lag.time.max.ms": "1000000"}),
        node_ids=(1, 2, 3),
    )
    cluster.open(lambda *_: None)
    return cluster


def partition_of(cluster: Cluster) -> Partition:
    hosted = cluster.partitions.topic("t")
    assert hosted is not None
    partition = hosted.partition(0)
    assert partition is not None
    return partition


def change_leaders(files: FaultyFiles, changes: Changes, *, begin: Callable[[], None]) -> None:
    """Let leaders with shorter logs take over several times; the first one is durable."""
    cluster = new_cluster(files)
    cluster.metadata.create_topics([NewTopic(name="t", assignments=((0, (1, 2, 3)),))])
    partition = partition_of(cluster)
    # Smaller than the minimum of segment.bytes.
    partition.log.config = partition.log.config._replace(segment_bytes=700)
    for log in cluster.partitions.logs().values():
        log.flush()
    begin()
    control, metadata = cluster.node_control, cluster.metadata

    def append(count: int, *, flush: bool) -> None:
        for _ in range(count):
            value = b"%d-%d" % (len(changes.logs), partition.end_offset) * 9
            changes.logs[-1].append(value)
            partition.append(batch(value), 0)
            changes.acknowledged = partition.end_offset
        if flush:
            partition.log.flush()
            changes.flushed = partition.end_offset

    def lead(change: Callable[[], None], offset: int) -> None:
        changes.logs.append(changes.logs[-1][:offset])
        change()
        changes.completed += 1
        assert partition.end_offset == offset
        changes.acknowledged = offset
        changes.flushed = min(changes.flushed, offset)

    append(5, flush=True)
    control.pause_replication(2)
    append(9, flush=True)
    control.pause_replication(3)
    append(3, flush=False)
    lead(lambda: control.stop(1), 5)
    append(4, flush=True)
    cluster.partitions.checkpoint()
    append(4, flush=False)
    control.resume_replication(3)
    append(2, flush=False)
    lead(lambda: metadata.move_leader("t", 0, 3), 15)
    append(3, flush=True)
    control.resume_replication(2)
    control.pause_replication(2)
    append(12, flush=True)
    control.start(1)
    append(2, flush=False)
    lead(lambda: metadata.move_leader("t", 0, 2, is_unclean=True), 18)
    append(2, flush=True)
    cluster.stop()


def steps_of_changes() -> tuple[int, int]:
    """Return the first and last step of the changes of leaders."""
    files, first = FaultyFiles(MemoryFiles()), [0]

    def begin() -> None:
        first[0] = files.steps

    change_leaders(files, Changes(), begin=begin)
    return first[0], files.steps


def check_changes(disk: MemoryFiles, changes: Changes, durable: int) -> None:
    """Check that the last change of the leader took place, or did not, and can be followed."""
    cluster = new_cluster(disk)
    partition = partition_of(cluster)
    epoch = partition.leader_epoch
    assert changes.completed <= epoch < len(changes.logs)
    expected = changes.logs[epoch]
    values = values_of(partition.log)
    assert len(values) >= min(durable, len(expected))
    assert values == expected[: len(values)]
    assert partition.high_watermark == len(values)
    assert partition.log.epochs.latest <= epoch
    next_leader = 2 if partition.leader != 2 else 3
    cluster.node_control.pause_replication(next_leader)
    partition.append(batch(b"after"), 0)
    cluster.metadata.move_leader("t", 0, next_leader)
    assert values_of(partition.log) == values
    partition.append(batch(b"and after"), 0)
    assert partition_of(new_cluster(disk)).end_offset == len(values) + 1


LEADER_CHANGES = 3
"""Number of leader changes in `change_leaders`."""


def refused(fail_at: int) -> tuple[FaultyFiles, Changes]:
    files, changes = FaultyFiles(MemoryFiles(), fail_at=fail_at, crash=False), Changes()
    try:
        change_leaders(files, changes, begin=lambda: None)
    except (OSError, KafkaError):
        return files, changes
    # A refused change of an ISR raises nothing: it is requested again later. All leaders change.
    assert changes.completed == LEADER_CHANGES
    return files, changes


def test_leader_changes_cover_several_segments() -> None:
    files, changes = FaultyFiles(MemoryFiles()), Changes()
    change_leaders(files, changes, begin=lambda: None)
    assert [len(values) for values in changes.logs] == [17, 15, 32, 20]
    partition = partition_of(new_cluster(files.disk))
    assert (partition.leader_epoch, values_of(partition.log)) == (3, changes.logs[3])
    assert len(partition.log.segments) > 1


@pytest.mark.endurance
def test_crash_or_loss_of_power_at_any_step_of_a_leader_change_is_completed_or_undone() -> None:
    points = crashes(
        lambda files, changes: change_leaders(files, changes, begin=lambda: None), Changes()
    )
    first, end = steps_of_changes()
    assert len(points) == end
    for loss in POWER_LOSSES[1:3]:
        after = [(loss.after(disk), changes) for disk, changes in points[first:]]
        for disk, changes in different_disks(after, lambda each: each.expectation(each.flushed)):
            check_changes(disk, changes, changes.flushed)
    for disk, changes in different_disks(
        points[first:], lambda each: each.expectation(each.acknowledged)
    ):
        check_changes(disk, changes, changes.acknowledged)


@pytest.mark.endurance
def test_refused_step_of_a_leader_change_is_completed_or_undone_by_the_next_start() -> None:
    for fail_at in range(*steps_of_changes()):
        files, changes = refused(fail_at)
        check_changes(files.disk, changes, changes.acknowledged)
