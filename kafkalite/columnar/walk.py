"""Steps over many messages at once, noting where their fields stand.

The walk is a wavefront: all messages take the same step together, and of an array all first
rows are walked, then all second ones. Numbers are not read and strings not cut on the way, only
lengths are: what was noted is read in one go afterwards, by `assemble`.

No bytes can make it fail or run away. Where a message breaks the protocol, the walk is done
again over a copy of the data with a field of zeros behind it; a broken message is then marked,
and led into the zeros, where every length is none, until its neighbours are done.
"""

# ruff: noqa: PLR0917 - a front of the walk is passed as the vectors it is made of
from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.columnar.plan import Counted, Maybe, Rows, Run, Tags
from kafkalite.columnar.varints import INVALID, read_varints
from kafkalite.protocol.straightline import LONGEST_STRING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.columnar.plan import Body, Plan

    Bytes = NDArray[np.uint8]
    Ints = NDArray[np.int64]

_ZEROS: Final = 1 << 16
"""More than all steps of any message take together where every length is zero."""

_FAR: Final = 1 << 60

_NULL: Final = "null or a negative length where none is allowed"
_PAST: Final = "a length that runs past the end of the frame"
_ENDS: Final = "the frame ends inside a field"
_TAG: Final = "a tagged field that is not of its declared size"
_LONG: Final = "a string of more than 32767 bytes"


class _BrokenError(Exception):
    """Some message breaks the protocol, and there are no zeros to lead it into."""


class Walk:
    """The notes of one walk: what each step kept, and who belongs to whom."""

    def __init__(self, plan: Plan, data: Bytes, rows: int) -> None:
        self.data = data
        self.reasons: dict[int, str] = {}
        """Why a message was refused, by its row."""
        self.sizes = [0] * len(plan.above)
        self._above = plan.above
        self._slots: list[list[Ints]] = [[] for _ in range(plan.slots)]
        self._parents: list[list[Ints]] = [[] for _ in plan.above]
        self._ranks: list[list[Ints | int]] = [[] for _ in plan.above]
        self._is_broken = np.zeros(rows, dtype=np.bool_)
        self._zeros: int | None = None
        self._int16 = unaligned(data, ">i2")
        self._int32 = unaligned(data, ">i4")

    def lead_broken_to(self, zeros: int) -> None:
        """From here on lead broken messages to this position, behind which are only zeros."""
        self._zeros = zeros

    # -- what was noted -----------------------------------------------------------------

    def slot(self, slot: int) -> Ints:
        """Return what a slot kept, by instance of its level in the order of the walk."""
        return _joined(self._slots[slot])

    def sizes_above(self, level: int) -> int:
        """Count the instances of the level that this one's belong to."""
        return self.sizes[self._above[level]]

    def parents(self, level: int) -> Ints:
        """Return which instance of the level above each instance belongs to."""
        return _joined(self._parents[level])

    def ranks(self, level: int) -> Ints:
        """Return the how-manieth row of its array each instance is."""
        pairs = zip(self._ranks[level], self._parents[level], strict=True)
        return _joined([np.full(len(of), rank) if isinstance(rank, int) else rank
                        for rank, of in pairs])  # fmt: skip

    # -- walking ------------------------------------------------------------------------

    def messages(self, body: Body, starts: Ints, ends: Ints) -> None:
        """Walk all messages, the i-th from starts[i] to at most ends[i]."""
        rows = np.arange(len(starts))
        self.sizes[body.level] = len(rows)
        outside = (starts > ends) | (starts < 0)
        starts, ends = starts.copy(), ends.copy()
        self._refuse(outside, starts, ends, rows, _ENDS)
        self._steps(body, starts, ends, rows, 0)

    def _enter(self, level: int, parents: Ints, rank: Ints | int = 0) -> int:
        """Add instances to a level; the number of the first."""
        base = self.sizes[level]
        self.sizes[level] += len(parents)
        self._parents[level].append(parents)
        self._ranks[level].append(rank)
        return base

    def _keep(self, slot: int, values: Ints) -> None:
        if slot >= 0:
            self._slots[slot].append(values)

    def _steps(self, body: Body, at: Ints, ends: Ints, rows: Ints, base: int) -> Ints:
        """Walk instances of a body, the first of which has number `base`; where they end."""
        for step in body.steps:
            match step:
                case Run():
                    self._keep(step.slot, at)
                    at = at + step.size
                case Counted():
                    at = self._counted(step, at, ends, rows)
                case Rows():
                    at = self._rows(step, at, ends, rows, base)
                case Maybe():
                    at = self._maybe(step, at, ends, rows, base)
                case Tags():
                    at = self._tags(step, at, ends, rows, base)
        if body.steps and isinstance(body.steps[-1], Run):
            at = self._refuse(at > ends, at, ends, rows, _ENDS)
        return at

    def _refuse(self, wrong: NDArray[np.bool_], at: Ints, ends: Ints, rows: Ints, why: str) -> Ints:
        """Mark messages as broken and lead them into the zeros; changes `at` and `ends`."""
        if not wrong.any():
            return at
        if self._zeros is None:
            raise _BrokenError
        at[wrong] = self._zeros
        ends[wrong] = _FAR
        for row in rows[wrong].tolist():
            self.reasons.setdefault(row, why)
        self._is_broken[rows[wrong]] = True
        return at

    def _length(self, step: Counted | Rows, at: Ints, ends: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """Read lengths, -1 for null; the positions behind them."""
        if step.compact:
            raw, after = read_varints(self.data, at)
            length = raw - 1
            smallest = int(raw.min(initial=1)) - 1
        else:
            view, size = (self._int16, 2) if isinstance(step, Counted) and step.is_text else (
                self._int32, 4)  # fmt: skip
            wrong = at > ends - size
            if wrong.any():
                at = self._refuse(wrong, at.copy(), ends, rows, _ENDS)
            length = view[at].astype(np.int64)
            after = at + size
            smallest = int(length.min(initial=0))
        if smallest < (-1 if step.nullable else 0):
            wrong = length < (-1 if step.nullable else 0)
            after = self._refuse(wrong, after, ends, rows, _NULL)
            length[wrong] = 0
        return length, after

    def _counted(self, step: Counted, at: Ints, ends: Ints, rows: Ints) -> Ints:
        length, after = self._length(step, at, ends, rows)
        stops = after + length
        reach = np.maximum(stops, after) if step.nullable else stops
        wrong = reach > ends
        if step.is_text and int(length.max(initial=0)) > LONGEST_STRING:
            wrong |= length > LONGEST_STRING
        if wrong.any():
            after = self._refuse(wrong, after, ends, rows, _PAST)
            stops[wrong] = reach[wrong] = after[wrong]
        self._keep(step.slot, after)
        if step.slot >= 0:
            self._keep(step.slot + 1, stops)
        return reach

    def _rows(self, step: Rows, at: Ints, ends: Ints, rows: Ints, base: int) -> Ints:
        count, at = self._length(step, at, ends, rows)
        wrong = np.maximum(count, 0) > ends - at
        if wrong.any():
            at = self._refuse(wrong, at, ends, rows, _PAST)
            count[wrong] = 0
        self._keep(step.slot, count)
        left = np.maximum(count, 0) if step.nullable else count.copy()
        if not left.any():
            return at
        if step.body.size is not None:
            return self._equal_rows(step.body, step.body.size, left, at, ends, rows, base)
        return self._waves(step.body, left, at, ends, rows, base)

    def _equal_rows(
        self, body: Body, size: int, left: Ints, at: Ints, ends: Ints, rows: Ints, base: int
    ) -> Ints:
        """Walk all rows of all arrays in one go, as they are all of one size."""
        after = at + left * size
        wrong = after > ends
        if wrong.any():
            after = self._refuse(wrong, after, ends, rows, _PAST)
            left[wrong] = 0
        owners = np.repeat(np.arange(len(at)), left)
        rank = np.arange(len(owners)) - np.repeat(np.cumsum(left) - left, left)
        self._enter(body.level, owners + base, rank)
        (run,) = body.steps
        assert isinstance(run, Run)
        if run.slot >= 0:
            self._keep(run.slot, at[owners] + rank * size)
        return after

    def _waves(self, body: Body, left: Ints, at: Ints, ends: Ints, rows: Ints, base: int) -> Ints:
        """Walk the first rows of all arrays, then the second ones, and so on."""
        rank, owners = 0, np.flatnonzero(left)
        is_noted = False
        while len(owners):
            first = self._enter(body.level, owners + base, rank)
            if len(owners) == len(at):
                at = self._steps(body, at, ends, rows, first)
                is_noted = True
            else:
                if is_noted:
                    at, is_noted = at.copy(), False
                its_ends = ends[owners]
                at[owners] = self._steps(body, at[owners], its_ends, rows[owners], first)
                ends[owners] = its_ends
            rank += 1
            left[owners] -= 1
            owners = owners[left[owners] > 0]
            if self._zeros is not None:
                owners = owners[~self._is_broken[rows[owners]]]
        return at

    def _maybe(self, step: Maybe, at: Ints, ends: Ints, rows: Ints, base: int) -> Ints:
        if step.behind_tag:
            marks, after = read_varints(self.data, at)
            there = marks != 0
        else:
            marks, after = self.data.take(at, mode="clip").astype(np.int64), at + 1
            there = marks < 0x80  # noqa: PLR2004 - the sign of a byte
        after = self._refuse((after > ends) | (marks >= INVALID), after, ends, rows, _ENDS)
        chosen = np.flatnonzero(there)
        if len(chosen):
            self._part(step.body, chosen, after, ends, rows, base)
        return after

    def _part(self, body: Body, chosen: Ints, at: Ints, ends: Ints, rows: Ints, base: int) -> None:
        """Walk a level that only some have; moves their `at` on."""
        first = self._enter(body.level, chosen + base)
        its_ends = ends[chosen]
        at[chosen] = self._steps(body, at[chosen], its_ends, rows[chosen], first)
        ends[chosen] = its_ends

    def _tags(self, step: Tags, at: Ints, ends: Ints, rows: Ints, base: int) -> Ints:
        left, at = read_varints(self.data, at)
        wrong = at > ends
        if wrong.any() or left.any():
            at = self._refuse(wrong | (left >= INVALID), at, ends, rows, _ENDS)
            left[wrong] = 0
            self._some_tags(step, left, at, ends, rows, base)
        return at

    def _some_tags(
        self, step: Tags, left: Ints, at: Ints, ends: Ints, rows: Ints, base: int
    ) -> None:
        """Walk the first tags of all sections, then the second ones, and so on; moves `at` on."""
        owners = np.flatnonzero(left)
        while len(owners):
            its_ends, its_rows = ends[owners], rows[owners]
            tag, here = read_varints(self.data, at[owners])
            size, here = read_varints(self.data, here)
            wrong = (size > its_ends - here) | (tag >= INVALID)
            here = self._refuse(wrong, here, its_ends, its_rows, _PAST)
            size[wrong] = 0
            stops = here + size
            for number, body in step.known.items():
                chosen = np.flatnonzero((tag == number) & ~wrong)
                if len(chosen):
                    first = self._enter(body.level, owners[chosen] + base)
                    here[chosen] = self._steps(
                        body, here[chosen], its_ends[chosen], its_rows[chosen], first
                    )
                    differs = np.zeros(len(owners), dtype=np.bool_)
                    differs[chosen] = here[chosen] != stops[chosen]
                    stops = self._refuse(differs, stops, its_ends, its_rows, _TAG)
            at[owners], ends[owners] = stops, its_ends
            left[owners] -= 1
            owners = owners[left[owners] > 0]
            if self._zeros is not None:
                owners = owners[~self._is_broken[rows[owners]]]


def unaligned(data: Bytes, code: str) -> NDArray[np.generic]:
    """View data as numbers of some type, one beginning at every byte."""
    dtype = np.dtype(code)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data, strides=(1,))


def _joined(pieces: list[Ints]) -> Ints:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)


def walk_messages(plan: Plan, data: Bytes, starts: Ints, ends: Ints) -> Walk:
    """Walk messages that stand in `data`, in ascending order."""
    walk = Walk(plan, data, len(starts))
    if len(data):
        try:
            walk.messages(plan.body, starts, ends)
        except _BrokenError:
            pass
        else:
            return walk
    walk = Walk(plan, np.concatenate([data, np.zeros(_ZEROS, dtype=np.uint8)]), len(starts))
    walk.lead_broken_to(len(data))
    walk.messages(plan.body, starts, ends)
    return walk
