"""Acquiring: which of the records that were read a member gets, and until when (KIP-932).

New records are handed out in batches along those of the log; available ones again as they were
handed out before. Two things hold a member back: the records a group may have out at once, and,
near the limit of deliveries, fewer records at a time, so that one bad record does not take its
neighbours with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.shares.in_flight import NOBODY, InFlightBatch, Run
from kafkalite.shares.state import DeliveryState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.shares.window import Window

_LEAST_THROTTLED_DELIVERIES = 2


class Limits(NamedTuple):
    """What a group allows."""

    deliveries: int
    """How often a record is delivered before it is given up."""
    records: int
    """How many records of one partition may be in flight."""
    lock_ms: int
    """How long a member has a record to itself."""
    allows_renewal: bool = True

    @property
    def throttled_from(self) -> int:
        """From so many deliveries on a record is handed out with few others."""
        return max(_LEAST_THROTTLED_DELIVERIES, (self.deliveries + 1) // 2)


class Acquired(NamedTuple):
    """Records next to each other that a member has now."""

    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        """How many records these are."""
        return self.last - self.first + 1


class Fetched(NamedTuple):
    """What was read: the batches of the log by first and last offset, and from where on."""

    batches: Sequence[tuple[int, int]]
    fetch_offset: int


class Wish(NamedTuple):
    """What a member asks for."""

    member_id: str
    max_records: int
    batch_size: int
    """After about so many records a new batch begins."""
    is_exact: bool = False
    """No record more than `max_records`, even if that cuts a batch of the log."""


class Acquisition:
    """One acquisition, from what was read to what the member gets."""

    __slots__ = ("_deadline_ms", "_fetched", "_first_base", "_last", "_left", "_limits",
                 "_window", "_wish", "acquired", "count")  # fmt: skip

    def __init__(
        self, window: Window, fetched: Fetched, wish: Wish, limits: Limits, now_ms: int
    ) -> None:
        self._window = window
        self._fetched = fetched
        self._wish = wish
        self._limits = limits
        self._deadline_ms = now_ms + limits.lock_ms
        self._first_base = fetched.batches[0][0] if fetched.batches else 0
        self._last = fetched.batches[-1][1] if fetched.batches else -1
        self._left = wish.max_records
        self.acquired: list[Acquired] = []
        self.count = 0
        """How many records were acquired, for whoever limits the sum of several partitions."""

    def run(self) -> None:
        """Acquire what may be; what that is stands in `acquired` afterwards."""
        window = self._window
        if self._last < window.start_offset or self._left <= 0:
            return
        self._keep_within_locks()
        if self._left <= 0:
            return
        base = self._first_base
        window.archive_missing(self._fetched.fetch_offset, base)
        floor = window.in_flight.floor(base)
        if floor is None:
            base = max(base, window.start_offset)
        elif floor.last >= base:
            base = floor.first
        known = window.in_flight.beginning_within(min(self._first_base, base), self._last)
        if not known:
            self._acquire_new(base, self._last)
            return
        if self._acquire_known(known, base):
            last_known = known[-1].last
            if self.count < self._left and last_known < self._last:
                self._acquire_new(last_known + 1, self._last)
        if self.acquired:
            window.pass_gap(self.acquired[-1].last + 1)

    def _keep_within_locks(self) -> None:
        """Lower what may be acquired to what the group's limit leaves.

        When nothing is left of it, only records that are in flight already may be acquired.
        """
        window = self._window
        room = self._limits.records - window.record_count
        if room > 0:
            self._left = min(self._left, room)
            return
        offset = self._fetched.fetch_offset
        if offset > window.end_offset:
            self._left = 0
            return
        self._left = min(self._left, window.end_offset - offset + 1)
        self._last = min(self._last, window.end_offset)

    # --- records in flight already -----------------------------------------------------------

    def _acquire_known(self, known: Sequence[InFlightBatch], base: int) -> bool:
        """Acquire from batches in flight, and from a gap between them; False: and nothing more."""
        gap_start = base
        for batch in known:
            if self.count >= self._left:
                break
            if self._window.active_gap is not None:
                if gap_start < batch.first:
                    self._acquire_new(gap_start, batch.first - 1)
                gap_start = batch.last + 1
                if self.count >= self._left:
                    break
            is_throttled = self._is_throttled(batch)
            if is_throttled and self.count:
                return False
            if self._acquire_batch(batch, as_one=not is_throttled) and is_throttled:
                return False
        return True

    def _acquire_batch(self, batch: InFlightBatch, *, as_one: bool) -> int:
        """Acquire what is available of a batch, and return how many records that were."""
        count = self.count
        is_available = not batch.is_split and batch.whole.state is DeliveryState.AVAILABLE
        if as_one and not batch.is_split and self._fits(batch):
            if is_available:
                self._acquire_whole(batch)
        elif batch.is_split or is_available:
            batch.is_split = True
            self._acquire_part(batch)
        return self.count - count

    def _fits(self, batch: InFlightBatch) -> bool:
        """Whether a batch may be acquired as the one thing that it is."""
        return (
            batch.first >= self._first_base
            and batch.last <= self._last
            and not (self._wish.is_exact and batch.size > self._left - self.count)
        )

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        throttled_from = self._limits.throttled_from
        return any(
            run.state is DeliveryState.AVAILABLE and run.delivery_count >= throttled_from
            for run in (
                batch.within(self._first_base, self._last) if batch.is_split else batch.runs
            )
        )

    def _acquire_whole(self, batch: InFlightBatch) -> None:
        taken = self._taken(batch.whole)
        batch.runs = [taken]
        self.acquired.append(Acquired(batch.first, batch.last, taken.delivery_count))
        self.count += batch.size

    def _acquire_part(self, batch: InFlightBatch) -> None:
        """Acquire what is available of a split batch."""
        part = _Part(batch, self._limits, self._left - self.count if self._wish.is_exact else None)
        acquired: list[Acquired] = []
        for run in list(batch.within(self._first_base, self._last)):
            if run.state is not DeliveryState.AVAILABLE:
                continue
            take = part.allowed(run)
            if take:
                last = run.first + take - 1
                batch.change(run.first, last, self._taken)
                _join(acquired, Acquired(run.first, last, run.delivery_count + 1))
            if part.is_over:
                break
        self.acquired += acquired
        self.count += part.count

    def _taken(self, run: Run) -> Run:
        return Run(
            run.first,
            run.last,
            DeliveryState.ACQUIRED,
            run.delivery_count + 1,
            self._wish.member_id,
            self._deadline_ms,
        )

    # --- records that are new ----------------------------------------------------------------

    def _acquire_new(self, first: int, last: int) -> None:
        """Put records in flight that were not; they are acquired from the first on."""
        window = self._window
        most = self._left - self.count
        if not window.in_flight:
            first = max(first, window.end_offset)
        if most < last - first + 1:
            until = last
            last = self._batch_end(first + most - 1)
            if window.active_gap is not None:
                last = min(last, until)
        if self._wish.is_exact:
            acquired = [self._put_exactly(first, last, most)]
        else:
            acquired = self._put_along_batches(first, last)
        self.acquired += acquired
        if window.in_flight.first == first:
            window.start_offset = first
        window.end_offset = max(window.end_offset, last)
        last = acquired[-1].last
        window.pass_gap(last + 1)
        self.count += last - first + 1

    def _put_exactly(self, first: int, last: int, most: int) -> Acquired:
        """Put one batch in flight, of which no more than `most` records are acquired."""
        last_acquired = min(last, first + most - 1)
        runs = [self._acquired_run(first, last_acquired)]
        if last_acquired < last:
            runs.append(Run(last_acquired + 1, last, DeliveryState.AVAILABLE, 0, NOBODY))
            self._window.may_have_available = True
        self._window.in_flight.put(InFlightBatch(runs, is_split=last_acquired < last))
        return Acquired(first, last_acquired, 1)

    def _put_along_batches(self, first: int, last: int) -> list[Acquired]:
        """Put batches in flight that begin where batches of the log do."""
        size = self._wish.batch_size
        begins = [first]
        if last - first + 1 > size:
            for base, _ in self._fetched.batches:
                if base > last:
                    break
                if base - begins[-1] >= size and base > begins[-1]:
                    begins.append(base)
        ends = [begin - 1 for begin in begins[1:]] + [last]
        for begin, end in zip(begins, ends, strict=True):
            self._window.in_flight.put(InFlightBatch([self._acquired_run(begin, end)]))
        return [Acquired(begin, end, 1) for begin, end in zip(begins, ends, strict=True)]

    def _acquired_run(self, first: int, last: int) -> Run:
        return Run(first, last, DeliveryState.ACQUIRED, 1, self._wish.member_id, self._deadline_ms)

    def _batch_end(self, offset: int) -> int:
        """Return the last offset of the log's batch that `offset` is in, else `offset`."""
        for base, last in self._fetched.batches:
            if base <= offset <= last:
                return last
        return offset


class _Part:
    """How much of a split batch a member may have, going through its available runs in order."""

    __slots__ = ("_limits", "_most", "_size", "_throttled_most", "count", "is_over")

    def __init__(self, batch: InFlightBatch, limits: Limits, most: int | None) -> None:
        self._limits = limits
        self._most = most
        self._size = batch.size
        self._throttled_most: int | None = None
        self.count = 0
        self.is_over = False

    def allowed(self, run: Run) -> int:
        """Return how many records of the next run the member gets."""
        limits = self._limits
        take = run.size
        is_last_try = (
            limits.deliveries > _LEAST_THROTTLED_DELIVERIES
            and run.delivery_count == limits.deliveries - 1
        )
        if is_last_try:
            # One that is delivered for the last time is delivered alone.
            self.is_over = True
            if self.count:
                return 0
            take = 1
        if self._throttled_most is None and run.delivery_count >= limits.throttled_from:
            halvings = run.delivery_count - limits.throttled_from + 1
            self._throttled_most = max(1, self._size >> halvings)
        for most in (self._most, self._throttled_most):
            if most is not None and self.count < most <= self.count + take:
                take = most - self.count
                self.is_over = True
        self.count += take
        return take


def _join(acquired: list[Acquired], more: Acquired) -> None:
    """Add records to a list, joined with the last where they follow and are as often delivered."""
    if acquired:
        last = acquired[-1]
        if last.last + 1 == more.first and last.delivery_count == more.delivery_count:
            acquired[-1] = last._replace(last=more.last)
            return
    acquired.append(more)
