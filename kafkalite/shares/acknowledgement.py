"""Acknowledgement, release and lock expiry of acquired records.

A decision changes only copies of the batches, and returns the copies with the changes to store. The
copies replace the batches when the changes are in the log. So an acknowledgement that is refused or
cannot be stored has no effect.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.dead_letters import Cause
from kafkalite.shares.in_flight import NO_DEADLINE, NO_MEMBER, Run
from kafkalite.shares.state import DeliveryState, StateBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.shares.acquisition import ShareLimits
    from kafkalite.shares.in_flight import InFlightBatch
    from kafkalite.shares.window import Window


class AcknowledgeType(IntEnum):
    """Acknowledgement of a record, numbered as in the protocol."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_STATE_AFTER = {
    AcknowledgeType.GAP: DeliveryState.ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: DeliveryState.AVAILABLE,
}


class AcknowledgementBatch(NamedTuple):
    """Acknowledgement of consecutive records: one type for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class PendingChanges:
    """The result of a decision: changed copies of batches, and the changes to store."""

    __slots__ = (
        "_archiving_state",
        "_has_dead_letters",
        "_limits",
        "_window",
        "archived",
        "batches_to_store",
        "complete_count",
        "copies",
        "dead_letters",
        "expired",
        "has_freed_records",
    )  # fmt: skip

    def __init__(
        self, window: Window, limits: ShareLimits, *, has_dead_letters: Callable[[], bool]
    ) -> None:
        self._window = window
        self._limits = limits
        self._has_dead_letters = has_dead_letters
        """Whether the group writes records to a dead-letter topic before it archives them."""
        self._archiving_state: DeliveryState | None = None
        """The first state of archived records, which is looked up if there are any."""
        self.copies: dict[int, InFlightBatch] = {}
        self.batches_to_store: list[StateBatch] = []
        self.complete_count = window.complete_count
        self.has_freed_records = False
        """Whether records became available."""
        self.archived: list[Run] = []
        """Records that reached the limit of deliveries."""
        self.dead_letters: list[tuple[Run, Cause]] = []
        """Records to write to the dead-letter topic, which are archived afterwards."""
        self.expired: list[Run] = []
        """Records whose lock expired, in their state before the expiry."""

    def copy_of(self, batch: InFlightBatch) -> InFlightBatch:
        """Return the copy of a batch, which this decision may change."""
        copy = self.copies.get(batch.first)
        if copy is None:
            copy = self.copies[batch.first] = batch.copy()
        return copy

    def reject(self, batch: InFlightBatch, run: Run) -> None:
        """Archive acquired records of a copy that the member rejects."""
        self.set_state(batch, run, self._archive(run, Cause.REJECTED))

    def _archive(self, run: Run, cause: Cause) -> DeliveryState:
        """Return the next state of records that are archived."""
        state = self._archiving_state
        if state is None:
            state = self._archiving_state = (
                DeliveryState.ARCHIVING if self._has_dead_letters() else DeliveryState.ARCHIVED
            )
        if state is DeliveryState.ARCHIVING:
            self.dead_letters.append((run, cause))
        return state

    def set_state(self, batch: InFlightBatch, run: Run, new_state: DeliveryState) -> None:
        """Change acquired records of a copy to `new_state`; archive them at the delivery limit."""
        state = new_state
        if state is DeliveryState.AVAILABLE:
            if run.delivery_count >= self._limits.max_deliveries:
                state = self._archive(run, Cause.DELIVERED_TOO_OFTEN)
                self.archived.append(run)
            else:
                self.has_freed_records = True
        changed_run = run._replace(state=state, member_id=NO_MEMBER, deadline_ms=NO_DEADLINE)
        batch.change(
            run.first, run.last, lambda part: changed_run._replace(first=part.first, last=part.last)
        )
        self.batches_to_store.append(StateBatch(run.first, run.last, state, run.delivery_count))
        if changed_run.is_final:
            self.complete_count += self._window.count_in_window(changed_run)

    def release(self, batch: InFlightBatch, run: Run) -> None:
        """Make acquired records available again, or archive them if the log has deleted them."""
        start = self._window.start_offset
        if run.first < start <= run.last:
            self.release(batch, run._replace(last=start - 1))
            self.release(batch, run._replace(first=start))
        else:
            is_deleted = run.last < start
            self.set_state(
                batch, run, DeliveryState.ARCHIVED if is_deleted else DeliveryState.AVAILABLE
            )

    def apply(self) -> None:
        """Replace the batches by their copies."""
        window = self._window
        for batch in self.copies.values():
            window.in_flight.put(batch)
        window.complete_count = self.complete_count
        if self.has_freed_records:
            window.may_have_available = True


def acknowledge(
    window: Window,
    member_id: str,
    batches: Sequence[AcknowledgementBatch],
    limits: ShareLimits,
    now_ms: int,
    *,
    has_dead_letters: Callable[[], bool],
) -> PendingChanges:
    """Decide about an acknowledgement by a member.

    If `has_dead_letters` returns true, rejected records, and those that reach the limit of
    deliveries, are to be written to the dead-letter topic. It is called for such records only.
    Records before the window are skipped, because their state is final. Raises KafkaError
    INVALID_REQUEST or INVALID_RECORD_STATE for records that the member has not acquired.
    """
    changes = PendingChanges(window, limits, has_dead_letters=has_dead_letters)
    for ack in batches:
        if ack.last < window.start_offset:
            continue
        for batch in _batches_covered(window, ack):
            if batch.last >= window.start_offset:
                _Acknowledgement(changes, window, member_id, limits, now_ms).decide(ack, batch)
    return changes


def _batches_covered(window: Window, ack: AcknowledgementBatch) -> Sequence[InFlightBatch]:
    """Return the batches in flight that an acknowledgement covers."""
    in_flight = window.in_flight
    floor = in_flight.floor(ack.first)
    if floor is None and ack.first < window.start_offset <= ack.last:
        floor = in_flight.floor(window.start_offset)
    if floor is None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE, "The records are not among those in flight."
        )
    covered = in_flight.starting_between(floor.first, ack.last)
    if not ack.first <= covered[-1].last or ack.last > covered[-1].last:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The records go beyond those in flight.")
    return covered


class _Acknowledgement:
    """Decides about batches in flight for the acknowledgement of a member."""

    __slots__ = ("_changes", "_limits", "_member_id", "_now_ms", "_window")

    def __init__(
        self,
        changes: PendingChanges,
        window: Window,
        member_id: str,
        limits: ShareLimits,
        now_ms: int,
    ) -> None:
        self._changes = changes
        self._window = window
        self._member_id = member_id
        self._limits = limits
        self._now_ms = now_ms

    def decide(self, ack: AcknowledgementBatch, batch: InFlightBatch) -> None:
        copy = self._changes.copy_of(batch)
        start = self._window.start_offset
        covers_batch = ack.first <= copy.first and copy.last <= ack.last
        if not covers_batch or len(ack.types) > 1 or copy.first < start <= copy.last:
            if not copy.is_split:
                self._check(copy.only_run)
            copy.is_split = True
        first, last = max(ack.first, start, copy.first), min(ack.last, copy.last)
        for part_first, part_last, acknowledge_type in _split_by_type(ack, first, last):
            for run in list(copy.runs_between(part_first, part_last)):
                self._check(run)
                if acknowledge_type is AcknowledgeType.RENEW:
                    self._renew(copy, run)
                elif acknowledge_type is AcknowledgeType.REJECT:
                    self._changes.reject(copy, run)
                else:
                    self._changes.set_state(copy, run, _STATE_AFTER[acknowledge_type])

    def _check(self, run: Run) -> None:
        if run.state is not DeliveryState.ACQUIRED or run.member_id != self._member_id:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                f"Records {run.first} to {run.last} are not acquired by this member.",
                facts={
                    "rule": "acquired-by-member",
                    "first_offset": run.first,
                    "last_offset": run.last,
                    "state": run.state,
                    "acquired_by": run.member_id or None,
                    "delivery_count": run.delivery_count,
                },
            )

    def _renew(self, copy: InFlightBatch, run: Run) -> None:
        if not self._limits.allows_renewal:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, "The group does not let members renew their locks."
            )
        deadline_ms = self._now_ms + self._limits.lock_duration_ms
        copy.change(run.first, run.last, lambda part: part._replace(deadline_ms=deadline_ms))


def _split_by_type(
    ack: AcknowledgementBatch, first: int, last: int
) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """Yield the runs of records with equal acknowledgements between two offsets."""
    if len(ack.types) == 1:
        yield first, last, AcknowledgeType(ack.types[0])
        return
    acknowledge_types = ack.types[first - ack.first : last - ack.first + 1]
    for acknowledge_type, equal_types in groupby(acknowledge_types):
        count = sum(1 for _ in equal_types)
        yield first, first + count - 1, AcknowledgeType(acknowledge_type)
        first += count


def release(
    window: Window, member_id: str, limits: ShareLimits, *, has_dead_letters: Callable[[], bool]
) -> PendingChanges:
    """Decide to release all records that a member has acquired."""
    changes = PendingChanges(window, limits, has_dead_letters=has_dead_letters)
    for batch in window.in_flight.batches:
        for run in batch.runs:
            if run.state is DeliveryState.ACQUIRED and run.member_id == member_id:
                _release_run(changes, window, batch, run)
    return changes


def expire(
    window: Window, limits: ShareLimits, now_ms: int, *, has_dead_letters: Callable[[], bool]
) -> PendingChanges:
    """Decide to release the records whose lock expired."""
    changes = PendingChanges(window, limits, has_dead_letters=has_dead_letters)
    for batch in window.in_flight.batches:
        for run in batch.runs:
            if run.state is DeliveryState.ACQUIRED and run.deadline_ms <= now_ms:
                changes.expired.append(run)
                _release_run(changes, window, batch, run)
    return changes


def _release_run(changes: PendingChanges, window: Window, batch: InFlightBatch, run: Run) -> None:
    copy = changes.copy_of(batch)
    copy.is_split = copy.is_split or batch.first < window.start_offset <= batch.last
    changes.release(copy, run)


def next_deadline_ms(window: Window) -> int | None:
    """Return the time at which the first lock expires, or None if nothing is acquired."""
    return min(
        (
            run.deadline_ms
            for batch in window.in_flight.batches
            for run in batch.runs
            if run.state is DeliveryState.ACQUIRED
        ),
        default=None,
    )
