"""RangeMap: values of offset ranges that do not overlap."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.lab.checker.history import Range

if TYPE_CHECKING:
    from collections.abc import Iterator

V = TypeVar("V")


class RangeMap(Generic[V]):
    """A value for each offset, stored once for consecutive offsets."""

    def __init__(self) -> None:
        self._firsts, self._lasts = array("q"), array("q")
        self._values: list[V] = []

    def __setitem__(self, whole: Range, value: V) -> None:
        """Set the value of all offsets of a range."""
        start, stop = self._overlap(whole)
        replacement = [(whole, value)]
        if start < stop and self._firsts[start] < whole.first:
            before = Range(self._firsts[start], whole.first - 1)
            replacement.insert(0, (before, self._values[start]))
        if start < stop and self._lasts[stop - 1] > whole.last:
            after = Range(whole.last + 1, self._lasts[stop - 1])
            replacement.append((after, self._values[stop - 1]))
        self._firsts[start:stop] = array("q", [each.first for each, _ in replacement])
        self._lasts[start:stop] = array("q", [each.last for each, _ in replacement])
        self._values[start:stop] = [each for _, each in replacement]

    def remove_below(self, offset: int) -> None:
        """Remove the values of all offsets before this one."""
        start = bisect_left(self._firsts, offset)
        if start and self._lasts[start - 1] >= offset:
            start -= 1
            self._firsts[start] = offset
        del self._firsts[:start], self._lasts[:start], self._values[:start]

    def overlapping(self, whole: Range) -> Iterator[tuple[Range, V]]:
        """Yield the parts of a range that have a value, in the order of their offsets."""
        start, stop = self._overlap(whole)
        found = [self._entry(index) for index in range(start, stop)]
        for part, value in found:
            yield Range(max(part.first, whole.first), min(part.last, whole.last)), value

    def items(self) -> Iterator[tuple[Range, V]]:
        """Yield all ranges with their values, in the order of their offsets."""
        yield from map(self._entry, range(len(self._values)))

    def _entry(self, index: int) -> tuple[Range, V]:
        return Range(self._firsts[index], self._lasts[index]), self._values[index]

    def _overlap(self, whole: Range) -> tuple[int, int]:
        start = bisect_right(self._firsts, whole.first) - 1
        if start < 0 or self._lasts[start] < whole.first:
            start += 1
        return start, bisect_left(self._firsts, whole.last + 1)
