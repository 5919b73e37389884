"""RangeMap: values of offset ranges that do not overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.lab.checker.history import Range

if TYPE_CHECKING:
    from collections.abc import Iterator

V = TypeVar("V")


class RangeMap(Generic[V]):
    """A value for each offset, stored once for consecutive offsets."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._entries: list[tuple[Range, V]] = []

    def __setitem__(self, whole: Range, value: V) -> None:
        """Set the value of all offsets of a range."""
        start, stop = self._overlap(whole)
        entries = self._entries[start:stop]
        replacement = [(whole, value)]
        if entries and entries[0][0].first < whole.first:
            cut, old = entries[0]
            replacement.insert(0, (Range(cut.first, whole.first - 1), old))
        if entries and entries[-1][0].last > whole.last:
            cut, old = entries[-1]
            replacement.append((Range(whole.last + 1, cut.last), old))
        self._entries[start:stop] = replacement
        self._firsts[start:stop] = [each.first for each, _ in replacement]

    def remove_below(self, offset: int) -> None:
        """Remove the values of all offsets before this one."""
        start = bisect_left(self._firsts, offset)
        if start and self._entries[start - 1][0].last >= offset:
            start -= 1
            cut, value = self._entries[start]
            self._entries[start] = Range(offset, cut.last), value
            self._firsts[start] = offset
        del self._entries[:start], self._firsts[:start]

    def overlapping(self, whole: Range) -> Iterator[tuple[Range, V]]:
        """Yield the parts of a range that have a value, in the order of their offsets."""
        start, stop = self._overlap(whole)
        for part, value in self._entries[start:stop]:
            yield Range(max(part.first, whole.first), min(part.last, whole.last)), value

    def items(self) -> Iterator[tuple[Range, V]]:
        """Yield all ranges with their values, in the order of their offsets."""
        yield from self._entries

    def _overlap(self, whole: Range) -> tuple[int, int]:
        start = bisect_right(self._firsts, whole.first) - 1
        if start < 0 or self._entries[start][0].last < whole.first:
            start += 1
        return start, bisect_left(self._firsts, whole.last + 1)
