"""Window: the stretch of a partition that a share group is at, from its start to its end.

Before the start everything is settled; behind the end nothing was handed out yet. In between,
each record is available, acquired by one member, or settled. The start follows what is settled,
and the log where that loses records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.shares.in_flight import NO_DEADLINE, NOBODY, InFlight, InFlightBatch, Run
from kafkalite.shares.state import DeliveryState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kafkalite.shares.state import StateBatch


class Gap(NamedTuple):
    """What was acquired but not settled when the state was read: nothing is known of it.

    Kept as long as the window ends where it did then.
    """

    start: int
    window_end: int


class Window:
    """The stretch in flight of one share partition."""

    __slots__ = ("complete_count", "end_offset", "gap", "in_flight", "may_have_available",
                 "start_offset")  # fmt: skip

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """Take up a state that was kept; ValueError when it makes no sense."""
        self.start_offset = start_offset
        self.end_offset = start_offset
        """The last offset handed out; while nothing is in flight, the next to be."""
        self.in_flight = InFlight()
        self.complete_count = 0
        """Records from the start on of which nothing more will become."""
        self.may_have_available = False
        self.gap: Gap | None = None
        gap_start = None
        behind = start_offset
        for batch in batches:
            if batch.first_offset < behind or batch.last_offset < batch.first_offset:
                raise ValueError(f"a batch from {batch.first_offset} to {batch.last_offset}")
            if gap_start is None and batch.first_offset > behind:
                gap_start = behind
            behind = batch.last_offset + 1
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
            self.settle_start()

    @property
    def active_gap(self) -> Gap | None:
        """What nothing is known of, if that is still to be handed out."""
        gap = self.gap
        return gap if gap is not None and gap.window_end == self.end_offset else None

    @property
    def record_count(self) -> int:
        """How many records are in flight, as far as limits are concerned."""
        return self.end_offset - self.start_offset + 1 if self.in_flight else 0

    def next_fetch_offset(self) -> int:
        """Return where to read on: the first record that is available, else the window's end."""
        if not self.in_flight or self.start_offset > self.in_flight.last:
            self.may_have_available = False
            return self.end_offset
        if self.may_have_available:
            found = self._first_available()
            if found is not None:
                return found
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

    def can_acquire(self, most_records: int) -> bool:
        """Whether a member could be given something, were it there to read."""
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.record_count < most_records

    # --- how the start moves -----------------------------------------------------------------

    def settle_start(self) -> bool:
        """Move the start behind what is settled, and forget that; returns whether it moved."""
        if not self._is_start_settled():
            return False
        last, count = self._settled_until()
        if last is None:
            return False
        in_flight = self.in_flight
        if last == in_flight.last:
            # Where the log lost records, the start is further already. Kafka's goes back then.
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
            settled = following.first if gap is None else min(gap.start, following.first)
            self.start_offset = max(self.start_offset, settled)
            in_flight.drop_until(batch.first)
        else:
            self.start_offset = max(self.start_offset, last + 1)
            in_flight.drop_until(batch.first - 1)
        self.complete_count -= count
        return True

    def _is_start_settled(self) -> bool:
        batch = self.in_flight.floor(self.start_offset) if self.in_flight else None
        if batch is None:
            return False
        run = batch.run_at(self.start_offset) if batch.is_split else batch.whole
        return run is not None and run.is_final

    def _settled_until(self) -> tuple[int | None, int]:
        """Return the last record before the first that is not settled, and how many there are."""
        last, count = None, 0
        gap = self.active_gap
        for batch in self.in_flight.batches:
            if gap is not None and batch.last >= gap.start:
                break
            for run in batch.runs:
                if not run.is_final:
                    return last, count
                last = run.last
                count += self.counted(run)
        return last, count

    def counted(self, run: Run) -> int:
        """Return how many records of a run lie in the window."""
        return max(0, run.last - max(run.first, self.start_offset) + 1)

    def follow_log_start(self, log_start_offset: int) -> None:
        """Move the start to where the log now begins; what nobody has is given up before it."""
        if log_start_offset <= self.start_offset:
            return
        if not self.in_flight:
            self.start_offset = self.end_offset = log_start_offset
            self.complete_count = 0
            return
        lost = sum(
            run.size
            for batch in self.in_flight.batches
            for run in batch.within(self.start_offset, log_start_offset - 1)
            if run.is_final
        )
        self.archive(self.start_offset, log_start_offset - 1, DeliveryState.AVAILABLE)
        self.start_offset = log_start_offset
        self.complete_count -= lost
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """Give up what is available between where was read and where the log goes on."""
        if self.in_flight and fetch_offset < base_offset:
            self.complete_count += self.archive(
                fetch_offset, base_offset - 1, DeliveryState.AVAILABLE
            )

    def archive(self, first: int, last: int, state: DeliveryState) -> int:
        """Give up the records in a state between two offsets, and return how many."""
        count = 0
        for batch in self.touching(first, last):
            if batch.is_split or batch.whole.state is state:
                is_whole = first <= batch.first and batch.last <= last
                batch.is_split = batch.is_split or not is_whole
                count += sum(run.size for run in batch.within(first, last) if run.state is state)
                batch.change(first, last, lambda run: _archived(run) if run.state is state else run)
        if count:
            self.may_have_available = True
        return count

    def touching(self, first: int, last: int) -> Iterator[InFlightBatch]:
        """Yield the batches that have records between two offsets."""
        floor = self.in_flight.floor(first)
        begin = floor.first if floor is not None and floor.last >= first else first
        yield from self.in_flight.beginning_within(begin, last)

    def pass_gap(self, offset: int) -> None:
        """Note that everything before `offset` was handed out, as far as the gap goes."""
        gap = self.gap
        if gap is not None:
            is_inside = gap.window_end == self.end_offset and offset <= gap.window_end
            self.gap = gap._replace(start=offset) if is_inside else None


def _archived(run: Run) -> Run:
    return run._replace(state=DeliveryState.ARCHIVED, member_id=NOBODY, deadline_ms=NO_DEADLINE)
