"""ActiveShard: one state machine with its log. It decides, appends, replays and answers.

Nothing waits between the decision and the replay. The broker has one event loop, so a shard needs
no other lock: no other code sees an incomplete decision.

A write is appended before it is replayed, so after a failed append the machine still has the state
of the log. While the commit window is open, a write is replayed and joins the pending batch instead
(`group_commit`). If the flush of that batch fails, the machine is ahead of the log, and the shard
is dropped and loaded again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, Machine, ParkedRequest
from kafkalite.coordinator.group_commit import (
    MAX_ESTIMATED_RECORDS,
    MAX_RECORD_EXCESS_BYTES,
    PendingBatch,
    encode_and_measure,
    encode_batch,
)
from kafkalite.coordinator.timers import TimerQueue
from kafkalite.coordinator.transactional_records import TransactionalMachine
from kafkalite.ports.waiting import Waiting
from kafkalite.ports.watchers import Watchers
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.coordinator.contract import (
        CoordinatorLog,
        CoordinatorRecord,
        Decision,
        RecordSerde,
        Reply,
        Ticket,
    )
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.coordinator.group_commit import CommitWindow
    from kafkalite.coordinator.transactional_records import KeyValue
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.storage.producer_state import HasProducer
    from kafkalite.storage.transaction_marker import TransactionMarker

M = TypeVar("M", bound=Machine)
T = TypeVar("T", bound=TransactionalMachine)
R = TypeVar("R")

_TIMER_RETRY_DELAY_MS = 500
"""Delay before a timer whose records could not be appended is tried again; as in Kafka."""

APPEND_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Error codes of the log → error codes for clients, as in Kafka. Other codes are not changed."""


class ActiveShard(Generic[M]):
    """One partition's machine, its log, its timers and the requests that wait for an answer."""

    __slots__ = (
        "_batch",
        "_batches_writes",
        "_carry_out",
        "_clock",
        "_clock_timer",
        "_clock_timer_ms",
        "_drop_shard",
        "_history",
        "_is_unloaded",
        "_log",
        "_must_prepare_write",
        "_pending_answers",
        "_replay_all",
        "_serde",
        "_timers",
        "_watchers",
        "_window",
        "leader_id",
        "machine",
        "partition",
    )  # fmt: skip

    def __init__(
        self,
        *,
        partition: int,
        leader_id: int,
        machine: M,
        log: CoordinatorLog,
        serde: RecordSerde,
        clock: Clock,
        history: EventHistory,
        carry_out: Callable[[object], None],
        replay_all: Callable[[CoordinatorLog, RecordSerde, M], object],
        window: CommitWindow,
        drop_shard: Callable[[ActiveShard[M], KafkaError], None],
        batches_writes: bool = True,
        watchers: Watchers | None = None,
    ) -> None:
        """Connect a machine to its log.

        `drop_shard(shard, error)` unloads the shard with this error and loads it again. Without
        `batches_writes`, no write joins a pending batch until an append has succeeded. The
        `watchers` are notified of each change of the machine.
        """
        self.partition = partition
        self.leader_id = leader_id
        self.machine = machine
        self._log = log
        self._serde = serde
        self._clock = clock
        self._history = history
        self._carry_out = carry_out
        self._replay_all = replay_all
        self._window = window
        self._watchers = Watchers() if watchers is None else watchers
        self._drop_shard = drop_shard
        self._batches_writes = batches_writes
        self._batch: PendingBatch | None = None
        self._is_unloaded = False
        self._must_prepare_write = False
        """Whether a batch is pending or the shard is unloaded, so writes need preparation."""
        self._timers = TimerQueue()
        self._pending_answers: dict[Ticket, Waiting[object]] = {}
        self._clock_timer: Timer | None = None
        self._clock_timer_ms = 0

    @property
    def is_unloaded(self) -> bool:
        """Whether the partition has another coordinator or none, or its shard is loaded again."""
        return self._is_unloaded

    def load(self) -> None:
        """Replay the log from its start, then call the machine's `on_loaded`.

        Raises OSError when the log cannot be read, KafkaError when the log refuses the machine's
        records.
        """
        self._replay_all(self._log, self._serde, self.machine)
        self._write(lambda machine, now_ms: machine.on_loaded(now_ms))

    def write(self, decide: Decision[M, R]) -> R | Waiting[R]:
        """Run one decision. Return the response, or a Waiting if the machine parked the request.

        While the commit window is open, the response is valid only if the batch in
        `CommitWindow.joined_batch` is appended. Timers, events, replies and intents wait for that
        append.

        Raises KafkaError when the machine or the log refuses; then nothing was replayed. A Waiting
        may also be resolved with a KafkaError, when the append that should have answered it failed.
        """
        if self._window.is_open and self._batches_writes:
            return self._join_batch(decide)
        if self._must_prepare_write:
            self._prepare_write()
        return self._write(decide)

    def write_immediately(self, decide: Decision[M, R]) -> R:
        """Run one decision like `write`, for a decision that does not park the request."""
        response = self.write(decide)
        assert not isinstance(response, Waiting)
        return response

    def _write(self, decide: Decision[M, R]) -> R | Waiting[R]:
        now_ms = self._clock.now_ms()
        result = decide(self.machine, now_ms)
        if result.records:
            self._append(result, now_ms)
        return self._apply_effects(result, now_ms)

    def write_transactional(
        self: ActiveShard[T], producer: HasProducer, decide: Decision[T, R]
    ) -> R | Waiting[R]:
        """Run one decision like `write`, but add its records to a producer's transaction.

        A pending batch is flushed first, because these records never join one. Also raises
        KafkaError INVALID_PRODUCER_EPOCH when the log has a later epoch.
        """
        if self._must_prepare_write:
            self._prepare_write()
        now_ms = self._clock.now_ms()
        result = decide(self.machine, now_ms)
        if result.records:
            replay = partial(self.machine.replay_transactional, producer.producer_id)
            self._append(result, now_ms, producer, replay)
        return self._apply_effects(result, now_ms)

    def end_transaction(self: ActiveShard[T], marker: TransactionMarker) -> int:
        """Append the marker that ends a transaction, notify the machine, and return the end offset.

        Raises KafkaError INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a stale
        marker, NOT_ENOUGH_REPLICAS if the marker could be lost, OSError when the disk fails.
        """
        if self._must_prepare_write:
            self._prepare_write()
        end_offset = self._log.append_marker(marker, self._clock.now_ms())
        self.machine.end_transaction(marker.producer_id, is_commit=marker.is_commit)
        self._watchers.notify()
        return end_offset

    def is_in_transaction(self, producer: HasProducer) -> bool:
        """Whether a producer has an open transaction here, at this epoch.

        Raises KafkaError INVALID_PRODUCER_EPOCH when the log has a later epoch.
        """
        return self._log.is_in_transaction(producer)

    def _apply_effects(self, result: CoordinatorResult[R], now_ms: int) -> R | Waiting[R]:
        if result.events:
            for event in result.events:
                self._history.add(event, now_ms)
        if result.timers:
            self._timers.apply(result.timers, self._clock.periodic_deadline_ms)
            self._set_clock_timer()
        response = result.response
        answer: R | Waiting[R] | KafkaError
        answer = (
            self._add_pending(response.ticket) if isinstance(response, ParkedRequest) else response
        )
        if result.replies:
            self._deliver_replies(result.replies)
        if result.intents:
            # Last, because carrying out an intent may cause another decision on this shard.
            for intent in result.intents:
                self._carry_out(intent)
        self._watchers.notify()
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    def flush(self) -> KafkaError | None:
        """Append the pending batch, if there is one.

        If the log refuses, the batch's error is set and returned, and the shard is dropped and
        loaded again. An unexpected exception also becomes the batch's error, so that the requests
        of the batch report it; it is returned as UNKNOWN_SERVER_ERROR.
        """
        batch, self._batch = self._batch, None
        if batch is None:
            return None
        self._must_prepare_write = self._is_unloaded
        try:
            self._log.append(encode_batch(batch, self._serde), self._clock.now_ms())
        except (KafkaError, OSError) as error:
            refusal = _client_error(error)
            self._fail_batch(batch, refusal)
            return refusal
        except Exception as fault:  # noqa: BLE001 - a bug; reported with the answers
            refusal = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            self._fail_batch(batch, refusal)
            batch.error = fault
            return refusal
        for result, now_ms in batch.effects:
            # A response that is a KafkaError was raised when the records joined the batch.
            try:
                self._apply_effects(result, now_ms)
            except KafkaError:
                pass
            except Exception as fault:  # noqa: BLE001 - the other effects must still happen
                batch.error = fault
        self._watchers.notify()
        return None

    def read(self, query: Callable[[M, int], R]) -> R:
        """Return the result of a query, which changes no durable state."""
        return query(self.machine, self._clock.now_ms())

    def unload(self, refusal: KafkaError | None = None) -> None:
        """Stop the timers and refuse all waiting requests, by default with NOT_COORDINATOR."""
        if refusal is None:
            refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
        self._is_unloaded = self._must_prepare_write = True
        self._batches_writes = False
        self._cancel_clock_timer()
        self._timers = TimerQueue()
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.error = refusal
        self._refuse_pending(tuple(self._pending_answers), refusal)

    def _prepare_write(self) -> None:
        """Flush the pending batch. Raises KafkaError if that fails or the shard is unloaded."""
        refusal = self.flush()
        if refusal is None and self._is_unloaded:
            refusal = KafkaError(ErrorCode.NOT_COORDINATOR)
        if refusal is not None:
            raise refusal

    def _join_batch(self, decide: Decision[M, R]) -> R | Waiting[R]:
        """Run one decision, replay its records and add them to the pending batch."""
        now_ms = self._clock.now_ms()
        result = decide(self.machine, now_ms)
        batch = self._batch
        if result.records:
            records: Sequence[CoordinatorRecord[object, object] | KeyValue] = result.records
            if len(records) <= MAX_ESTIMATED_RECORDS:
                size = len(records) * (self._window.request_bytes + MAX_RECORD_EXCESS_BYTES)
            else:
                records, size = encode_and_measure(result.records, self._serde)
            if batch is None or size > batch.remaining_bytes:
                batch = self._begin_batch(size)
                if batch is None:
                    self._append(result, now_ms)
                    return self._apply_effects(result, now_ms)
            batch.records += records
            batch.remaining_bytes -= size
            replay = self.machine.replay
            try:
                for record in result.records:
                    replay(record)
            except Exception:
                # A bug of the machine: its state now differs from that of every prefix of the log.
                self._batch = None
                self._fail_batch(batch, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
                raise
        elif batch is None:
            return self._apply_effects(result, now_ms)
        response = result.response
        self._window.joined_batch = batch
        if result.events or result.timers or result.replies or result.intents:
            batch.effects.append((result, now_ms))
        if isinstance(response, KafkaError):
            raise response
        assert not isinstance(response, ParkedRequest), "a batched request was parked"
        return response

    def _begin_batch(self, size: int) -> PendingBatch | None:
        """Flush the pending batch and begin another; None for a write that may exceed the limit.

        Such a write is appended on its own, so the log refuses it before anything is replayed.
        """
        if self._batch is not None:
            self._prepare_write()
        batch = PendingBatch(self._log.max_batch_bytes)
        if size > batch.remaining_bytes:
            return None
        self._batch = batch
        self._must_prepare_write = True
        self._window.add(self)
        return batch

    def _fail_batch(self, batch: PendingBatch, refusal: KafkaError) -> None:
        batch.error = refusal
        self._drop_shard(self, refusal)

    def _append(
        self,
        result: CoordinatorResult[R],
        now_ms: int,
        producer: HasProducer | None = None,
        replay: Callable[[CoordinatorRecord[object, object]], None] | None = None,
    ) -> None:
        """Append and replay. `producer` and `replay` are given for records of a transaction."""
        entries = list(map(self._serde.encode, result.records))
        try:
            if producer is None:
                self._log.append(entries, now_ms)
            else:
                self._log.append_transactional(entries, producer, now_ms)
        except (KafkaError, OSError) as error:
            refusal = _client_error(error)
            self._recover_from_failed_append(result, refusal, now_ms)
            raise refusal from error
        self._batches_writes = True
        replay = self.machine.replay if replay is None else replay
        for record in result.records:
            replay(record)

    def _recover_from_failed_append(
        self, result: CoordinatorResult[R], refusal: KafkaError, now_ms: int
    ) -> None:
        recovery = self.machine.on_append_failed(result.records, refusal, now_ms)
        for event in recovery.events:
            self._history.add(event, now_ms)
        self._timers.apply(recovery.timers, self._clock.periodic_deadline_ms)
        self._set_clock_timer()
        self._refuse_pending([reply.ticket for reply in result.replies], refusal)
        self._deliver_replies(recovery.replies)

    def _add_pending(self, ticket: Ticket) -> Waiting[R]:
        # An abandoned ticket stays with the machine, which may still answer it; that has no effect.
        pending: Waiting[R] = Waiting(on_abandon=lambda: self._forget_pending(ticket))
        self._pending_answers[ticket] = pending  # type: ignore[assignment]
        return pending

    def _forget_pending(self, ticket: Ticket) -> None:
        self._pending_answers.pop(ticket, None)

    def _deliver_replies(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            pending = self._pending_answers.pop(reply.ticket, None)
            if pending is not None:
                pending.resolve(reply.response)

    def _refuse_pending(self, tickets: Sequence[Ticket], refusal: KafkaError) -> None:
        for ticket in tickets:
            pending = self._pending_answers.pop(ticket, None)
            if pending is not None:
                pending.refuse(refusal)

    def _set_clock_timer(self) -> None:
        """Set the clock's timer for the first deadline, or for an earlier time.

        If the timer expires early, nothing is due and it is set again. That is cheaper than
        changing the timer each time a deadline moves back.
        """
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is None:
            self._cancel_clock_timer()
        elif self._clock_timer is None or deadline_ms < self._clock_timer_ms:
            self._cancel_clock_timer()
            self._clock_timer_ms = deadline_ms
            self._clock_timer = self._clock.call_at(deadline_ms, self._run_due_timers)

    def _cancel_clock_timer(self) -> None:
        if self._clock_timer is not None:
            self._clock_timer.cancel()
            self._clock_timer = None

    def _run_due_timers(self) -> None:
        self._clock_timer = None
        try:
            while (event := self._timers.pop_due(self._clock.now_ms())) is not None:
                self._run_timer(event)
        finally:
            # An exception in one event must not stop the timers of the others.
            self._set_clock_timer()

    def _run_timer(self, event: object) -> None:
        try:
            self.write(lambda machine, now_ms: machine.on_timer(event, now_ms))
        except KafkaError:
            self._timers.set(("retry", event), self._clock.now_ms() + _TIMER_RETRY_DELAY_MS, event)


def _client_error(error: KafkaError | OSError) -> KafkaError:
    """Return the error for clients when the log refuses records."""
    if not isinstance(error, KafkaError):
        return KafkaError(APPEND_ERRORS[ErrorCode.KAFKA_STORAGE_ERROR])
    code = APPEND_ERRORS.get(error.code, error.code)
    # The message of the log is not sent to clients.
    return KafkaError(code, facts=error.facts, explanation=error.explanation)
