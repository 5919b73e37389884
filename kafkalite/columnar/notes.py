"""What a walk over messages notes: positions by slot, instances by level, and who is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kafkalite.columnar.plan import Plan

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]

ZEROS: Final = 1 << 16
"""More than all steps of any message take together where every length is zero."""

FAR: Final = 1 << 60
"""Where a message ends that was led into the zeros."""

NULL: Final = "null or a negative length where none is allowed"
PAST: Final = "a length that runs past the end of the frame"
ENDS: Final = "the frame ends inside a field"
TAG: Final = "a tagged field that is not of its declared size"
LONG: Final = "a string of more than 32767 bytes"


class BrokenError(Exception):
    """Some message breaks the protocol, and there are no zeros to lead it into."""


class Notes:
    """What each step kept, in the order of the walk, and who belongs to whom."""

    __slots__ = (
        "_above",
        "_is_broken",
        "_parents",
        "_ranks",
        "_slots",
        "data",
        "reasons",
        "sizes",
        "unknown_tags",
        "zeros",
    )

    def __init__(self, plan: Plan, data: Bytes, rows: int, zeros: int | None = None) -> None:
        self.data = data
        self.zeros = zeros
        """Where to lead broken messages."""
        self.reasons: dict[int, str] = {}
        """Why a message was refused, by its row."""
        self.sizes = [0] * len(plan.above)
        """How many instances each level has."""
        self.unknown_tags = 0
        """How many tagged fields were passed over."""
        self._above = plan.above
        self._slots: list[list[Ints]] = [[] for _ in range(plan.slots)]
        self._parents: list[list[Ints]] = [[] for _ in plan.above]
        self._ranks: list[list[Ints | int]] = [[] for _ in plan.above]
        self._is_broken = np.zeros(rows, dtype=np.bool_)

    # -- taking notes -------------------------------------------------------------------

    def keep(self, slot: int, values: Ints) -> None:
        """Keep a value for each of the instances that were entered, in their order."""
        if slot >= 0:
            self._slots[slot].append(values)

    def enter(self, level: int, parents: Ints, ranks: Ints | int = 0) -> int:
        """Add instances to a level, each under one of the level above; the number of the first."""
        base = self.sizes[level]
        self.sizes[level] += len(parents)
        self._parents[level].append(parents)
        self._ranks[level].append(ranks)
        return base

    def refuse(self, rows: Ints, why: str) -> int:
        """Mark messages as broken; where to lead them. BrokenError where there is no such place."""
        if self.zeros is None:
            raise BrokenError
        for row in rows.tolist():
            self.reasons.setdefault(row, why)
        self._is_broken[rows] = True
        return self.zeros

    def unbroken(self, owners: Ints, rows: Ints) -> Ints:
        """Leave out those whose messages are broken."""
        return owners if self.zeros is None else owners[~self._is_broken[rows[owners]]]

    # -- reading them -------------------------------------------------------------------

    def slot(self, slot: int) -> Ints:
        """Return what a slot kept."""
        return _joined(self._slots[slot])

    def parents(self, level: int) -> Ints:
        """Return which instance of the level above each instance belongs to."""
        return _joined(self._parents[level])

    def ranks(self, level: int) -> Ints:
        """Return the how-manieth row of its array each instance is."""
        pairs = zip(self._ranks[level], self._parents[level], strict=True)
        return _joined(
            [np.full(len(of), ranks) if isinstance(ranks, int) else ranks for ranks, of in pairs]
        )

    def is_in_order(self, level: int) -> bool:
        """Whether an array level was entered at once, so that its rows follow their parents."""
        return len(self._parents[level]) == 1

    def size_above(self, level: int) -> int:
        """Count the instances of the level that this one's belong to."""
        return self.sizes[self._above[level]]


def _joined(pieces: list[Ints]) -> Ints:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)


def unaligned(data: Bytes, code: str) -> NDArray[Any]:
    """View data as numbers of some type, one beginning at every byte."""
    dtype = np.dtype(code)
    count = max(0, len(data) - dtype.itemsize + 1)
    return np.ndarray((count,), dtype, data, strides=(1,))
