"""Records in flight: batches of records that were acquired together, with their states.

A batch has one state until a part of it is treated differently. Then it is split into runs of
records with equal state. Kafka stores an entry per record instead; with runs, a batch of thousands
costs as much as one of ten.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.shares.state import FINAL_STATES, DeliveryState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NO_MEMBER = ""
NO_DEADLINE = 0


class Run(NamedTuple):
    """Consecutive records with equal state."""

    first: int
    last: int
    state: DeliveryState
    delivery_count: int
    member_id: str = NO_MEMBER
    """The member that has acquired them."""
    deadline_ms: int = NO_DEADLINE
    """When the lock expires, in milliseconds since the Unix epoch."""

    @property
    def is_final(self) -> bool:
        """Whether the state of these records is final."""
        return self.state in FINAL_STATES

    @property
    def size(self) -> int:
        """Number of records."""
        return self.last - self.first + 1


class InFlightBatch:
    """Records that were acquired together, as runs without gaps."""

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
        """Number of records."""
        return self.last - self.first + 1

    @property
    def only_run(self) -> Run:
        """The run of a batch that is not split."""
        return self.runs[0]

    def copy(self) -> InFlightBatch:
        """Return an independent copy."""
        return InFlightBatch(list(self.runs), is_split=self.is_split)

    def runs_between(self, first: int, last: int) -> Iterator[Run]:
        """Yield the runs between two offsets, truncated to them."""
        runs = self.runs
        for index in range(self._index_from(first), len(runs)):
            run = runs[index]
            if run.first > last or first > last:
                return
            if run.first >= first and run.last <= last:
                yield run
            else:
                yield run._replace(first=max(run.first, first), last=min(run.last, last))

    def change(self, first: int, last: int, transform: Callable[[Run], Run]) -> None:
        """Replace each run between two offsets by the result of `transform` for it."""
        if first > last:
            return
        begin = end = self._index_from(first)
        runs: list[Run] = []
        if begin:
            begin -= 1
            runs.append(self.runs[begin])
        for end in range(end, len(self.runs)):  # noqa: B020 - continues at `end`
            run = self.runs[end]
            if run.first > last:
                # This run is added too, because its state may now equal that of the run before.
                _append_run(runs, run)
                break
            if run.first < first:
                _append_run(runs, run._replace(last=first - 1))
            overlap = run._replace(first=max(run.first, first), last=min(run.last, last))
            _append_run(runs, transform(overlap))
            if run.last > last:
                _append_run(runs, run._replace(first=last + 1))
        self.runs[begin : end + 1] = runs

    def run_at(self, offset: int) -> Run | None:
        """Return the run of a record."""
        index = self._index_from(offset)
        if index < len(self.runs) and self.runs[index].first <= offset:
            return self.runs[index]
        return None

    def _index_from(self, offset: int) -> int:
        """Return the index of the first run that ends at or after `offset`."""
        return bisect_left(self.runs, offset, key=_last_of)


def _append_run(runs: list[Run], run: Run) -> None:
    """Append a run; joined with the last if their states are equal."""
    if runs and runs[-1][2:] == run[2:]:
        runs[-1] = runs[-1]._replace(last=run.last)
    else:
        runs.append(run)


class InFlightBatches:
    """The batches in flight of one share partition, in the order of their offsets."""

    __slots__ = ("batches",)

    def __init__(self) -> None:
        self.batches: list[InFlightBatch] = []

    def __bool__(self) -> bool:
        return bool(self.batches)

    @property
    def first(self) -> int:
        """The first offset; there must be batches."""
        return self.batches[0].first

    @property
    def last(self) -> int:
        """The last offset; there must be batches."""
        return self.batches[-1].last

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before `offset`."""
        index = self._after(offset)
        return self.batches[index - 1] if index else None

    def starting_between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin between two offsets."""
        return self.batches[self._after(first - 1) : self._after(last)]

    def after(self, offset: int) -> InFlightBatch | None:
        """Return the first batch that begins after `offset`."""
        index = self._after(offset)
        return self.batches[index] if index < len(self.batches) else None

    def put(self, batch: InFlightBatch) -> None:
        """Add a batch; replaces one with the same first offset."""
        index = self._after(batch.first)
        if index and self.batches[index - 1].first == batch.first:
            self.batches[index - 1] = batch
        else:
            self.batches.insert(index, batch)

    def remove_through(self, first: int) -> None:
        """Remove the batches that begin at or before `first`."""
        del self.batches[: self._after(first)]

    def _after(self, offset: int) -> int:
        return bisect_right(self.batches, offset, key=_first_of)


_first_of = attrgetter("first")
_last_of = attrgetter("last")
