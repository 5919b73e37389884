"""Steps over many messages at once, noting where their fields stand.

The walk is a wavefront: all messages take the same step together, and of an array all first
rows are walked, then all second ones. Numbers are not read and strings not cut on the way, only
lengths are: what was noted is read in one go afterwards, by `assemble`. When only a few arrays
have rows left, vectors no longer pay, and `tail` walks what remains of them.

No bytes can make it fail or run away. Where a message breaks the protocol, the walk is done
again over a copy of the data with a field of zeros behind it; a broken message is then marked,
and led into the zeros, where every length is none, until its neighbours are done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kafkalite.columnar.notes import (
    ENDS,
    FAR,
    LONG,
    NULL,
    PAST,
    TAG,
    ZEROS,
    BrokenError,
    Notes,
    unaligned,
)
from kafkalite.columnar.plan import Body, Counted, Maybe, Packed, Rows, Run, Tags
from kafkalite.columnar.tail import Tail
from kafkalite.columnar.varints import INVALID, ONE_BYTE, read_varints
from kafkalite.protocol.straightline import LONGEST_STRING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.columnar.notes import Bytes, Ints
    from kafkalite.columnar.plan import Plan

_FEW = 16
"""So many instances and fewer are walked one by one."""


@dataclass(slots=True)
class Front:
    """Instances of one level that take the next step together.

    `at` may have been noted, so it is written to by nobody but who has just made it.
    """

    at: Ints
    ends: Ints
    rows: Ints
    base: int
    """The number of the first instance; the others follow."""

    def part(self, chosen: Ints, base: int) -> Front:
        """Return some of the instances, as those of another level."""
        return Front(self.at[chosen], self.ends[chosen], self.rows[chosen], base)


class Walk:
    """One walk over messages that stand in `data`."""

    def __init__(self, notes: Notes, data: Bytes) -> None:
        self._notes = notes
        self._data = data
        self._int16 = unaligned(data, ">i2")
        self._int32 = unaligned(data, ">i4")

    def messages(self, body: Body, starts: Ints, ends: Ints) -> None:
        """Walk all messages, the i-th from starts[i] to at most ends[i]."""
        self._notes.sizes[body.level] = len(starts)
        front = Front(starts.copy(), ends.copy(), np.arange(len(starts)), 0)
        self._refuse((starts > ends) | (starts < 0), front, ENDS)
        self._steps(body, front)

    def _steps(self, body: Body, front: Front) -> None:
        """Walk instances of a body to their ends."""
        for step in body.steps:
            match step:
                case Run():
                    self._notes.keep(step.slot, front.at)
                    front.at = front.at + step.size
                case Counted():
                    self._counted(step, front)
                case Packed():
                    self._packed(step, front)
                case Rows():
                    self._rows(step, front)
                case Maybe():
                    self._maybe(step, front)
                case Tags():
                    self._tags(step, front)
        # Positions only grow, so the next length that is read tells of a run past the end.
        if body.steps and isinstance(body.steps[-1], Run):
            self._refuse(front.at > front.ends, front, ENDS)

    def _refuse(self, wrong: NDArray[np.bool_], front: Front, why: str) -> None:
        """Mark messages as broken and lead them into the zeros."""
        if wrong.any():
            front.at[wrong] = self._notes.refuse(front.rows[wrong], why)
            front.ends[wrong] = FAR

    def _length(self, step: Counted | Packed | Rows, front: Front) -> Ints:
        """Read lengths, -1 for null, and step behind them."""
        if step.compact:
            length, front.at = read_varints(self._data, front.at)
            length -= 1
            wrong = front.at > front.ends
            if wrong.any():
                self._refuse(wrong, front, ENDS)
                length[wrong] = 0
        else:
            is_short = isinstance(step, Counted) and step.is_text
            view, size = (self._int16, 2) if is_short else (self._int32, 4)
            wrong = front.at > front.ends - size
            if wrong.any():
                front.at = front.at.copy()
                self._refuse(wrong, front, ENDS)
            length = view[front.at].astype(np.int64)
            front.at = front.at + size
        smallest = -1 if step.nullable else 0
        if int(length.min(initial=0)) < smallest:
            wrong = length < smallest
            self._refuse(wrong, front, NULL)
            length[wrong] = 0
        return length

    def _counted(self, step: Counted, front: Front) -> None:
        if step.compact and self._short(step, front):
            return
        length = self._length(step, front)
        starts, stops = front.at, front.at + length
        reach = np.maximum(stops, starts) if step.nullable else stops
        wrong = reach > front.ends
        if wrong.any():
            self._refuse(wrong, front, PAST)
            stops[wrong] = reach[wrong] = starts[wrong]
        if step.is_text and int(length.max(initial=0)) > LONGEST_STRING:
            wrong = length > LONGEST_STRING
            self._refuse(wrong, front, LONG)
            stops[wrong] = reach[wrong] = starts[wrong]
        if step.slot >= 0:
            self._notes.keep(step.slot, starts)
            self._notes.keep(step.slot + 1, stops)
        front.at = reach

    def _short(self, step: Counted, front: Front) -> bool:
        """Step over strings whose lengths are all one byte, and right; whether they were."""
        first = self._data.take(front.at, mode="clip")
        nulls = not first.all()
        if int(first.max(initial=0)) >= ONE_BYTE or (nulls and not step.nullable):
            return False
        starts, stops = front.at + 1, front.at + first
        reach = np.maximum(starts, stops) if nulls else stops
        if (reach > front.ends).any():
            return False
        if step.slot >= 0:
            self._notes.keep(step.slot, starts)
            self._notes.keep(step.slot + 1, stops)
        front.at = reach
        return True

    # -- arrays -------------------------------------------------------------------------

    def _rows(self, step: Rows, front: Front) -> None:
        count = self._length(step, front)
        wrong = np.maximum(count, 0) > front.ends - front.at
        if wrong.any():
            self._refuse(wrong, front, PAST)
            count[wrong] = 0
        self._notes.keep(step.slot, count)
        left = np.maximum(count, 0)
        if not left.any():
            return
        self._waves(step.body, left, front)

    def _packed(self, step: Packed, front: Front) -> None:
        count = self._length(step, front)
        starts = front.at
        reach = starts + np.maximum(count, 0) * step.size
        wrong = reach > front.ends
        if wrong.any():
            self._refuse(wrong, front, PAST)
            reach[wrong] = starts[wrong]
        if step.slot >= 0:
            self._notes.keep(step.slot, starts)
            stops = np.where(count < 0, starts - 1, reach) if step.nullable else reach
            self._notes.keep(step.slot + 1, stops)
        front.at = reach

    def _waves(self, body: Body, left: Ints, front: Front) -> None:
        """Walk the first rows of all arrays, then the second ones, and so on."""
        rank, owners = 0, np.flatnonzero(left)
        while len(owners) == len(left) > _FEW:
            base = self._notes.enter(body.level, owners + front.base, rank)
            inner = Front(front.at, front.ends, front.rows, base)
            self._steps(body, inner)
            front.at = inner.at
            rank += 1
            left -= 1
            owners = self._notes.unbroken(np.flatnonzero(left), front.rows)
        if rank and len(owners):
            front.at = front.at.copy()
        while len(owners) > _FEW:
            base = self._notes.enter(body.level, owners + front.base, rank)
            self._part(body, owners, front, base)
            rank += 1
            left[owners] -= 1
            owners = self._notes.unbroken(owners[left[owners] > 0], front.rows)
        if len(owners):
            with Tail(self._notes, self._data) as tail:
                for owner in owners.tolist():
                    tail.start(front.at[owner], front.ends[owner], front.rows[owner])
                    tail.rows(body, rank, int(left[owner]), front.base + owner)
                    front.at[owner], front.ends[owner] = tail.at, tail.end

    def _part(self, body: Body, chosen: Ints, front: Front, base: int) -> None:
        """Walk a level that only some have, and move those on, in place."""
        inner = front.part(chosen, base)
        self._steps(body, inner)
        front.at[chosen] = inner.at
        if self._notes.zeros is not None:
            front.ends[chosen] = inner.ends

    # -- what may be there or not -------------------------------------------------------

    def _maybe(self, step: Maybe, front: Front) -> None:
        if step.behind_tag:
            marks, front.at = read_varints(self._data, front.at)
            there = marks != 0
            self._refuse(marks >= INVALID, front, PAST)
        else:
            there = self._data.take(front.at, mode="clip") < ONE_BYTE  # a byte's sign
            front.at = front.at + 1
        wrong = front.at > front.ends
        self._refuse(wrong, front, ENDS)
        chosen = np.flatnonzero(there & ~wrong)
        if len(chosen):
            base = self._notes.enter(step.body.level, chosen + front.base)
            self._part(step.body, chosen, front, base)

    def _tags(self, step: Tags, front: Front) -> None:
        first = self._data.take(front.at, mode="clip")
        if not first.any():
            front.at = front.at + 1
            self._refuse(front.at > front.ends, front, ENDS)
            return
        left, front.at = read_varints(self._data, front.at)
        wrong = (front.at > front.ends) | (left >= INVALID)
        self._refuse(wrong, front, ENDS)
        left[wrong] = 0
        owners = np.flatnonzero(left)
        while len(owners) > _FEW:
            self._next_tags(step, owners, front)
            left[owners] -= 1
            owners = self._notes.unbroken(owners[left[owners] > 0], front.rows)
        if len(owners):
            with Tail(self._notes, self._data) as tail:
                for owner in owners.tolist():
                    tail.start(front.at[owner], front.ends[owner], front.rows[owner])
                    tail.tags(step, int(left[owner]), front.base + owner)
                    front.at[owner], front.ends[owner] = tail.at, tail.end

    def _next_tags(self, step: Tags, owners: Ints, front: Front) -> None:
        """Walk one more tagged field of each of the owners' sections, and move them on."""
        inner = front.part(owners, 0)
        tag, inner.at = read_varints(self._data, inner.at)
        size, inner.at = read_varints(self._data, inner.at)
        wrong = (size > inner.ends - inner.at) | (tag >= INVALID)
        self._refuse(wrong, inner, PAST)
        size[wrong] = 0
        stops = inner.at + size
        for number, body in step.known.items():
            chosen = np.flatnonzero((tag == number) & ~wrong)
            if len(chosen):
                base = self._notes.enter(body.level, owners[chosen] + front.base)
                self._part(body, chosen, inner, base)
        known = np.isin(tag, list(step.known)) & ~wrong
        self._notes.unknown_tags += int(np.count_nonzero(~known & ~wrong))
        inner.at, at = stops, inner.at
        self._refuse(known & (at != stops), inner, TAG)
        front.at[owners] = inner.at
        front.ends[owners] = inner.ends


def walk_messages(plan: Plan, data: Bytes, starts: Ints, ends: Ints) -> Notes:
    """Walk messages that stand in `data`, in ascending order; what was noted of them."""
    if len(data):
        notes = Notes(plan, data, len(starts))
        try:
            Walk(notes, data).messages(plan.body, starts, ends)
        except BrokenError:
            pass
        else:
            return notes
    padded = np.concatenate([data, np.zeros(ZEROS, dtype=np.uint8)])
    notes = Notes(plan, padded, len(starts), zeros=len(data))
    Walk(notes, padded).messages(plan.body, starts, ends)
    return notes
