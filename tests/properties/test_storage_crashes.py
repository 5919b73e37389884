"""A log that dies at any step holds all that was acknowledged, and nothing that was not said."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.batch import Producer
from kafkalite.storage.directory import DataDirectory
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from tests.unit.storage.logs import append, batch, records_of

CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150)
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


def work(files: FaultyFiles | MemoryFiles, told: Told, seed: int) -> None:
    """Append, flush, cut, restart; everything that is answered is noted in `told`."""
    rng = random.Random(seed)  # noqa: S311 - repeatable work
    directory = DataDirectory(files, "data")
    log = directory.open_log(*NAME, CONFIG, now_ms=0, topic_id="id")
    for step in range(30):
        values = [b"%d-%d" % (step, index) * rng.randrange(1, 9) for index in range(3)]
        told.attempted += values
        view = batch(*values, producer=Producer(7, 0, told.sequence))
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
            log = directory.open_log(*NAME, CONFIG, now_ms=0, topic_id="id")


def judge(files: MemoryFiles, told: Told, durable: int) -> None:
    """Open what is left; it is a prefix that reaches `durable`, and it works."""
    log = DataDirectory(files, "data").open_log(*NAME, CONFIG, now_ms=0, topic_id="id")
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


def steps_of(seed: int) -> int:
    files = FaultyFiles(MemoryFiles())
    work(files, Told(), seed)
    return files.steps


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("part", [0.0, 0.3, 0.99, 1.0])
def test_a_crash_at_any_step_loses_nothing_acknowledged(seed: int, part: float) -> None:
    for fail_at in range(steps_of(seed)):
        files, told = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=part), Told()
        with pytest.raises(CrashedError):
            work(files, told, seed)
        judge(files.disk, told, told.acknowledged)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [0.0, 0.5, 0.9])
def test_a_loss_of_power_at_any_step_loses_nothing_flushed(seed: int, share: float) -> None:
    for fail_at in range(steps_of(seed)):
        files, told = FaultyFiles(MemoryFiles(), fail_at=fail_at), Told()
        with pytest.raises(CrashedError):
            work(files, told, seed)
        judge(files.disk.without_power(lambda size: int(size * share)), told, told.flushed)


@pytest.mark.parametrize("seed", range(3))
def test_a_disk_that_refuses_a_step_costs_that_step_only(seed: int) -> None:
    for fail_at in range(steps_of(seed)):
        files, told = FaultyFiles(MemoryFiles(), fail_at=fail_at, crash=False), Told()
        try:
            work(files, told, seed)
        except OSError:
            judge(files.disk, told, told.acknowledged)


def test_a_crash_while_recovering_is_recovered_from() -> None:
    for fail_at in range(0, steps_of(0), 7):
        first, told = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=0.4), Told()
        with pytest.raises(CrashedError):
            work(first, told, 0)
        for again_at in range(6):
            second = FaultyFiles(first.disk, fail_at=again_at, part=0.5)
            try:
                DataDirectory(second, "data").open_log(*NAME, CONFIG, now_ms=0, topic_id="id")
            except CrashedError:
                continue
        judge(first.disk, told, told.acknowledged)


def test_the_work_does_all_that_it_is_meant_to() -> None:
    files, told = MemoryFiles(), Told()
    work(files, told, 0)
    log = DataDirectory(files, "data").open_log(*NAME, CONFIG, now_ms=0)
    assert told.flushed > 0
    assert log.start_offset > 0
    assert len(log.segments) > 2
