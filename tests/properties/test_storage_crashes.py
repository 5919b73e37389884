"""A log that dies at any step holds all that was acknowledged, and nothing that was not said."""

from __future__ import annotations

import errno
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.batch import Producer
from kafkalite.storage.cleaning import clean
from kafkalite.storage.compaction import compaction_of
from kafkalite.storage.directory import DataDirectory
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from tests.unit.storage.logs import append, batch, records_of, values_of

if TYPE_CHECKING:
    from kafkalite.storage.log import Log

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)
# Every record has a key of its own, so compaction changes the files and not what is read.
COMPACT = CONFIG._replace(
    cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.0, segment_bytes=1800
)
CONFIGS = {"delete": CONFIG, "compact": COMPACT}
NAME = ("t", 0)


@dataclass
class Told:
    """What the user of a log was told before it died."""

    attempted: list[bytes] = field(default_factory=list)
    acknowledged: int = 0
    flushed: int = 0
    start_wanted: int = 0
    start_checkpointed: int = 0
    sequence: int = 0


def work(files: FaultyFiles | MemoryFiles, told: Told, seed: int, config: LogConfig) -> None:
    """Append, flush, cut, restart; everything that is answered is noted in `told`."""
    rng = random.Random(seed)  # noqa: S311 - repeatable work
    directory = DataDirectory(files, "data")
    log = directory.open_log(*NAME, config, now_ms=0, topic_id="id")
    for step in range(30):
        values = [b"%d-%d" % (step, index) * rng.randrange(1, 9) for index in range(3)]
        told.attempted += values
        view = batch(*values, keys=values, producer=Producer(7, 0, told.sequence))
        log.append([view], leader_epoch=step // 10, now_ms=step)
        told.sequence += 3
        told.acknowledged = log.end_offset
        choice = rng.randrange(12)
        if choice == 0:
            log.flush()
            told.flushed = log.end_offset
        elif choice == 1:
            directory.checkpoint({NAME: log})
            told.start_checkpointed = log.start_offset
        elif choice == 2:
            told.start_wanted = rng.randrange(log.start_offset, log.end_offset + 1)
            log.delete_before(told.start_wanted)
        elif choice == 3:
            directory.close({NAME: log})
            told.flushed = log.end_offset
            told.start_checkpointed = log.start_offset
            directory = DataDirectory(files, "data")
            log = directory.open_log(*NAME, config, now_ms=0, topic_id="id")
        elif choice in {4, 5}:
            log.roll(step)
            compact(log)


def compact(log: Log) -> None:
    """Compact the log, if it is one to be compacted."""
    plan = compaction_of(log, last_stable_offset=log.end_offset, now_ms=0)
    if plan is not None:
        for _ in clean(log, plan, now_ms=0):
            pass


def judge(files: MemoryFiles, told: Told, durable: int, config: LogConfig) -> None:
    """Open what is left; it is a prefix that reaches `durable`, and it works."""
    log = DataDirectory(files, "data").open_log(*NAME, config, now_ms=0, topic_id="id")
    assert durable <= log.end_offset <= len(told.attempted)
    assert log.start_offset <= max(told.start_wanted, told.start_checkpointed)
    assert log.start_offset >= min(told.start_checkpointed, durable)
    records = records_of(log)
    assert [record.offset for record in records] == list(range(log.start_offset, log.end_offset))
    assert [record.value for record in records] == told.attempted[log.start_offset : log.end_offset]
    if log.end_offset:
        known = log.producers.get(7)
        assert known is not None
        assert known.batches[-1].last_offset == log.end_offset - 1
        assert known.last_sequence == log.end_offset - 1
        assert log.epochs.epoch_for(log.end_offset - 1) == (log.end_offset - 1) // 30
    end_offset = log.end_offset
    assert append(log, b"after", epoch=9) == end_offset
    assert records_of(log)[-1].value == b"after"


def steps_of(seed: int, config: LogConfig) -> int:
    files = FaultyFiles(MemoryFiles())
    work(files, Told(), seed, config)
    return files.steps


each_policy = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


@each_policy
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_a_crash_at_any_step_loses_nothing_acknowledged(
    seed: int, part: float, config: LogConfig
) -> None:
    for fail_at in range(steps_of(seed, config)):
        files, told = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=part), Told()
        with pytest.raises(CrashedError):
            work(files, told, seed, config)
        judge(files.disk, told, told.acknowledged, config)


@each_policy
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", [0.0, 0.7])
def test_a_loss_of_power_at_any_step_loses_nothing_flushed(
    seed: int, share: float, config: LogConfig
) -> None:
    for fail_at in range(steps_of(seed, config)):
        files, told = FaultyFiles(MemoryFiles(), fail_at=fail_at), Told()
        with pytest.raises(CrashedError):
            work(files, told, seed, config)
        after = files.disk.without_power(lambda size: int(size * share))
        judge(after, told, told.flushed, config)


@each_policy
@pytest.mark.parametrize("seed", range(2))
def test_a_disk_that_refuses_a_step_costs_that_step_only(seed: int, config: LogConfig) -> None:
    for fail_at in range(steps_of(seed, config)):
        files, told = FaultyFiles(MemoryFiles(), fail_at=fail_at, crash=False), Told()
        try:
            work(files, told, seed, config)
        except OSError:
            judge(files.disk, told, told.acknowledged, config)


def test_a_crash_while_recovering_is_recovered_from() -> None:
    for fail_at in range(0, steps_of(0, CONFIG), 7):
        first, told = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=0.4), Told()
        with pytest.raises(CrashedError):
            work(first, told, 0, CONFIG)
        for again_at in range(6):
            second = FaultyFiles(first.disk, fail_at=again_at, part=0.5)
            try:
                DataDirectory(second, "data").open_log(*NAME, CONFIG, now_ms=0, topic_id="id")
            except CrashedError:
                continue
        judge(first.disk, told, told.acknowledged, CONFIG)


@each_policy
def test_the_work_does_all_that_it_is_meant_to(config: LogConfig) -> None:
    files, told = MemoryFiles(), Told()
    work(files, told, 0, config)
    log = DataDirectory(files, "data").open_log(*NAME, config, now_ms=0)
    assert told.flushed > 0
    assert log.start_offset > 0
    assert len(log.segments) > 1
    assert (log.first_dirty_offset > 0) == (config is COMPACT)


def go_on(files: FaultyFiles, seed: int, config: LogConfig) -> list[bytes]:
    """Work on whatever is refused; return the values that were acknowledged, all there is.

    A log that could not be flushed is opened again, as it demands.
    """
    rng = random.Random(seed)  # noqa: S311 - repeatable work
    directory = DataDirectory(files, "data")
    log = directory.open_log(*NAME, config, now_ms=0, topic_id="id")
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
                    log = directory.open_log(*NAME, config, now_ms=0, topic_id="id")
        assert values_of(log) == values
        assert log.end_offset == len(values)
    return values


@each_policy
@pytest.mark.parametrize("refusals", [1, 2, 7])
def test_a_log_goes_on_when_the_disk_has_room_again(config: LogConfig, refusals: int) -> None:
    steps = FaultyFiles(MemoryFiles())
    go_on(steps, 1, config)
    for fail_at in range(5, steps.steps):
        files = FaultyFiles(
            MemoryFiles(), fail_at=fail_at, crash=False, part=0.6, refusals=refusals
        )
        acknowledged = go_on(files, 1, config)
        again = DataDirectory(files.disk, "data").open_log(*NAME, config, now_ms=0)
        assert values_of(again) == acknowledged
