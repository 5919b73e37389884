"""Settling: what becomes of acquired records, by acknowledgement, release, or a lock that ran out.

Deciding changes nothing: it works on copies of the batches it touches, and returns them with what
there is to keep. Only when that is in the log are they put in the place of the old ones. So an
acknowledgement with one fault in it leaves no trace, and neither does one that could not be kept.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.in_flight import NO_DEADLINE, NOBODY, Run
from kafkalite.shares.state import DeliveryState, StateBatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.shares.acquiring import Limits
    from kafkalite.shares.in_flight import InFlightBatch
    from kafkalite.shares.window import Window


class AckType(IntEnum):
    """What a member says of a record, numbered as on the wire."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_STATES = {
    AckType.GAP: DeliveryState.ARCHIVED,
    AckType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AckType.RELEASE: DeliveryState.AVAILABLE,
    AckType.REJECT: DeliveryState.ARCHIVED,
}


class AckBatch(NamedTuple):
    """What a member says of records next to each other: one word for all, or one for each."""

    first: int
    last: int
    types: Sequence[int]


class Settlement:
    """What was decided: batches as they shall be, and what of it is to be kept."""

    __slots__ = ("_limits", "_window", "changed", "complete_count", "expired", "frees", "given_up",
                 "kept")  # fmt: skip

    def __init__(self, window: Window, limits: Limits) -> None:
        self._window = window
        self._limits = limits
        self.changed: dict[int, InFlightBatch] = {}
        self.kept: list[StateBatch] = []
        self.complete_count = window.complete_count
        self.frees = False
        """Whether records became available."""
        self.given_up: list[Run] = []
        """Records that were delivered too often."""
        self.expired: list[Run] = []
        """Records whose lock ran out, as they were before."""

    def draft(self, batch: InFlightBatch) -> InFlightBatch:
        """Return the batch as it shall be so far, to be changed further."""
        draft = self.changed.get(batch.first)
        if draft is None:
            draft = self.changed[batch.first] = batch.copy()
        return draft

    def settle(self, batch: InFlightBatch, run: Run, wanted: DeliveryState) -> None:
        """Let acquired records of a drafted batch fare as `wanted`, or be given up instead."""
        state = wanted
        if state is DeliveryState.AVAILABLE:
            if run.delivery_count >= self._limits.deliveries:
                state = DeliveryState.ARCHIVED
                self.given_up.append(run)
            else:
                self.frees = True
        settled = run._replace(state=state, member_id=NOBODY, deadline_ms=NO_DEADLINE)
        batch.change(
            run.first, run.last, lambda part: settled._replace(first=part.first, last=part.last)
        )
        self.kept.append(StateBatch(run.first, run.last, state, run.delivery_count))
        if settled.is_final:
            self.complete_count += self._window.counted(settled)

    def let_go(self, batch: InFlightBatch, run: Run) -> None:
        """Let acquired records be available again, or be given up where the log has lost them."""
        start = self._window.start_offset
        if run.first < start <= run.last:
            self.let_go(batch, run._replace(last=start - 1))
            self.let_go(batch, run._replace(first=start))
        else:
            is_lost = run.last < start
            self.settle(batch, run, DeliveryState.ARCHIVED if is_lost else DeliveryState.AVAILABLE)

    def apply(self) -> None:
        """Make it true."""
        window = self._window
        for batch in self.changed.values():
            window.in_flight.put(batch)
        window.complete_count = self.complete_count
        if self.frees:
            window.may_have_available = True


def acknowledge(
    window: Window, member_id: str, batches: Sequence[AckBatch], limits: Limits, now_ms: int
) -> Settlement:
    """Decide what a member says of records that it has.

    KafkaError INVALID_REQUEST or INVALID_RECORD_STATE for records that it has not. What lies before
    the window is passed over: nothing can be said of it any more.
    """
    settlement = Settlement(window, limits)
    for ack in batches:
        if ack.last < window.start_offset:
            continue
        for batch in _acknowledged(window, ack):
            if batch.last >= window.start_offset:
                _Acknowledging(settlement, window, member_id, limits, now_ms).go(ack, batch)
    return settlement


def _acknowledged(window: Window, ack: AckBatch) -> Sequence[InFlightBatch]:
    """Return the batches in flight that an acknowledgement is about."""
    in_flight = window.in_flight
    floor = in_flight.floor(ack.first)
    if floor is None and ack.first < window.start_offset <= ack.last:
        floor = in_flight.floor(window.start_offset)
    if floor is None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE, "The records are not among those in flight."
        )
    found = in_flight.beginning_within(floor.first, ack.last)
    if not ack.first <= found[-1].last or ack.last > found[-1].last:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The records go beyond those in flight.")
    return found


class _Acknowledging:
    """One batch in flight, and what a member says of it."""

    __slots__ = ("_limits", "_member_id", "_now_ms", "_settlement", "_window")

    def __init__(
        self,
        settlement: Settlement,
        window: Window,
        member_id: str,
        limits: Limits,
        now_ms: int,
    ) -> None:
        self._settlement = settlement
        self._window = window
        self._member_id = member_id
        self._limits = limits
        self._now_ms = now_ms

    def go(self, ack: AckBatch, batch: InFlightBatch) -> None:
        draft = self._settlement.draft(batch)
        start = self._window.start_offset
        is_whole = ack.first <= draft.first and draft.last <= ack.last
        if not is_whole or len(ack.types) > 1 or draft.first < start <= draft.last:
            if not draft.is_split:
                self._check(draft.whole)
            draft.is_split = True
        first, last = max(ack.first, start, draft.first), min(ack.last, draft.last)
        for part_first, part_last, ack_type in _parts(ack, first, last):
            for run in list(draft.within(part_first, part_last)):
                self._check(run)
                if ack_type is AckType.RENEW:
                    self._renew(draft, run)
                else:
                    self._settlement.settle(draft, run, _STATES[ack_type])

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

    def _renew(self, draft: InFlightBatch, run: Run) -> None:
        if not self._limits.allows_renewal:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, "The group does not let members renew their locks."
            )
        deadline_ms = self._now_ms + self._limits.lock_ms
        draft.change(run.first, run.last, lambda part: part._replace(deadline_ms=deadline_ms))


def _parts(ack: AckBatch, first: int, last: int) -> Iterator[tuple[int, int, AckType]]:
    """Yield what is said of the records between two offsets, those of one word together."""
    if len(ack.types) == 1:
        yield first, last, AckType(ack.types[0])
        return
    words = ack.types[first - ack.first : last - ack.first + 1]
    for word, same in groupby(words):
        count = sum(1 for _ in same)
        yield first, first + count - 1, AckType(word)
        first += count


def release(window: Window, member_id: str, limits: Limits) -> Settlement:
    """Decide to take everything from a member that it has."""
    settlement = Settlement(window, limits)
    for batch in window.in_flight.batches:
        for run in batch.runs:
            if run.state is DeliveryState.ACQUIRED and run.member_id == member_id:
                _take_back(settlement, window, batch, run)
    return settlement


def expire(window: Window, limits: Limits, now_ms: int) -> Settlement:
    """Decide to take back what was not acknowledged in time."""
    settlement = Settlement(window, limits)
    for batch in window.in_flight.batches:
        for run in batch.runs:
            if run.state is DeliveryState.ACQUIRED and run.deadline_ms <= now_ms:
                settlement.expired.append(run)
                _take_back(settlement, window, batch, run)
    return settlement


def _take_back(settlement: Settlement, window: Window, batch: InFlightBatch, run: Run) -> None:
    draft = settlement.draft(batch)
    draft.is_split = draft.is_split or batch.first < window.start_offset <= batch.last
    settlement.let_go(draft, run)


def next_deadline_ms(window: Window) -> int | None:
    """Return when the first lock runs out, or None when nothing is acquired."""
    return min(
        (
            run.deadline_ms
            for batch in window.in_flight.batches
            for run in batch.runs
            if run.state is DeliveryState.ACQUIRED
        ),
        default=None,
    )
