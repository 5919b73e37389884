"""A log that crashes at any step contains all acknowledged records, and no others."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.background import run_steps
from kafkalite.storage.batch import BatchProducer
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.data_directory import DataDirectory
from kafkalite.storage.flushing import sync
from kafkalite.storage.log_cleaner import clean
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from tests.properties.crash_points import crashes, different_disks
from tests.unit.storage.logs import append, batch, records_of, values_of

if TYPE_CHECKING:
    from kafkalite.storage.flushing import Flush
    from kafkalite.storage.log import Log

pytestmark = pytest.mark.endurance  # crashes at every step take a minute

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)
# Every record has its own key, so compaction changes the files but not the records.
COMPACT = CONFIG._replace(
    cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, segment_bytes=1800
)
CONFIGS = {"delete": CONFIG, "compact": COMPACT}
NAME = ("t", 0)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAEg"


@dataclass
class Acknowledged:
    """Results that the user of a log got before the crash."""

    attempted: list[bytes] = field(default_factory=list)
    acknowledged: int = 0
    flushed: int = 0
    flushed_later: int = 0
    begun_after_unflushed: bool = False
    requested_start: int = 0
    start_checkpointed: int = 0
    sequence: int = 0


def expectation(acked: Acknowledged) -> tuple[object, ...]:
    """Return all that `check` compares with the log."""
    return tuple(acked.attempted), *astuple(acked)[1:]


def work(
    files: FaultyFiles | MemoryFiles, acked: Acknowledged, seed: int, config: LogConfig
) -> None:
    """Append, flush, delete, restart; all results are recorded in `acked`."""
    rng = random.Random(seed)  # noqa: S311 - repeatable work
    directory = DataDirectory(files, "data")
    log = directory.open_log(*NAME, config, now_ms=0, topic_id=TOPIC_ID)
    directory.end_loading()
    flush: Flush | None = None
    for step in range(30):
        values = [b"%d-%d" % (step, index) * rng.randrange(1, 9) for index in range(3)]
        acked.attempted += values
        view = batch(*values, keys=values, producer=BatchProducer(7, 0, acked.sequence))
        log.append([view], leader_epoch=step // 10, now_ms=step)
        acked.sequence += 3
        acked.acknowledged = log.end_offset
        acked.begun_after_unflushed |= log.has_unflushed_segments
        choice = rng.randrange(12)
        if choice == 0:
            log.flush()
            acked.flushed = log.end_offset
        elif choice in {6, 7} and flush is None:
            flush = log.begin_flush()
        elif choice in {8, 9} and flush is not None:
            acked.flushed_later = end_flush(files, log, flush)
            acked.flushed = max(acked.flushed, acked.flushed_later)
            flush = None
        elif choice == 1:
            directory.checkpoint({NAME: log})
            acked.start_checkpointed = log.start_offset
        elif choice == 2:
            acked.requested_start = rng.randrange(log.start_offset, log.end_offset + 1)
            log.delete_before(acked.requested_start)
        elif choice == 3:
            directory.close({NAME: log})
            acked.flushed = log.end_offset
            acked.start_checkpointed = log.start_offset
            flush = None
            directory = DataDirectory(files, "data")
            log = directory.open_log(*NAME, config, now_ms=0, topic_id=TOPIC_ID)
            directory.end_loading()
        elif choice in {4, 5}:
            log.roll(step)
            compact(log)
        elif choice == 10 and directory.logs_to_flush:
            directory.logs_to_flush.clear()
            log.flush()
            acked.flushed = log.end_offset


def end_flush(files: FaultyFiles | MemoryFiles, log: Log, flush: Flush) -> int:
    """Sync a flush that was planned some appends ago; return the flushed end offset."""
    try:
        sync(files, flush)
    except FileNotFoundError as removed:
        # The flushed segments were removed, or compacted into one.
        log.end_flush(flush, removed)
        return 0
    log.end_flush(flush, None)
    return flush.end_offset


def compact(log: Log) -> None:
    """Compact the log, if its configuration says so."""
    plan = plan_log_compaction(log, last_stable_offset=log.end_offset, now_ms=0)
    if plan is not None:
        run_steps(clean(log, plan, now_ms=0))


def check(files: MemoryFiles, acked: Acknowledged, durable: int, config: LogConfig) -> None:
    """Check that the log is a prefix that reaches at least `durable`, and accepts appends."""
    log = DataDirectory(files, "data").open_log(*NAME, config, now_ms=0, topic_id=TOPIC_ID)
    assert durable <= log.end_offset <= len(acked.attempted)
    assert log.start_offset <= max(acked.requested_start, acked.start_checkpointed)
    assert log.start_offset >= min(acked.start_checkpointed, durable)
    records = records_of(log)
    assert [record.offset for record in records] == list(range(log.start_offset, log.end_offset))
    assert [record.value for record in records] == acked.attempted[
        log.start_offset : log.end_offset
    ]
    if log.end_offset:
        producer = log.producers.get(7)
        assert producer is not None
        assert producer.batches[-1].last_offset == log.end_offset - 1
        assert producer.last_sequence == log.end_offset - 1
        assert log.epochs.epoch_for(log.end_offset - 1) == (log.end_offset - 1) // 30
    end_offset = log.end_offset
    assert append(log, b"after", epoch=9) == end_offset
    assert records_of(log)[-1].value == b"after"


def after_power_loss(disk: MemoryFiles, share: float) -> MemoryFiles:
    """Return the disk with `share` of the bytes of each file that were not synced."""
    return disk.after_power_loss(lambda size: int(size * share))


def steps_of(seed: int, config: LogConfig) -> int:
    files = FaultyFiles(MemoryFiles())
    work(files, Acknowledged(), seed, config)
    return files.steps


each_policy = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


@each_policy
@pytest.mark.parametrize("seed", range(2))
def test_crash_at_any_step_loses_no_acknowledged_record(seed: int, config: LogConfig) -> None:
    points = crashes(
        lambda files, acked: work(files, acked, seed, config), Acknowledged(), parts=(0.0, 0.5, 1.0)
    )
    assert len(points) > steps_of(seed, config)
    for disk, acked in different_disks(points, expectation):
        check(disk, acked, acked.acknowledged, config)


@each_policy
@pytest.mark.parametrize("seed", range(2))
def test_loss_of_power_at_any_step_loses_no_flushed_record(seed: int, config: LogConfig) -> None:
    points = crashes(lambda files, acked: work(files, acked, seed, config), Acknowledged())
    assert len(points) == steps_of(seed, config)
    for share in (0.0, 0.7):
        after = [(after_power_loss(disk, share), acked) for disk, acked in points]
        for disk, acked in different_disks(after, expectation):
            check(disk, acked, acked.flushed, config)


@each_policy
@pytest.mark.parametrize("seed", range(2))
def test_refused_step_fails_only_that_step(seed: int, config: LogConfig) -> None:
    for fail_at in range(steps_of(seed, config)):
        files, acked = FaultyFiles(MemoryFiles(), fail_at=fail_at, crash=False), Acknowledged()
        try:
            work(files, acked, seed, config)
        except OSError:
            check(files.disk, acked, acked.acknowledged, config)


def test_crash_during_recovery_is_recovered() -> None:
    for fail_at in range(0, steps_of(0, CONFIG), 7):
        first_files, acked = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=0.4), Acknowledged()
        with pytest.raises(CrashedError):
            work(first_files, acked, 0, CONFIG)
        for second_fail_at in range(6):
            second_files = FaultyFiles(first_files.disk, fail_at=second_fail_at, part=0.5)
            try:
                DataDirectory(second_files, "data").open_log(
                    *NAME, CONFIG, now_ms=0, topic_id=TOPIC_ID
                )
            except CrashedError:
                continue
        check(first_files.disk, acked, acked.acknowledged, CONFIG)


@each_policy
def test_workload_covers_all_operations(config: LogConfig) -> None:
    files, acked = MemoryFiles(), Acknowledged()
    work(files, acked, 0, config)
    log = DataDirectory(files, "data").open_log(*NAME, config, now_ms=0)
    assert acked.flushed > 0
    assert acked.flushed_later > 0
    assert log.start_offset > 0
    assert len(log.segments) > 1
    assert (log.first_dirty_offset > 0) == (config is COMPACT)
    assert acked.begun_after_unflushed == (config is COMPACT)


def continue_working(files: FaultyFiles, seed: int, config: LogConfig) -> list[bytes]:
    """Continue after refused steps; return the acknowledged values, which must all be there.

    A log whose flush failed is opened again.
    """
    rng = random.Random(seed)  # noqa: S311 - repeatable work
    directory = DataDirectory(files, "data")
    log = directory.open_log(*NAME, config, now_ms=0, topic_id=TOPIC_ID)
    values: list[bytes] = []
    for step in range(24):
        value = b"%d-" % step * rng.randrange(1, 60)
        choice = rng.randrange(6)
        try:
            log.append([batch(value, keys=[value])], leader_epoch=step // 8, now_ms=0)
            values.append(value)
            if choice == 0:
                log.flush()
            elif choice == 1:
                log.roll(0)
                compact(log)
        except OSError as refused:
            if refused.errno == errno.EIO:
                with suppress(OSError):
                    log = directory.open_log(*NAME, config, now_ms=0, topic_id=TOPIC_ID)
        assert values_of(log) == values
        assert log.end_offset == len(values)
    return values


@each_policy
@pytest.mark.parametrize("refusals", [1, 2, 7])
def test_log_continues_when_the_disk_has_space_again(config: LogConfig, refusals: int) -> None:
    steps = FaultyFiles(MemoryFiles())
    continue_working(steps, 1, config)
    for fail_at in range(5, steps.steps):
        files = FaultyFiles(
            MemoryFiles(), fail_at=fail_at, crash=False, part=0.6, failing_steps=refusals
        )
        acknowledged = continue_working(files, 1, config)
        log = DataDirectory(files.disk, "data").open_log(*NAME, config, now_ms=0)
        assert values_of(log) == acknowledged
