"""The ends of logs at earlier times: exact for recent ones, and in bounded memory."""

# ruff: noqa: S311 - the appends are to be repeatable
from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from kafkalite.storage import append_times
from kafkalite.storage.append_times import MAX_INTERVALS, RESOLUTION, AppendTimes, LogAppends
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import batch, open_log


class Appended(NamedTuple):
    """A batch of one record."""

    log: int
    time_ms: int
    offset: int


class Logs:
    """Logs that share their times, the first of which is that of a coordinator."""

    def __init__(self, count: int = 3) -> None:
        self.times = AppendTimes()
        self.appends = [LogAppends(self.times, is_ordered=not each) for each in range(count)]
        self.ends = [0] * count
        self.history: list[Appended] = []

    def append(self, log: int, now_ms: int) -> None:
        appends = self.appends[log]
        if appends.number != self.times.number or now_ms > self.times.last_ms:
            appends.add(now_ms, self.ends[log])
        self.history.append(Appended(log, now_ms, self.ends[log]))
        self.ends[log] += 1

    def append_randomly(self, seed: int, count: int, most_ms: int) -> None:
        random, now_ms = Random(seed), 1000
        for _ in range(count):
            now_ms += random.choice((0, 0, 0, 1, most_ms))
            self.append(random.randrange(len(self.ends)), now_ms)

    def ends_before(self, number: int | None) -> list[int]:
        ends = []
        for appends, end in zip(self.appends, self.ends, strict=True):
            known = None if number is None else appends.end_before(number)
            ends.append(end if known is None else known)
        return ends

    def true_ends(self, history: list[Appended]) -> list[int]:
        return [sum(each.log == log for each in history) for log in range(len(self.ends))]


@pytest.mark.parametrize("seed", range(3))
def test_ends_are_exact_at_each_time_and_before_each_record_of_a_coordinator(seed: int) -> None:
    logs = Logs()
    logs.append_randomly(seed, 1500, 3)
    assert logs.appends[0].count > 400
    for time_ms in range(999, logs.history[-1].time_ms + 2, 41):
        then = [each for each in logs.history if each.time_ms <= time_ms]
        assert logs.ends_before(logs.times.first_after(time_ms)) == logs.true_ends(then)
    for index in range(0, len(logs.history), 100):
        record = logs.history[index]
        if record.log == 0:
            number = logs.appends[0].interval_of(record.offset)
            assert number is not None
            assert logs.times.time_of(number) == record.time_ms
            known = logs.times.known_until(number)
            assert logs.ends_before(known) == logs.true_ends(logs.history[:index])


def test_old_ends_are_earlier_ones_and_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_times, "MAX_INTERVALS", 400)
    monkeypatch.setattr(append_times, "RESOLUTION", 50)
    monkeypatch.setattr(append_times, "_MIN_PRUNED", 100)
    logs = Logs()
    logs.append_randomly(1, 6000, 2)
    assert len(logs.times) <= 400
    assert all(each.count <= 900 for each in logs.appends)
    now_ms = logs.history[-1].time_ms
    for time_ms in range(1000, now_ms, 211):
        found = logs.ends_before(logs.times.first_after(time_ms))
        age_ms = now_ms - time_ms
        earliest_ms = time_ms - max(2, 6 * age_ms // 50)
        latest = logs.true_ends([each for each in logs.history if each.time_ms <= time_ms])
        earliest = logs.true_ends([each for each in logs.history if each.time_ms < earliest_ms])
        assert all(a <= b <= c for a, b, c in zip(earliest, found, latest, strict=True)), age_ms


def test_appends_at_one_time_are_bounded() -> None:
    logs = Logs(1)
    for _ in range(3 * MAX_INTERVALS):
        logs.append(0, 1000)
    assert len(logs.times) <= MAX_INTERVALS
    assert logs.appends[0].count <= 2 * MAX_INTERVALS
    assert logs.times.first_ms == 1000
    assert RESOLUTION == 1000


def test_intervals_before_a_point_grow_on_their_own() -> None:
    logs = Logs(2)
    for now_ms in (1000, 1005, 1010):
        logs.append(1, now_ms)
    number = logs.times.first_after(1005)
    assert number == 3
    past = logs.times.before(number)
    assert (past.number, past.last_ms, len(past)) == (2, 1005, 2)
    past.begin(1007)
    assert past.first_after(1006) == 3
    assert len(logs.times) == 3
    assert logs.times.before(0).first_ms is None
    assert logs.times.first_after(999) == 0
    assert logs.times.first_after(1010) is None


def test_a_log_notes_its_appends_and_its_truncation() -> None:
    log = open_log(MemoryFiles())
    times = AppendTimes()
    log.appends = LogAppends(times, is_ordered=False)
    for now_ms in (1000, 1000, 1005):
        log.append([batch(b"a", b"b")], leader_epoch=0, now_ms=now_ms)
    assert [log.appends.end_before(each) for each in (1, 2, 3)] == [0, 4, None]
    assert [log.appends.interval_of(each) for each in (0, 3, 5)] == [1, 1, 2]
    copy = log.copy_to(log.files).appends
    log.truncate_to(2)
    log.append([batch(b"c")], leader_epoch=0, now_ms=1005)
    assert [log.appends.end_before(each) for each in (1, 2, 3)] == [0, 2, None]
    assert copy is not None
    assert copy.end_before(2) == 4
