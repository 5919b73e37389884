"""Window: the offsets of a partition that a share group is processing, from its start to its end.

Before the start all records are acknowledged or archived; after the end nothing was acquired yet.
In between, each record is available, acquired by one member, or in a final state. The start
advances over records in a final state, and when the log deletes records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.shares.in_flight import NO_DEADLINE, NO_MEMBER, InFlightBatch, InFlightBatches, Run
from kafkalite.shares.state import DeliveryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.shares.state import StateBatch


class Gap(NamedTuple):
    """Records in no batch of the loaded state: acquired, but not acknowledged when it was stored.

    Valid until the end of the window moves.
    """

    start: int
    window_end: int


class Window:
    """The offsets in flight of one share partition."""

    __slots__ = ("complete_count", "end_offset", "gap", "in_flight", "may_have_available",
                 "start_offset")  # fmt: skip

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """Begin with a stored state; raises ValueError if it is inconsistent."""
        self.start_offset = start_offset
        self.end_offset = start_offset
        """The last acquired offset; if nothing is in flight, the next offset to acquire."""
        self.in_flight = InFlightBatches()
        self.complete_count = 0
        """Number of records from the start on whose state is final."""
        self.may_have_available = False
        self.gap: Gap | None = None
        gap_start = None
        next_offset = start_offset
        for batch in batches:
            if batch.first_offset < next_offset or batch.last_offset < batch.first_offset:
                raise ValueError(
                    f"invalid batch from {batch.first_offset} to {batch.last_offset} "
                    f"after {next_offset - 1}"
                )
            if gap_start is None and batch.first_offset > next_offset:
                gap_start = next_offset
            next_offset = batch.last_offset + 1
            run = Run(
                batch.first_offset,
                batch.last_offset,
                DeliveryState(batch.delivery_state),
                batch.delivery_count,
            )
            self.in_flight.put(InFlightBatch([run]))
            if run.is_final:
                self.complete_count += run.size
        if self.in_flight:
            self.may_have_available = True
            self.end_offset = self.in_flight.last
            if gap_start is not None:
                self.gap = Gap(gap_start, self.end_offset)
            self.advance_start()

    @property
    def active_gap(self) -> Gap | None:
        """The gap, if some of it is still to be acquired."""
        gap = self.gap
        return gap if gap is not None and gap.window_end == self.end_offset else None

    @property
    def record_count(self) -> int:
        """Number of records in flight that count for limits."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    def next_fetch_offset(self) -> int:
        """Return the offset to read next: the first available record, else the window's end."""
        if not self.in_flight or self.start_offset > self.in_flight.last:
            self.may_have_available = False
            return self.end_offset
        if self.may_have_available:
            first_available = self._first_available()
            if first_available is not None:
                return first_available
            self.may_have_available = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        gap = self.active_gap
        gap_start = -1 if gap is None else gap.start
        for batch in self.in_flight.batches:
            if gap is not None:
                if batch.first > gap_start:
                    return gap_start
                gap_start = max(batch.last + 1, gap_start)
            for run in batch.runs:
                if run.state is DeliveryState.AVAILABLE:
                    return run.first
        return None

    def can_acquire(self, max_records: int) -> bool:
        """Whether a member could acquire records, if there are any to read."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.record_count < max_records

    # --- moving the start --------------------------------------------------------------------

    def advance_start(self) -> bool:
        """Move the start over final records and remove them; return whether it moved."""
        if not self._is_start_final():
            return False
        last, count = self._final_prefix()
        if last is None:
            return False
        in_flight = self.in_flight
        if last == in_flight.last:
            # If the log deleted records, the start is already further. Kafka moves it back.
            self.start_offset = self.end_offset = max(self.start_offset, last + 1)
            in_flight.batches.clear()
            self.complete_count = 0
            return True
        batch = in_flight.floor(last)
        assert batch is not None
        if last == batch.last:
            following = in_flight.after(last)
            assert following is not None
            gap = self.active_gap
            new_start = following.first if gap is None else min(gap.start, following.first)
            self.start_offset = max(self.start_offset, new_start)
            in_flight.remove_through(batch.first)
        else:
            self.start_offset = max(self.start_offset, last + 1)
            in_flight.remove_through(batch.first - 1)
        self.complete_count -= count
        return True

    def _is_start_final(self) -> bool:
        batch = self.in_flight.floor(self.start_offset) if self.in_flight else None
        if batch is None:
            return False
        run = batch.run_at(self.start_offset) if batch.is_split else batch.only_run
        return run is not None and run.is_final

    def _final_prefix(self) -> tuple[int | None, int]:
        """Return the last of the final records at the start, or None, and their number."""
        last, count = None, 0
        gap = self.active_gap
        for batch in self.in_flight.batches:
            if gap is not None and batch.last >= gap.start:
                break
            for run in batch.runs:
                if not run.is_final:
                    return last, count
                last = run.last
                count += self.count_in_window(run)
        return last, count

    def count_in_window(self, run: Run) -> int:
        """Return the number of records of a run that are in the window."""
        return max(0, run.last - max(run.first, self.start_offset) + 1)

    def advance_log_start(self, log_start_offset: int) -> None:
        """Move the start to the log's new start; records before it are archived unless acquired."""
        if log_start_offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = log_start_offset
            self.complete_count = 0
            return
        deleted_count = sum(
            run.size
            for batch in self.in_flight.batches
            for run in batch.runs_between(self.start_offset, log_start_offset - 1)
            if run.is_final
        )
        self.archive(self.start_offset, log_start_offset - 1, DeliveryState.AVAILABLE)
        self.start_offset = log_start_offset
        self.complete_count -= deleted_count
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """Archive available records between the fetch offset and the next batch of the log."""
        if self.in_flight and fetch_offset < base_offset:
            self.complete_count += self.archive(
                fetch_offset, base_offset - 1, DeliveryState.AVAILABLE
            )

    def archive(self, first: int, last: int, from_state: DeliveryState) -> int:
        """Archive the records in `from_state` between two offsets, and return their number."""
        count = 0
        for batch in self.overlapping(first, last):
            if batch.is_split or batch.only_run.state is from_state:
                covers_batch = first <= batch.first and batch.last <= last
                batch.is_split = batch.is_split or not covers_batch
                count += sum(
                    run.size for run in batch.runs_between(first, last) if run.state is from_state
                )
                batch.change(
                    first, last, lambda run: _archived(run) if run.state is from_state else run
                )
        if count:
            self.may_have_available = True
        return count

    def overlapping(self, first: int, last: int) -> Iterator[InFlightBatch]:
        """Yield the batches that have records between two offsets."""
        floor = self.in_flight.floor(first)
        begin = floor.first if floor is not None and floor.last >= first else first
        yield from self.in_flight.starting_between(begin, last)

    def advance_gap(self, offset: int) -> None:
        """Record that the part of the gap before `offset` was acquired."""
        gap = self.gap
        if gap is not None:
            is_inside = gap.window_end == self.end_offset and offset <= gap.window_end
            self.gap = gap._replace(start=offset) if is_inside else None


def _archived(run: Run) -> Run:
    return run._replace(state=DeliveryState.ARCHIVED, member_id=NO_MEMBER, deadline_ms=NO_DEADLINE)
