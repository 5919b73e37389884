"""AppendTimes and LogAppends: which batches were appended when, in memory, and in which order.

Timestamps of records do not say that, because producers choose them. The time is divided into
intervals with consecutive numbers. One ends when the clock moves on by a millisecond, and before
each append to the log of a coordinator or of the metadata. Each log has the first offset of each
interval in which it grew, so an append in the same interval costs two comparisons.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import Final

MAX_INTERVALS: Final = 16_384
"""Maximum number of intervals whose time is known."""
RESOLUTION: Final = 1_000
"""Beyond the maximum, an interval is at least this part of its age long."""
_MIN_PRUNED: Final = 1_024


class AppendTimes:
    """The intervals of a data directory that begin at known times, oldest first."""

    __slots__ = ("_numbers", "_times_ms", "last_ms", "number")

    def __init__(self) -> None:
        self.number = 0
        """The number of the present interval."""
        self.last_ms = -1
        """When the present interval began; appends with earlier times are in it, too."""
        self._numbers = array("q")
        self._times_ms = array("q")

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def first_ms(self) -> int | None:
        """When the first interval began; None if there is none yet."""
        return self._times_ms[0] if self._times_ms else None

    def copy(self) -> AppendTimes:
        """Return the same intervals, which grow on their own."""
        copy = AppendTimes()
        copy.number, copy.last_ms = self.number, self.last_ms
        copy._numbers, copy._times_ms = self._numbers[:], self._times_ms[:]
        return copy

    def before(self, number: int) -> AppendTimes:
        """Return the intervals before this one, which grow on their own."""
        copy = AppendTimes()
        count = bisect_left(self._numbers, number)
        copy._numbers, copy._times_ms = self._numbers[:count], self._times_ms[:count]
        copy.number = max(0, number - 1)
        copy.last_ms = copy._times_ms[-1] if count else -1
        return copy

    def begin(self, now_ms: int) -> None:
        """Begin an interval; those that are too short for their age lose their beginning."""
        self.number += 1
        self.last_ms = max(self.last_ms, now_ms)
        self._numbers.append(self.number)
        self._times_ms.append(self.last_ms)
        if len(self._numbers) > MAX_INTERVALS:
            self._thin()

    def _thin(self) -> None:
        newest = later = self.last_ms
        retained = [len(self._times_ms) - 1]
        for index in range(len(self._times_ms) - 2, -1, -1):
            time_ms = self._times_ms[index]
            if later - time_ms >= (newest - time_ms) // RESOLUTION or not index:
                retained.append(index)
                later = time_ms
        retained.reverse()
        if len(retained) > MAX_INTERVALS * 3 // 4:  # most of them began in the same milliseconds
            retained = retained[: len(retained) // 2 : 2] + retained[len(retained) // 2 :]
        self._numbers = array("q", [self._numbers[each] for each in retained])
        self._times_ms = array("q", [self._times_ms[each] for each in retained])

    def first_after(self, time_ms: int) -> int | None:
        """Return the number of the first interval after a time; None if none has begun.

        If this one is not known, it is an earlier one. It is 0 for a time before all intervals,
        and if there are none.
        """
        slot = bisect_right(self._times_ms, time_ms)
        if not slot:
            return 0
        if slot == len(self._times_ms):
            return None
        earlier = self._numbers[slot - 1]
        return earlier + 1 if self._numbers[slot] == earlier + 1 else earlier

    def known_until(self, number: int) -> int:
        """Return the latest interval up to this one whose beginning is known; 0 without one."""
        slot = bisect_right(self._numbers, number)
        return self._numbers[slot - 1] if slot else 0

    def time_of(self, number: int) -> int:
        """Return when an interval began, or the last one before it that is known."""
        return self._times_ms[max(0, bisect_right(self._numbers, number) - 1)]

    def separated(self, numbers: array[int]) -> list[int]:
        """Return the indexes of intervals that begin after the one before, as far as is known."""
        known, slot, retained = self._numbers, 0, []
        for index, number in enumerate(numbers):
            before = slot
            while slot < len(known) and known[slot] <= number:
                slot += 1
            if slot > before:
                retained.append(index)
        return retained


class LogAppends:
    """The intervals in which one log has grown, with the first offset of each."""

    __slots__ = ("_limit", "_numbers", "_offsets", "is_ordered", "number", "times")

    def __init__(self, times: AppendTimes, *, is_ordered: bool) -> None:
        """With `is_ordered`, each append begins an interval."""
        self.times = times
        self.is_ordered = is_ordered
        self.number = -1
        """The last interval in which the log has grown; -1 without one, and if it is ordered."""
        self._numbers = array("q")
        self._offsets = array("q")
        self._limit = _MIN_PRUNED

    @property
    def count(self) -> int:
        """How many intervals are known."""
        return len(self._numbers)

    def copy(self, times: AppendTimes) -> LogAppends:
        """Return the same intervals, of other times, which grow on their own."""
        copy = LogAppends(times, is_ordered=self.is_ordered)
        copy.number, copy._limit = self.number, self._limit
        copy._numbers, copy._offsets = self._numbers[:], self._offsets[:]
        return copy

    def add(self, now_ms: int, base_offset: int) -> None:
        """Note an append in an interval in which the log has not grown, or begin an interval."""
        times = self.times
        if now_ms > times.last_ms or self.is_ordered:
            times.begin(now_ms)
        if not self.is_ordered:
            self.number = times.number
        self._numbers.append(times.number)
        self._offsets.append(base_offset)
        if len(self._numbers) > self._limit:
            retained = times.separated(self._numbers)
            self._numbers = array("q", [self._numbers[each] for each in retained])
            self._offsets = array("q", [self._offsets[each] for each in retained])
            self._limit = max(_MIN_PRUNED, 2 * len(retained))

    def truncate(self, end_offset: int) -> None:
        """Forget the intervals that begin after the end of the log."""
        count = bisect_left(self._offsets, end_offset)
        del self._numbers[count:], self._offsets[count:]
        self.number = -1

    def first_offset(self) -> int | None:
        """Return the first offset whose interval is known; None without one."""
        return self._offsets[0] if self._offsets else None

    def end_before(self, number: int) -> int | None:
        """Return the end of the log before an interval; None if it has not grown since."""
        slot = bisect_left(self._numbers, number)
        return self._offsets[slot] if slot < len(self._numbers) else None

    def interval_of(self, offset: int) -> int | None:
        """Return the interval in which the batch with an offset was appended, if it is known."""
        slot = bisect_right(self._offsets, offset)
        return self._numbers[slot - 1] if slot else None
