"""The same steps as those of `walk`, one message at a time: for rows of which only few are left.

A vector of three costs as much as one of a thousand, so a long array among short ones is
cheaper to walk in plain Python. What is noted is the same.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from struct import Struct
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from kafkalite.columnar.notes import ENDS, FAR, LONG, NULL, PAST, TAG
from kafkalite.columnar.plan import Counted, Maybe, Packed, Rows, Run, Tags
from kafkalite.columnar.varints import INVALID, LAST_BITS, LAST_SHIFT, ONE_BYTE
from kafkalite.protocol.straightline import LONGEST_STRING

if TYPE_CHECKING:
    from kafkalite.columnar.notes import Bytes, Notes
    from kafkalite.columnar.plan import Body, Step

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


def _numbers() -> array[int]:
    """Make a row of numbers to append to: a fifth of what a list of them takes."""
    return array("q")


class Tail:
    """Walks single instances; what it noted joins the notes when it is closed."""

    __slots__ = ("_data", "_noted", "_notes", "_parents", "_ranks", "_row", "at", "end")

    def __init__(self, notes: Notes, data: Bytes) -> None:
        self._notes = notes
        self._data = data.data
        self._noted: defaultdict[int, array[int]] = defaultdict(_numbers)
        self._parents: defaultdict[int, array[int]] = defaultdict(_numbers)
        self._ranks: defaultdict[int, array[int]] = defaultdict(_numbers)
        self._row = 0
        self.at = 0
        self.end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for slot, values in self._noted.items():
            self._notes.keep(slot, np.frombuffer(values, np.int64))
        for level, parents in self._parents.items():
            # They were counted when they were entered.
            self._notes.sizes[level] -= len(parents)
            ranks = np.frombuffer(self._ranks[level], np.int64)
            self._notes.enter(level, np.frombuffer(parents, np.int64), ranks)

    def start(self, at: int, end: int, row: int) -> None:
        """Go to where an instance begins; of message `row`, which ends at `end`."""
        self.at, self.end, self._row = int(at), int(end), int(row)

    def rows(self, body: Body, rank: int, count: int, parent: int) -> None:
        """Walk `count` rows of an array, the first of them its `rank`-th."""
        for number in range(rank, rank + count):
            self._enter(body, parent, number)
            if self.end == FAR:
                break

    def tags(self, step: Tags, count: int, parent: int) -> None:
        """Walk `count` tagged fields."""
        for _ in range(count):
            tag, size = self._varint(), self._varint()
            if size > self.end - self.at or tag == INVALID:
                self._refuse(PAST)
            if self.end == FAR:
                return
            stop = self.at + size
            if tag in step.known:
                self._enter(step.known[tag], parent, 0)
                if self.at != stop:
                    self._refuse(TAG)
                if self.end == FAR:
                    return
            else:
                self._notes.unknown_tags += 1
            self.at = stop

    def _enter(self, body: Body, parent: int, rank: int) -> None:
        number = self._notes.sizes[body.level]
        self._notes.sizes[body.level] = number + 1
        self._parents[body.level].append(parent)
        self._ranks[body.level].append(rank)
        for step in body.steps:
            self._step(step, number)
        if self.at > self.end:
            self._refuse(ENDS)

    def _step(self, step: Step, number: int) -> None:
        match step:
            case Run():
                self._keep(step.slot, self.at)
                self.at += step.size
            case Counted():
                self._counted(step)
            case Packed():
                self._packed(step)
            case Rows():
                count = self._length(step)
                if count > self.end - self.at:
                    self._refuse(PAST)
                    count = 0
                self._keep(step.slot, count)
                self.rows(step.body, 0, count, number)
            case Maybe():
                mark = self._varint() if step.behind_tag else self._byte()
                if mark != 0 if step.behind_tag else mark < ONE_BYTE:
                    self._enter(step.body, number, 0)
            case Tags():
                self.tags(step, self._varint(), number)

    def _counted(self, step: Counted) -> None:
        length = self._length(step)
        stop = self.at + length
        if max(stop, self.at) > self.end:
            self._refuse(PAST)
            stop = self.at
        elif step.is_text and length > LONGEST_STRING:
            self._refuse(LONG)
            stop = self.at
        if step.slot >= 0:
            self._keep(step.slot, self.at)
            self._keep(step.slot + 1, stop)
        self.at = max(stop, self.at)

    def _packed(self, step: Packed) -> None:
        count = self._length(step)
        stop = self.at + count * step.size if count >= 0 else self.at - 1
        if stop > self.end or self.at > self.end:
            self._refuse(PAST)
            stop = self.at
        if step.slot >= 0:
            self._keep(step.slot, self.at)
            self._keep(step.slot + 1, stop)
        self.at = max(stop, self.at)

    def _keep(self, slot: int, value: int) -> None:
        if slot >= 0:
            self._noted[slot].append(value)

    def _length(self, step: Counted | Packed | Rows) -> int:
        if step.compact:
            length = self._varint() - 1
        else:
            code = _INT16 if isinstance(step, Counted) and step.is_text else _INT32
            if self.at > self.end - code.size:
                self._refuse(ENDS)
            (length,) = code.unpack_from(self._data, self.at)
            self.at += code.size
        if length < (-1 if step.nullable else 0):
            self._refuse(NULL)
            return 0
        return length

    def _byte(self) -> int:
        if self.at >= self.end:
            self._refuse(ENDS)
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _varint(self) -> int:
        first = self._byte()
        if first < ONE_BYTE:
            return first
        value = first & ~ONE_BYTE
        for shift in range(7, LAST_SHIFT + 7, 7):
            byte = self._byte()
            value |= (byte & ~ONE_BYTE) << shift
            if byte < ONE_BYTE:
                return value if shift < LAST_SHIFT or byte <= LAST_BITS else INVALID
        return INVALID

    def _refuse(self, why: str) -> None:
        if self.end == FAR:
            return
        self.at = self._notes.refuse(np.array([self._row]), why)
        self.end = FAR
