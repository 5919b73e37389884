"""ActiveShard: one machine joined to its log; the one path decide, append, replay, answer.

Nothing waits between deciding and replaying. On a single event loop that is all the locking a
shard needs: no one can see the middle of a decision.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult, Machine, Parked
from kafkalite.coordinator.timers import TimerQueue
from kafkalite.coordinator.transactional import TransactionalMachine
from kafkalite.ports.waiting import Waiting
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
    from kafkalite.coordinator.gathering import Gathering
    from kafkalite.coordinator.journal import Journal
    from kafkalite.coordinator.transactional import Incarnation
    from kafkalite.ports.clock import Clock, Timer
    from kafkalite.storage.marker import TransactionMarker

M = TypeVar("M", bound=Machine)
T = TypeVar("T", bound=TransactionalMachine)
R = TypeVar("R")

_RETRY_MS = 500
"""How long a timer whose records could not be appended waits for its next try; as in Kafka."""

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
"""What a client is told when the log under its coordinator refuses; the rest passes unchanged."""


class ActiveShard(Generic[M]):
    """One partition's machine, its log, its timers and the answers it owes."""

    __slots__ = (
        "_armed", "_armed_ms", "_carry_out", "_clock", "_gathering", "_journal", "_log", "_owed",
        "_replay_all", "_serde", "_timers", "leader_id", "machine", "partition",
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
        journal: Journal,
        carry_out: Callable[[object], None],
        replay_all: Callable[[CoordinatorLog, RecordSerde, M], object],
        gathering: Gathering,
    ) -> None:
        self.partition = partition
        self.leader_id = leader_id
        self.machine = machine
        self._log = log
        self._serde = serde
        self._clock = clock
        self._journal = journal
        self._carry_out = carry_out
        self._replay_all = replay_all
        self._gathering = gathering
        self._timers = TimerQueue()
        self._owed: dict[Ticket, Waiting[object]] = {}
        self._armed: Timer | None = None
        self._armed_ms = 0

    def load(self) -> None:
        """Replay the log from its start, then let the machine take up its work.

        OSError when the log cannot be read.
        """
        self._replay_all(self._log, self._serde, self.machine)
        self.write(lambda machine, now_ms: machine.on_loaded(now_ms))

    def write(self, decide: Decision[M, R]) -> R | Waiting[R]:
        """Run one decision; answer at once, or with a Waiting when the machine parked it.

        KafkaError when the machine refuses, or when the log does; then nothing was replayed. A
        Waiting may also bring a KafkaError, when a later append that would have answered failed.
        """
        now_ms = self._clock.now_ms()
        result = decide(self.machine, now_ms)
        if result.records:
            self._append(result, now_ms)
        return self._conclude(result, now_ms)

    def write_transactional(
        self: ActiveShard[T], producer: Incarnation, decide: Decision[T, R]
    ) -> R | Waiting[R]:
        """Run one decision whose records belong to a producer's transaction; else as `write`.

        KafkaError INVALID_PRODUCER_EPOCH, too, when the log knows of a later epoch.
        """
        now_ms = self._clock.now_ms()
        result = decide(self.machine, now_ms)
        if result.records:
            replay = partial(self.machine.replay_transactional, producer.producer_id)
            self._append(result, now_ms, producer, replay)
        return self._conclude(result, now_ms)

    def end_transaction(self: ActiveShard[T], marker: TransactionMarker) -> None:
        """Append the marker that ends a transaction, and let the machine know.

        KafkaError INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a marker that is
        late, OSError when the disk fails.
        """
        self._log.append_marker(marker, self._clock.now_ms())
        self.machine.end_transaction(marker.producer_id, is_commit=marker.is_commit)

    def is_in_transaction(self, producer: Incarnation) -> bool:
        """Whether a producer has a transaction open here, at this epoch.

        KafkaError INVALID_PRODUCER_EPOCH when the log knows of a later epoch.
        """
        return self._log.is_in_transaction(producer)

    def _conclude(self, result: CoordinatorResult[R], now_ms: int) -> R | Waiting[R]:
        if result.events:
            for event in result.events:
                self._journal.note(event, now_ms)
        if result.timers:
            self._timers.apply(result.timers, self._clock.tick_ms)
            self._arm()
        response = result.response
        answer: R | Waiting[R]
        answer = self._owe(response.ticket) if isinstance(response, Parked) else response
        if result.replies:
            self._pay(result.replies)
        if result.intents:
            # Last, for what carries them out may come back with another decision on this shard.
            for intent in result.intents:
                self._carry_out(intent)
        return answer

    def gather(self, decide: Decision[M, R]) -> R:
        """Run one decision, whose records wait for the others that are gathered; see `Gathering`.

        For decisions that do not look at what gathered ones change, and want an answer and records
        alone. KafkaError when the machine refuses; the answer holds if settling does.
        """
        now_ms = self._clock.now_ms()
        result = decide(self.machine, now_ms)
        if result.records:
            self._gathering.add(self, result.records)
        for event in result.events:
            self._journal.note(event, now_ms)
        assert not isinstance(result.response, Parked), "what is gathered cannot wait as well"
        return result.response

    def append(self, records: Sequence[CoordinatorRecord[object, object]]) -> None:
        """Append and replay records that were decided before; KafkaError as from `write`."""
        self._append(CoordinatorResult(None, records), self._clock.now_ms())

    def read(self, query: Callable[[M, int], R]) -> R:
        """Ask the machine something that changes nothing that lasts."""
        return query(self.machine, self._clock.now_ms())

    def unload(self) -> None:
        """Stop the timers and send everybody who waits to look for another coordinator."""
        self._disarm()
        self._timers = TimerQueue()
        self._refuse(tuple(self._owed), KafkaError(ErrorCode.NOT_COORDINATOR))

    def _append(
        self,
        result: CoordinatorResult[R],
        now_ms: int,
        producer: Incarnation | None = None,
        replay: Callable[[CoordinatorRecord[object, object]], None] | None = None,
    ) -> None:
        """Append and replay; `producer` and how to `replay` for what is of a transaction."""
        entries = list(map(self._serde.encode, result.records))
        try:
            if producer is None:
                self._log.append(entries, now_ms)
            else:
                self._log.append_transactional(entries, producer, now_ms)
        except (KafkaError, OSError) as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR
            refusal = KafkaError(APPEND_ERRORS.get(code, code))
            self._fail(result, refusal, now_ms)
            raise refusal from error
        replay = self.machine.replay if replay is None else replay
        for record in result.records:
            replay(record)

    def _fail(self, result: CoordinatorResult[R], refusal: KafkaError, now_ms: int) -> None:
        undone = self.machine.on_append_failed(result.records, refusal, now_ms)
        for event in undone.events:
            self._journal.note(event, now_ms)
        self._timers.apply(undone.timers, self._clock.tick_ms)
        self._arm()
        self._refuse([reply.ticket for reply in result.replies], refusal)
        self._pay(undone.replies)

    def _owe(self, ticket: Ticket) -> Waiting[R]:
        # Whoever goes away leaves its ticket unpaid; the machine may still answer it, to nobody.
        owed: Waiting[R] = Waiting(on_abandon=lambda: self._forget(ticket))
        self._owed[ticket] = owed  # type: ignore[assignment]
        return owed

    def _forget(self, ticket: Ticket) -> None:
        self._owed.pop(ticket, None)

    def _pay(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            owed = self._owed.pop(reply.ticket, None)
            if owed is not None:
                owed.resolve(reply.response)

    def _refuse(self, tickets: Sequence[Ticket], refusal: KafkaError) -> None:
        for ticket in tickets:
            owed = self._owed.pop(ticket, None)
            if owed is not None:
                owed.refuse(refusal)

    def _arm(self) -> None:
        """See to it that the clock calls no later than the first deadline.

        A call that comes early finds nothing due and arms anew, which is cheaper than moving it
        whenever a deadline moves back.
        """
        deadline_ms = self._timers.next_deadline_ms()
        if deadline_ms is None:
            self._disarm()
        elif self._armed is None or deadline_ms < self._armed_ms:
            self._disarm()
            self._armed_ms = deadline_ms
            self._armed = self._clock.call_at(deadline_ms, self._fire)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None

    def _fire(self) -> None:
        self._armed = None
        try:
            while (event := self._timers.pop_due(self._clock.now_ms())) is not None:
                self._expire(event)
        finally:
            # A fault in one event must not cost the others their clock.
            self._arm()

    def _expire(self, event: object) -> None:
        try:
            self.write(lambda machine, now_ms: machine.on_timer(event, now_ms))
        except KafkaError:
            self._timers.set(("retry", event), self._clock.now_ms() + _RETRY_MS, event)
