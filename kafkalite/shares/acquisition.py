"""Acquisition of records by members of share groups, for the duration of a lock (KIP-932).

New records are acquired in the batches of the log; available ones in the same batches as before.
Two limits apply: the number of records that a group may have in flight, and, near the delivery
count limit, a smaller number of records per fetch, so that one bad record does not affect its
neighbors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.shares.in_flight import NO_MEMBER, InFlightBatch, Run
from kafkalite.shares.state import DeliveryState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.shares.window import Window

_MIN_THROTTLED_DELIVERIES = 2


class ShareLimits(NamedTuple):
    """Limits of a share group."""

    max_deliveries: int
    """Maximum deliveries of a record; after these it is archived."""
    max_records_in_flight: int
    """Maximum records in flight of one partition."""
    lock_duration_ms: int
    """Duration of an acquisition lock."""
    allows_renewal: bool = True

    @property
    def throttled_delivery_count(self) -> int:
        """The delivery count from which a fetch gets only a few records."""
        return max(_MIN_THROTTLED_DELIVERIES, (self.max_deliveries + 1) // 2)


class AcquiredRecords(NamedTuple):
    """Consecutive records that a member has acquired."""

    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        """Number of records."""
        return self.last - self.first + 1


class FetchedBatches(NamedTuple):
    """Data that was read: first and last offset of each batch, and the offset of the fetch."""

    batches: Sequence[tuple[int, int]]
    fetch_offset: int


class AcquireRequest(NamedTuple):
    """A member's request for records."""

    member_id: str
    max_records: int
    batch_size: int
    """The approximate number of records in a new batch."""
    is_exact: bool = False
    """Whether `max_records` is a strict limit, even if that splits a batch of the log."""


class Acquisition:
    """One acquisition of records from fetched batches."""

    __slots__ = (
        "_deadline_ms",
        "_fetched",
        "_first_offset",
        "_last_offset",
        "_limits",
        "_max_count",
        "_request",
        "_window",
        "acquired",
        "count",
    )  # fmt: skip

    def __init__(
        self,
        window: Window,
        fetched: FetchedBatches,
        request: AcquireRequest,
        limits: ShareLimits,
        now_ms: int,
    ) -> None:
        self._window = window
        self._fetched = fetched
        self._request = request
        self._limits = limits
        self._deadline_ms = now_ms + limits.lock_duration_ms
        self._first_offset = fetched.batches[0][0] if fetched.batches else 0
        self._last_offset = fetched.batches[-1][1] if fetched.batches else -1
        self._max_count = request.max_records
        self.acquired: list[AcquiredRecords] = []
        self.count = 0
        """Number of acquired records; callers limit the sum over several partitions."""

    def run(self) -> None:
        """Acquire records; the result is in `acquired`."""
        window = self._window
        if self._last_offset < window.start_offset or self._max_count <= 0:
            return
        self._apply_in_flight_limit()
        if self._max_count <= 0:
            return
        first_offset = self._first_offset
        window.archive_missing(self._fetched.fetch_offset, first_offset)
        floor = window.in_flight.floor(first_offset)
        if floor is None:
            first_offset = max(first_offset, window.start_offset)
        elif floor.last >= first_offset:
            first_offset = floor.first
        existing = window.in_flight.starting_between(
            min(self._first_offset, first_offset), self._last_offset
        )
        if not existing:
            self._acquire_new(first_offset, self._last_offset)
            return
        if self._acquire_in_flight(existing, first_offset):
            last_existing = existing[-1].last
            if self.count < self._max_count and last_existing < self._last_offset:
                self._acquire_new(last_existing + 1, self._last_offset)
        if self.acquired:
            window.advance_gap(self.acquired[-1].last + 1)

    def _apply_in_flight_limit(self) -> None:
        """Reduce the number of records to acquire to the number that may still be put in flight.

        If that is zero, only records that are already in flight can be acquired.
        """
        window = self._window
        remaining = self._limits.max_records_in_flight - window.record_count
        if remaining > 0:
            self._max_count = min(self._max_count, remaining)
            return
        offset = self._fetched.fetch_offset
        if offset > window.end_offset:
            self._max_count = 0
            return
        self._max_count = min(self._max_count, window.end_offset - offset + 1)
        self._last_offset = min(self._last_offset, window.end_offset)

    # --- records already in flight -----------------------------------------------------------

    def _acquire_in_flight(self, existing: Sequence[InFlightBatch], first_offset: int) -> bool:
        """Acquire records of batches in flight and of gaps between them.

        Returns False if no further records may be acquired.
        """
        gap_start = first_offset
        for batch in existing:
            if self.count >= self._max_count:
                break
            if self._window.active_gap is not None:
                if gap_start < batch.first:
                    self._acquire_new(gap_start, batch.first - 1)
                gap_start = batch.last + 1
                if self.count >= self._max_count:
                    break
            is_throttled = self._is_throttled(batch)
            if is_throttled and self.count:
                return False
            if self._acquire_batch(batch, as_whole=not is_throttled) and is_throttled:
                return False
        return True

    def _acquire_batch(self, batch: InFlightBatch, *, as_whole: bool) -> int:
        """Acquire the available records of a batch, and return their number."""
        count = self.count
        is_available = not batch.is_split and batch.only_run.state is DeliveryState.AVAILABLE
        if as_whole and not batch.is_split and self._can_be_acquired_whole(batch):
            if is_available:
                self._acquire_whole(batch)
        elif batch.is_split or is_available:
            batch.is_split = True
            self._acquire_part(batch)
        return self.count - count

    def _can_be_acquired_whole(self, batch: InFlightBatch) -> bool:
        """Whether a batch may be acquired as a whole."""
        return (
            batch.first >= self._first_offset
            and batch.last <= self._last_offset
            and not (self._request.is_exact and batch.size > self._max_count - self.count)
        )

    def _is_throttled(self, batch: InFlightBatch) -> bool:
        throttled_delivery_count = self._limits.throttled_delivery_count
        return any(
            run.state is DeliveryState.AVAILABLE and run.delivery_count >= throttled_delivery_count
            for run in (
                batch.runs_between(self._first_offset, self._last_offset)
                if batch.is_split
                else batch.runs
            )
        )

    def _acquire_whole(self, batch: InFlightBatch) -> None:
        acquired_run = self._acquire_run(batch.only_run)
        batch.runs = [acquired_run]
        self.acquired.append(AcquiredRecords(batch.first, batch.last, acquired_run.delivery_count))
        self.count += batch.size

    def _acquire_part(self, batch: InFlightBatch) -> None:
        """Acquire the available records of a split batch."""
        limit = _SplitBatchLimit(
            batch, self._limits, self._max_count - self.count if self._request.is_exact else None
        )
        acquired: list[AcquiredRecords] = []
        for run in list(batch.runs_between(self._first_offset, self._last_offset)):
            if run.state is not DeliveryState.AVAILABLE:
                continue
            allowed_count = limit.allow(run)
            if allowed_count:
                last = run.first + allowed_count - 1
                batch.change(run.first, last, self._acquire_run)
                _append_or_merge(acquired, AcquiredRecords(run.first, last, run.delivery_count + 1))
            if limit.is_exhausted:
                break
        self.acquired += acquired
        self.count += limit.count

    def _acquire_run(self, run: Run) -> Run:
        return Run(
            run.first,
            run.last,
            DeliveryState.ACQUIRED,
            run.delivery_count + 1,
            self._request.member_id,
            self._deadline_ms,
        )

    # --- new records -------------------------------------------------------------------------

    def _acquire_new(self, first: int, last: int) -> None:
        """Put new records in flight, and acquire them in offset order up to the limit."""
        window = self._window
        max_records = self._max_count - self.count
        if not window.in_flight:
            first = max(first, window.end_offset)
        if max_records < last - first + 1:
            max_last = last
            last = self._batch_end(first + max_records - 1)
            if window.active_gap is not None:
                last = min(last, max_last)
        if self._request.is_exact:
            acquired = [self._add_single_batch(first, last, max_records)]
        else:
            acquired = self._add_log_batches(first, last)
        self.acquired += acquired
        if window.in_flight.first == first:
            window.start_offset = first
        window.end_offset = max(window.end_offset, last)
        last = acquired[-1].last
        window.advance_gap(last + 1)
        self.count += last - first + 1

    def _add_single_batch(self, first: int, last: int, max_records: int) -> AcquiredRecords:
        """Add one batch in flight, of which at most `max_records` records are acquired."""
        last_acquired = min(last, first + max_records - 1)
        runs = [self._new_acquired_run(first, last_acquired)]
        if last_acquired < last:
            runs.append(Run(last_acquired + 1, last, DeliveryState.AVAILABLE, 0, NO_MEMBER))
            self._window.may_have_available = True
        self._window.in_flight.put(InFlightBatch(runs, is_split=last_acquired < last))
        return AcquiredRecords(first, last_acquired, 1)

    def _add_log_batches(self, first: int, last: int) -> list[AcquiredRecords]:
        """Add batches in flight that begin where batches of the log begin."""
        size = self._request.batch_size
        first_offsets = [first]
        if last - first + 1 > size:
            for first_offset, _ in self._fetched.batches:
                if first_offset > last:
                    break
                if first_offset - first_offsets[-1] >= size and first_offset > first_offsets[-1]:
                    first_offsets.append(first_offset)
        last_offsets = [begin - 1 for begin in first_offsets[1:]] + [last]
        for begin, end in zip(first_offsets, last_offsets, strict=True):
            self._window.in_flight.put(InFlightBatch([self._new_acquired_run(begin, end)]))
        return [
            AcquiredRecords(begin, end, 1)
            for begin, end in zip(first_offsets, last_offsets, strict=True)
        ]

    def _new_acquired_run(self, first: int, last: int) -> Run:
        return Run(
            first, last, DeliveryState.ACQUIRED, 1, self._request.member_id, self._deadline_ms
        )

    def _batch_end(self, offset: int) -> int:
        """Return the last offset of the fetched batch that contains `offset`, else `offset`."""
        for first_offset, last in self._fetched.batches:
            if first_offset <= offset <= last:
                return last
        return offset


class _SplitBatchLimit:
    """Limits the number of records that a member gets from a split batch, run by run."""

    __slots__ = (
        "_limits",
        "_max_records",
        "_max_throttled_records",
        "_size",
        "count",
        "is_exhausted",
    )

    def __init__(self, batch: InFlightBatch, limits: ShareLimits, max_records: int | None) -> None:
        self._limits = limits
        self._max_records = max_records
        self._size = batch.size
        self._max_throttled_records: int | None = None
        self.count = 0
        self.is_exhausted = False

    def allow(self, run: Run) -> int:
        """Return the number of records of the next run that the member gets."""
        limits = self._limits
        allowed_count = run.size
        is_last_delivery = (
            limits.max_deliveries > _MIN_THROTTLED_DELIVERIES
            and run.delivery_count == limits.max_deliveries - 1
        )
        if is_last_delivery:
            # The last delivery of a record contains no other record.
            self.is_exhausted = True
            if self.count:
                return 0
            allowed_count = 1
        if (
            self._max_throttled_records is None
            and run.delivery_count >= limits.throttled_delivery_count
        ):
            halvings = run.delivery_count - limits.throttled_delivery_count + 1
            self._max_throttled_records = max(1, self._size >> halvings)
        for max_records in (self._max_records, self._max_throttled_records):
            if max_records is not None and self.count < max_records <= self.count + allowed_count:
                allowed_count = max_records - self.count
                self.is_exhausted = True
        self.count += allowed_count
        return allowed_count


def _append_or_merge(acquired: list[AcquiredRecords], records: AcquiredRecords) -> None:
    """Append records, or merge them with the last if adjacent and with the same delivery count."""
    if acquired:
        last = acquired[-1]
        if last.last + 1 == records.first and last.delivery_count == records.delivery_count:
            acquired[-1] = last._replace(last=records.last)
            return
    acquired.append(records)
