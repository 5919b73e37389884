"""Records in flight: batches of neighbours that were handed out together, and how each fares.

A batch is one thing until somebody treats a part of it differently; from then on it is split, and
its records are looked at one by one where that matters. Chosen: runs of records that fare alike
instead of Kafka's entry per record, so that a batch of thousands costs as much as one of ten.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.shares.state import FINAL_STATES, DeliveryState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOBODY = ""
NO_DEADLINE = 0


class Run(NamedTuple):
    """Records next to each other that fare alike."""

    first: int
    last: int
    state: DeliveryState
    delivery_count: int
    member_id: str = NOBODY
    """Who has them, while they are acquired."""
    deadline_ms: int = NO_DEADLINE
    """Until when, in milliseconds since the Unix epoch."""

    @property
    def is_final(self) -> bool:
        """Whether nothing more will become of these records."""
        return self.state in FINAL_STATES

    @property
    def size(self) -> int:
        """How many records these are."""
        return self.last - self.first + 1


class InFlightBatch:
    """Records that were handed out together, as runs without gaps."""

    __slots__ = ("first", "is_split", "last", "runs")

    def __init__(self, runs: list[Run], *, is_split: bool = False) -> None:
        self.first = runs[0].first
        self.last = runs[-1].last
        self.runs = runs
        self.is_split = is_split

    def __repr__(self) -> str:
        return f"{self.first}-{self.last}{'/' if self.is_split else ''}{self.runs}"

    @property
    def size(self) -> int:
        """How many records these are."""
        return self.last - self.first + 1

    @property
    def whole(self) -> Run:
        """How the batch fares that is not split."""
        return self.runs[0]

    def copy(self) -> InFlightBatch:
        """Return a batch that can be changed without this one."""
        return InFlightBatch(list(self.runs), is_split=self.is_split)

    def within(self, first: int, last: int) -> Iterator[Run]:
        """Yield the runs between two offsets, cut to what lies between them."""
        runs = self.runs
        for index in range(self._reaching(first), len(runs)):
            run = runs[index]
            if run.first > last or first > last:
                return
            if run.first >= first and run.last <= last:
                yield run
            else:
                yield run._replace(first=max(run.first, first), last=min(run.last, last))

    def change(self, first: int, last: int, changed: Callable[[Run], Run]) -> None:
        """Let the records between two offsets fare as `changed` says of each run of them."""
        if first > last:
            return
        begin = end = self._reaching(first)
        runs: list[Run] = []
        if begin:
            begin -= 1
            runs.append(self.runs[begin])
        for end in range(end, len(self.runs)):  # noqa: B020 - from there on
            run = self.runs[end]
            if run.first > last:
                # One more, for it may fare as its new neighbour does.
                _add(runs, run)
                break
            if run.first < first:
                _add(runs, run._replace(last=first - 1))
            cut = run._replace(first=max(run.first, first), last=min(run.last, last))
            _add(runs, changed(cut))
            if run.last > last:
                _add(runs, run._replace(first=last + 1))
        self.runs[begin : end + 1] = runs

    def run_at(self, offset: int) -> Run | None:
        """Return the run that a record is in."""
        index = self._reaching(offset)
        if index < len(self.runs) and self.runs[index].first <= offset:
            return self.runs[index]
        return None

    def _reaching(self, offset: int) -> int:
        """Return which run is the first that reaches as far as `offset`."""
        return bisect_left(self.runs, offset, key=_last_of)


def _add(runs: list[Run], run: Run) -> None:
    """Put a run behind the others, joined with the last where they fare alike."""
    if runs and runs[-1][2:] == run[2:]:
        runs[-1] = runs[-1]._replace(last=run.last)
    else:
        runs.append(run)


class InFlight:
    """The batches in flight of one share partition, in the order of their offsets."""

    __slots__ = ("batches",)

    def __init__(self) -> None:
        self.batches: list[InFlightBatch] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    @property
    def first(self) -> int:
        """The first offset of all; there must be some."""
        return self.batches[0].first

    @property
    def last(self) -> int:
        """The last offset of all; there must be some."""
        return self.batches[-1].last

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before `offset`."""
        index = self._after(offset)
        return self.batches[index - 1] if index else None

    def beginning_within(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin between two offsets."""
        return self.batches[self._after(first - 1) : self._after(last)]

    def after(self, offset: int) -> InFlightBatch | None:
        """Return the first batch that begins behind `offset`."""
        index = self._after(offset)
        return self.batches[index] if index < len(self.batches) else None

    def put(self, batch: InFlightBatch) -> None:
        """Add a batch, instead of one that begins where it does."""
        index = self._after(batch.first)
        if index and self.batches[index - 1].first == batch.first:
            self.batches[index - 1] = batch
        else:
            self.batches.insert(index, batch)

    def drop_until(self, first: int) -> None:
        """Forget the batches that begin at or before `first`."""
        del self.batches[: self._after(first)]

    def _after(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=_first_of)


_first_of = attrgetter("first")
_last_of = attrgetter("last")
