"""SharePartition: one partition as a share group reads it, joined to what keeps its state.

What a member says of records is kept before it is answered. That records were handed out is not:
whoever leads next finds them available, and hands them out again.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from kafkalite.coordinator.contract import Event
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares import settling
from kafkalite.shares.acquiring import Acquisition, Limits
from kafkalite.shares.batches import combine_batches
from kafkalite.shares.state import NO_START_OFFSET, DeliveryState, StateChange
from kafkalite.shares.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.shares.acquiring import Acquired, Fetched, Wish
    from kafkalite.shares.in_flight import Run
    from kafkalite.shares.settling import AckBatch, Settlement
    from kafkalite.shares.state import ShareKey, ShareState

NOT_LED_HERE = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors after which a share partition must be begun anew, from the state that is kept."""

_STORE_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What a member is told when the state could not be read or kept; all else is our own fault."""


class StateStore(Protocol):
    """Where the states of share partitions are kept."""

    def read_state(self, key: ShareKey, leader_epoch: int) -> ShareState:
        """Return the state that a leader begins with; KafkaError when there is none for it."""

    def write_state(self, key: ShareKey, change: StateChange) -> None:
        """Keep what a leader decided; KafkaError when that cannot be."""


class Waiter(Protocol):
    """Somebody who waits for records."""

    def look_again(self) -> None:
        """There may be records now, or there will be none."""


class Surroundings(Protocol):
    """What all share partitions of a cluster have in common."""

    @property
    def clock(self) -> Clock:
        """The time, and calls at a later one."""

    @property
    def store(self) -> StateStore:
        """Where states are kept."""

    def limits(self, group_id: str) -> Limits:
        """Return what a group allows just now."""

    def note(self, event: Event) -> None:
        """Keep why something befell a group."""


class SharePartition:
    """One partition of one share group, at its leader."""

    __slots__ = (
        "_armed", "_armed_ms", "_around", "_state_epoch", "_waiters", "is_closed", "key",
        "leader_epoch", "name", "window",
    )  # fmt: skip

    def __init__(
        self,
        key: ShareKey,
        *,
        name: str,
        leader_epoch: int,
        around: Surroundings,
        choose_start: Callable[[], int],
    ) -> None:
        """Begin with the state that is kept; `choose_start` is asked where none was chosen yet.

        `name` is the partition's for people. KafkaError when the state cannot be read, or as
        `choose_start` raises it.
        """
        try:
            state = around.store.read_state(key, leader_epoch)
        except KafkaError as error:
            raise _told(error) from error
        is_chosen = state.start_offset != NO_START_OFFSET
        start_offset = state.start_offset if is_chosen else choose_start()
        try:
            self.window = Window(start_offset, state.batches)
        except ValueError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        self.key = key
        self.name = name
        self.leader_epoch = leader_epoch
        self._state_epoch = state.state_epoch
        self._around = around
        self._waiters: dict[Waiter, None] = {}
        self._armed: Timer | None = None
        self._armed_ms = 0
        self.is_closed = False

    # --- reading -------------------------------------------------------------------------------

    def can_acquire(self) -> bool:
        """Whether a member could be given something, were it there to read."""
        return not self.is_closed and self.window.can_acquire(self._limits().records)

    def acquire(self, fetched: Fetched, wish: Wish) -> tuple[Sequence[Acquired], int]:
        """Give a member what it wants of what was read; returns that, and how many records.

        Nothing from a partition that is closed: it is led elsewhere, or begun anew.
        """
        if self.is_closed:
            return (), 0
        acquisition = Acquisition(
            self.window, fetched, wish, self._limits(), self._around.clock.now_ms()
        )
        acquisition.run()
        if acquisition.acquired:
            self._arm()
        return acquisition.acquired, acquisition.count

    def give_up(self, first: int, last: int) -> None:
        """Give up records that were acquired and are nobody's to see: of an aborted transaction."""
        self.window.complete_count += self.window.archive(first, last, DeliveryState.ACQUIRED)

    def follow_log_start(self, log_start_offset: int) -> None:
        """Take note that the log begins later than it did."""
        self.window.follow_log_start(log_start_offset)

    # --- settling ------------------------------------------------------------------------------

    def acknowledge(self, member_id: str, batches: Sequence[AckBatch]) -> None:
        """Settle what a member says of records that it has.

        KafkaError as `settling.acknowledge`, and when it cannot be kept; then nothing is changed.
        """
        now_ms = self._around.clock.now_ms()
        self._carry_out(
            settling.acknowledge(self.window, member_id, batches, self._limits(), now_ms)
        )
        self._arm()

    def release(self, member_id: str) -> None:
        """Take everything from a member that it has; KafkaError when that cannot be kept."""
        self._carry_out(settling.release(self.window, member_id, self._limits()))

    def _carry_out(self, settlement: Settlement) -> None:
        self._keep(settlement)
        settlement.apply()
        self._tell(settlement)
        if self.window.settle_start() or settlement.frees:
            self.wake()

    def _keep(self, settlement: Settlement) -> None:
        if not settlement.kept:
            return
        start_offset = self.window.start_offset
        change = StateChange(
            self._state_epoch,
            self.leader_epoch,
            start_offset,
            settlement.complete_count,
            combine_batches((), settlement.kept, start_offset),
        )
        try:
            self._around.store.write_state(self.key, change)
        except KafkaError as error:
            raise _told(error) from error

    # --- locks ---------------------------------------------------------------------------------

    def _arm(self) -> None:
        """See to it that the clock calls no later than the first lock runs out."""
        deadline_ms = self._around.clock.now_ms() + self._limits().lock_ms
        if self._armed is None or deadline_ms < self._armed_ms:
            self._call_at(deadline_ms)

    def _call_at(self, deadline_ms: int) -> None:
        self._disarm()
        self._armed_ms = deadline_ms
        self._armed = self._around.clock.call_at(deadline_ms, self._expire)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _expire(self) -> None:
        """Take back what was not acknowledged in time, whether or not that can be kept."""
        self._armed = None
        settlement = settling.expire(self.window, self._limits(), self._around.clock.now_ms())
        if settlement.changed:
            settlement.apply()
            self._tell(settlement)
            # The lock ran out all the same; who leads next would know nothing of this delivery.
            with suppress(KafkaError):
                self._keep(settlement)
            self.window.settle_start()
        deadline_ms = settling.next_deadline_ms(self.window)
        if deadline_ms is not None:
            self._call_at(deadline_ms)
        if settlement.changed:
            self.wake()

    # --- waiting -------------------------------------------------------------------------------

    def watch(self, waiter: Waiter) -> None:
        """Tell `waiter` when there may be something for it, until `unwatch`."""
        self._waiters[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        """Forget `waiter`; harmless when it is unknown."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Let everybody who waits look again, who waited longest first."""
        for waiter in tuple(self._waiters):
            waiter.look_again()

    def close(self) -> None:
        """Lead no more: locks are forgotten, who waits is told."""
        self.is_closed = True
        self._disarm()
        self.wake()

    # --- telling -------------------------------------------------------------------------------

    def _limits(self) -> Limits:
        return self._around.limits(self.key.group_id)

    def _tell(self, settlement: Settlement) -> None:
        if settlement.expired:
            run = settlement.expired[0]
            self._note(
                "expired",
                f"member {run.member_id} did not acknowledge {_named(settlement.expired)} of "
                f"{self.name} in time (rule acquisition-lock)",
                {
                    "rule": "acquisition-lock",
                    "member_id": run.member_id,
                    "lock_ms": self._limits().lock_ms,
                },
                settlement.expired,
            )
        if settlement.given_up:
            limit = self._limits().deliveries
            self._note(
                "archived",
                f"{_named(settlement.given_up)} of {self.name} given up after "
                f"{settlement.given_up[0].delivery_count} deliveries (rule delivery-count-limit)",
                {"rule": "delivery-count-limit", "delivery_count_limit": limit},
                settlement.given_up,
            )

    def _note(self, kind: str, text: str, facts: dict[str, object], runs: Sequence[Run]) -> None:
        facts["partition"] = self.name
        facts["first_offset"] = runs[0].first
        facts["last_offset"] = runs[-1].last
        facts["records"] = sum(run.size for run in runs)
        self._around.note(Event(self.key.group_id, kind, text, facts))


def _named(runs: Sequence[Run]) -> str:
    first, last = runs[0].first, runs[-1].last
    return f"record {first}" if first == last else f"records {first} to {last}"


def _told(error: KafkaError) -> KafkaError:
    code = _STORE_ERRORS.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(code, error.message or error.code.message)
