"""SharePartition: one partition of a share group at its leader, with the store of its state.

Acknowledgements are stored before they are answered. Acquisitions are not stored: the next leader
finds the records available, and delivers them again.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kafkalite.coordinator.contract import Event
from kafkalite.ports.waiting import Waiting, chain
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares import acknowledgement
from kafkalite.shares.acquisition import Acquisition, ShareLimits
from kafkalite.shares.dead_letters import Cause, DeadLetters
from kafkalite.shares.in_flight import Run
from kafkalite.shares.state import DeliveryState, StateBatch, StateChange
from kafkalite.shares.state_batches import combine_batches
from kafkalite.shares.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.shares.acknowledgement import AcknowledgementBatch, PendingChanges
    from kafkalite.shares.acquisition import AcquiredRecords, AcquireRequest, FetchedBatches
    from kafkalite.shares.dead_letters import DeadLetterQueues
    from kafkalite.shares.state import LeaderState, ShareKey

STALE_STATE_ERRORS = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors after which a share partition must be loaded again from the stored state."""

_MEMBER_ERRORS = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""Error code of the store → error code for members; other codes are bugs."""

_DISK_RETRY_MS = 30_000
"""The delay after which records are written to a dead-letter topic whose disk had failed."""


class StateStore(Protocol):
    """Store of the states of share partitions; calls may return a Waiting."""

    def read_state(self, key: ShareKey, leader_epoch: int) -> LeaderState | Waiting[LeaderState]:
        """Return the initial state of a leader; raises KafkaError if there is none."""

    def write_state(self, key: ShareKey, change: StateChange) -> Waiting[None] | None:
        """Store a change that the leader decided; raises KafkaError if that fails."""


class Waiter(Protocol):
    """A fetch that waits for records."""

    def retry(self) -> None:
        """Try again: there may be records now, or the partition was closed."""


class SharePartitionContext(Protocol):
    """Clock, limits and events, for all share partitions of a cluster."""

    @property
    def clock(self) -> Clock:
        """The clock."""

    def limits(self, group_id: str, leader: int) -> ShareLimits:
        """Return the current limits of a group at a node."""

    def add_event(self, event: Event) -> None:
        """Store an event of a group."""


class SharePartition:
    """One partition of one share group, at its leader.

    While a change of the state is being stored, no records are acquired or acknowledged; further
    acknowledgements wait until that is done.
    """

    __slots__ = (
        "_context",
        "_dead_letter_queues",
        "_lock_deadline_ms",
        "_lock_timer",
        "_pending_write",
        "_state_epoch",
        "_store",
        "_waiters",
        "is_closed",
        "key",
        "leader",
        "leader_epoch",
        "name",
        "window",
    )  # fmt: skip

    def __init__(
        self,
        key: ShareKey,
        *,
        name: str,
        leader: int,
        leader_epoch: int,
        context: SharePartitionContext,
        store: StateStore,
        dead_letter_queues: DeadLetterQueues,
        state: LeaderState,
        start_offset: int,
    ) -> None:
        """Begin with a stored state; `name` is the partition's name in messages.

        `resume_dead_letters` writes the records that a previous leader was writing to a
        dead-letter topic. Raises KafkaError UNKNOWN_SERVER_ERROR when the state is inconsistent.
        """
        try:
            self.window = Window(start_offset, state.batches)
        except ValueError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        self.key = key
        self.name = name
        self.leader = leader
        self.leader_epoch = leader_epoch
        self._state_epoch = state.state_epoch
        self._context = context
        self._store = store
        self._dead_letter_queues = dead_letter_queues
        self._pending_write: Waiting[None] | None = None
        """Resolved at the end of the current write of the state."""
        self._waiters: dict[Waiter, None] = {}
        self._lock_timer: Timer | None = None
        self._lock_deadline_ms = 0
        self.is_closed = False

    # --- reading -------------------------------------------------------------------------------

    def can_acquire(self) -> bool:
        """Whether a member could acquire records, if there are any to read."""
        return (
            not self.is_closed
            and self._pending_write is None
            and self.window.can_acquire(self._limits().max_records_in_flight)
        )

    def acquire(
        self, fetched: FetchedBatches, request: AcquireRequest
    ) -> tuple[Sequence[AcquiredRecords], int]:
        """Acquire fetched records for a member; return them, and their number.

        Returns nothing while a change is being stored, or if the partition is closed because it has
        another leader or was loaded again.
        """
        if self.is_closed or self._pending_write is not None:
            return (), 0
        acquisition = Acquisition(
            self.window, fetched, request, self._limits(), self._context.clock.now_ms()
        )
        acquisition.run()
        if acquisition.acquired:
            self._start_lock_timer()
        return acquisition.acquired, acquisition.count

    def archive(self, first: int, last: int) -> None:
        """Archive acquired records of an aborted transaction, which members must not see."""
        self.window.complete_count += self.window.archive(first, last, DeliveryState.ACQUIRED)

    def advance_log_start(self, log_start_offset: int) -> None:
        """Apply a new start offset of the log."""
        self.window.advance_log_start(log_start_offset)

    # --- acknowledgement -----------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, batches: Sequence[AcknowledgementBatch]
    ) -> Waiting[None] | None:
        """Acknowledge records that a member has acquired.

        Raises the errors of `acknowledgement.acknowledge`, and KafkaError when the state cannot be
        stored; then nothing is changed. A Waiting may also be resolved with such an error.
        """

        def decide() -> Waiting[None] | None:
            now_ms = self._context.clock.now_ms()
            changes = acknowledgement.acknowledge(
                self.window,
                member_id,
                batches,
                self._limits(),
                now_ms,
                has_dead_letters=self._has_dead_letters,
            )
            return chain(self._apply_when_stored(changes), lambda _: self._start_lock_timer())

        return self._decide_after_writes(decide)

    def release(self, member_id: str) -> Waiting[None] | None:
        """Release all records of a member; raises KafkaError when the state cannot be stored."""
        return self._decide_after_writes(
            lambda: self._apply_when_stored(
                acknowledgement.release(
                    self.window,
                    member_id,
                    self._limits(),
                    has_dead_letters=self._has_dead_letters,
                )
            )
        )

    def _decide_after_writes(
        self, decide: Callable[[], Waiting[None] | None]
    ) -> Waiting[None] | None:
        """Decide after the current writes, unless the partition is closed by then."""
        if self._pending_write is None:
            return decide()

        def decide_after(_: object) -> Waiting[None] | None:
            if self.is_closed:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return self._decide_after_writes(decide)

        return chain(self._pending_write, decide_after)

    def _apply_when_stored(self, changes: PendingChanges) -> Waiting[None] | None:
        def apply(_: None) -> None:
            if self.is_closed:
                return
            changes.apply()
            self._add_outcome_events(changes)
            has_advanced = self.window.advance_start()
            if changes.dead_letters:
                self._write_dead_letters(changes.dead_letters)
            if has_advanced or changes.has_freed_records:
                self.wake()

        return chain(self._store_changes(changes), apply)

    def _store_changes(self, changes: PendingChanges) -> Waiting[None] | None:
        """Store the changes of a decision; raises KafkaError if that fails."""
        if not changes.batches_to_store:
            return None
        return self._store_batches(changes.batches_to_store, changes.complete_count)

    def _store_batches(
        self, batches: Sequence[StateBatch], complete_count: int
    ) -> Waiting[None] | None:
        """Store states of records; raises KafkaError if that fails."""
        start_offset = self.window.start_offset
        change = StateChange(
            self._state_epoch,
            self.leader_epoch,
            start_offset,
            complete_count,
            combine_batches((), batches, start_offset),
        )
        try:
            result = self._store.write_state(self.key, change)
        except KafkaError as error:
            raise to_member_error(error) from error
        return None if result is None else self._await_write(result)

    def _await_write(self, result: Waiting[None]) -> Waiting[None]:
        """Delay other changes until a write has been answered; return the member's answer."""
        pending_write: Waiting[None] = Waiting()
        self._pending_write = pending_write
        answer: Waiting[None] = Waiting()

        def on_answer(outcome: object) -> None:
            self._pending_write = None
            if isinstance(outcome, KafkaError):
                answer.refuse(to_member_error(outcome))
            elif isinstance(outcome, Exception):
                answer.refuse(outcome)
            else:
                answer.resolve(None)
            pending_write.resolve(None)
            if self._pending_write is None:
                self.wake()

        result.then(on_answer)
        return answer

    # --- locks ---------------------------------------------------------------------------------

    def _start_lock_timer(self) -> None:
        """Set the timer for the expiry of the first lock, or for an earlier time."""
        if self.is_closed:
            return
        deadline_ms = self._context.clock.now_ms() + self._limits().lock_duration_ms
        if self._lock_timer is None or deadline_ms < self._lock_deadline_ms:
            self._set_lock_timer(deadline_ms)

    def _set_lock_timer(self, deadline_ms: int) -> None:
        self._cancel_lock_timer()
        self._lock_deadline_ms = deadline_ms
        self._lock_timer = self._context.clock.call_at(deadline_ms, self._expire)

    def _cancel_lock_timer(self) -> None:
        if self._lock_timer is not None:
            self._lock_timer.cancel()
            self._lock_timer = None

    def _expire(self) -> None:
        """Release records whose lock expired, even if that cannot be stored."""
        self._lock_timer = None
        if self.is_closed:
            return
        if self._pending_write is not None:
            self._pending_write.then(lambda _: self._expire())
            return
        changes = acknowledgement.expire(
            self.window,
            self._limits(),
            self._context.clock.now_ms(),
            has_dead_letters=self._has_dead_letters,
        )
        if changes.copies:
            changes.apply()
            self._add_outcome_events(changes)
            # If this fails, the locks have still expired, but the next leader will not count this
            # delivery.
            with suppress(KafkaError):
                self._store_changes(changes)
            self.window.advance_start()
            self._write_dead_letters(changes.dead_letters)
        deadline_ms = acknowledgement.next_deadline_ms(self.window)
        if deadline_ms is not None:
            self._set_lock_timer(deadline_ms)
        if changes.copies:
            self.wake()

    # --- dead letters --------------------------------------------------------------------------

    def _has_dead_letters(self) -> bool:
        return self._dead_letter_queues.is_enabled_for(self.key.group_id)

    def resume_dead_letters(self) -> None:
        """Write the records that a previous leader did not archive to the dead-letter topic."""
        limit = self._limits().max_deliveries
        self._write_dead_letters(
            [
                (
                    run,
                    Cause.DELIVERED_TOO_OFTEN if run.delivery_count >= limit else Cause.REJECTED,
                )
                for batch in self.window.in_flight.batches
                for run in batch.runs
                if run.state is DeliveryState.ARCHIVING
            ]
        )

    def _write_dead_letters(self, dead_letters: Iterable[tuple[Run, Cause]]) -> None:
        """Write records to the dead-letter topic, and archive them.

        As in Kafka, they are also archived if the topic cannot have them. If a disk fails, they are
        written later.
        """
        topic = self.name.rpartition("-")[0]
        self._write_letters(
            [
                DeadLetters(self.key, topic, run.first, run.last, run.delivery_count, cause)
                for run, cause in dead_letters
            ]
        )

    def _write_letters(self, dead_letters: Sequence[DeadLetters]) -> None:
        if self.is_closed:
            return
        ended: list[tuple[DeadLetters, object]] = []
        for letters in dead_letters:
            try:
                written = self._dead_letter_queues.write(letters)
            except KafkaError as error:
                ended.append((letters, error.without_traceback()))
                continue
            if written is None:
                ended.append((letters, None))
            else:
                written.then(partial(self._archive_later, letters))
        if ended:
            self._archive_dead_letters(ended)

    def _archive_later(self, letters: DeadLetters, outcome: object) -> None:
        """Archive records after they were written; a closed partition retains failed ones."""
        if not (self.is_closed and isinstance(outcome, Exception)):
            self._archive_dead_letters([(letters, outcome)])

    def _archive_dead_letters(self, ended: Sequence[tuple[DeadLetters, object]]) -> None:
        """Archive records after attempts to write them to the dead-letter topic."""
        window = self.window
        batches: list[StateBatch] = []
        unwritten: list[DeadLetters] = []
        for letters, outcome in ended:
            first, last = letters.first, letters.last
            self._add_dead_letter_event(
                letters, outcome if isinstance(outcome, Exception) else None
            )
            if isinstance(outcome, KafkaError) and outcome.code is ErrorCode.KAFKA_STORAGE_ERROR:
                unwritten.append(letters)
                continue
            batches.append(StateBatch(first, last, DeliveryState.ARCHIVED, letters.delivery_count))
            window.complete_count += sum(
                window.count_in_window(run)
                for each in window.overlapping(first, last)
                for run in each.runs_between(first, last)
                if run.state is DeliveryState.ARCHIVING
            )
            window.archive(first, last, DeliveryState.ARCHIVING)
        if unwritten:
            retry_ms = self._context.clock.now_ms() + _DISK_RETRY_MS
            self._context.clock.call_at(retry_ms, lambda: self._write_letters(unwritten))
        if not batches:
            return
        stored: Waiting[None] | None = None
        with suppress(KafkaError):  # Otherwise, the next leader writes these records again.
            stored = self._decide_after_writes(
                lambda: self._store_batches(batches, window.complete_count)
            )
        if stored is None:
            self._advance()
        else:
            stored.then(lambda _: self._advance())

    def _advance(self) -> None:
        """Move the start over archived records, which may let members acquire others."""
        if not self.is_closed and self.window.advance_start():
            self.wake()

    def _add_dead_letter_event(self, letters: DeadLetters, failure: Exception | None) -> None:
        run = Run(letters.first, letters.last, DeliveryState.ARCHIVED, letters.delivery_count)
        offsets = _format_offsets([run])
        text = (
            f"{offsets} of {self.name} written to the dead-letter topic"
            if failure is None
            else f"{offsets} of {self.name} not written to the dead-letter topic: {failure}"
        )
        facts: dict[str, object] = {"rule": "dead-letter-queue", "cause": letters.cause.value}
        self._add_event("dead-letter", text, facts, [run])

    # --- waiting -------------------------------------------------------------------------------

    def watch(self, waiter: Waiter) -> None:
        """Call `waiter.retry` when there may be records for it, until `unwatch`."""
        self._waiters[waiter] = None

    def unwatch(self, waiter: Waiter) -> None:
        """Remove `waiter`; no effect if it is unknown."""
        self._waiters.pop(waiter, None)

    def wake(self) -> None:
        """Retry all waiting fetches, the oldest first."""
        for waiter in tuple(self._waiters):
            waiter.retry()

    def close(self) -> None:
        """End the use of this object: locks are dropped, waiting fetches are woken."""
        self.is_closed = True
        self._cancel_lock_timer()
        self.wake()

    # --- events --------------------------------------------------------------------------------

    def _limits(self) -> ShareLimits:
        return self._context.limits(self.key.group_id, self.leader)

    def _add_outcome_events(self, changes: PendingChanges) -> None:
        if changes.expired:
            run = changes.expired[0]
            self._add_event(
                "expired",
                f"member {run.member_id} did not acknowledge {_format_offsets(changes.expired)} of "
                f"{self.name} in time (rule acquisition-lock)",
                {
                    "rule": "acquisition-lock",
                    "member_id": run.member_id,
                    "lock_ms": self._limits().lock_duration_ms,
                },
                changes.expired,
            )
        if changes.archived:
            limit = self._limits().max_deliveries
            self._add_event(
                "archived",
                f"{_format_offsets(changes.archived)} of {self.name} archived after "
                f"{changes.archived[0].delivery_count} deliveries (rule delivery-count-limit)",
                {"rule": "delivery-count-limit", "delivery_count_limit": limit},
                changes.archived,
            )

    def _add_event(
        self, kind: str, text: str, facts: dict[str, object], runs: Sequence[Run]
    ) -> None:
        facts["partition"] = self.name
        facts["first_offset"] = runs[0].first
        facts["last_offset"] = runs[-1].last
        facts["records"] = sum(run.size for run in runs)
        self._context.add_event(Event(self.key.group_id, kind, text, facts))


def _format_offsets(runs: Sequence[Run]) -> str:
    first, last = runs[0].first, runs[-1].last
    return f"record {first}" if first == last else f"records {first} to {last}"


def to_member_error(error: KafkaError) -> KafkaError:
    """Return the error for a member when the state could not be read or stored."""
    code = _MEMBER_ERRORS.get(error.code, ErrorCode.UNKNOWN_SERVER_ERROR)
    return KafkaError(code, error.message or error.code.message)
