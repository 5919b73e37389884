"""Sweeps: transactions that are open for too long are aborted, ids not used for long forgotten.

Both come round on the clock, counted from when the shard was loaded; a round is left out where it
would find nothing, for most shards of a broker have nothing to look at, and time may be made to go
very fast. Each round goes on in small steps, see `coordinator.sweeping`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event, SetTimer, SubjectKind
from kafkalite.coordinator.sweeping import PAUSE_MS, TOMBSTONES_AT_ONCE, Pass, Stride
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.ending import markers_of
from kafkalite.transactions.records import transaction_record, transaction_tombstone
from kafkalite.transactions.state import AT_REST, NO_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.transactions.records import Record
    from kafkalite.transactions.registry import TransactionRegistry
    from kafkalite.transactions.state import Transaction

_ABORTS_AT_ONCE = 50
"""Transactions that one decision aborts; their markers are written before the next one."""
_LOOKS_AT_ONCE = 5_000
"""Ids that one decision looks at."""
_PARTITIONS_TOLD = 10
_PARTITION_BYTES = 4
_DAY_MS = 86_400_000

ABORT_INTERVAL = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
EXPIRY_INTERVAL = "transaction.remove.expired.transaction.cleanup.interval.ms"
EXPIRATION = "transactional.id.expiration.ms"


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """Timer event: look for transactions that are open for longer than their timeout."""


@dataclass(frozen=True, slots=True)
class RemoveExpired:
    """Timer event: look for ids that nothing has happened to for long.

    A round is over the ids there were when it began; none in an event that begins one.
    """

    ids: tuple[str, ...] = ()
    position: int = 0


@dataclass(slots=True, kw_only=True)
class _Pass(Pass):
    """What one decision of a sweep has come to, and what is to be done elsewhere."""

    intents: list[object] = field(default_factory=list)

    def result(self, timer: SetTimer | None) -> CoordinatorResult[None]:
        return CoordinatorResult(
            None,
            self.records,
            timers=[] if timer is None else [timer],
            events=self.events,
            intents=self.intents,
        )


class TransactionSweeps:
    """What befalls transactional ids of a shard without anybody asking for it."""

    def __init__(self, registry: TransactionRegistry) -> None:
        self._registry = registry
        self._stride = Stride()
        self._loaded_ms = 0
        self._next_open_ms = 0
        self._next_ids_ms = 0
        """Soft, as the one before: when the next look is, if there is to be one."""
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {
            AbortTimedOut: self.abort_timed_out,
            RemoveExpired: self.remove_expired,
        }

    def on_loaded(self, now_ms: int) -> list[SetTimer]:
        """Begin to count rounds; return the timers of those that may find something."""
        self._loaded_ms = now_ms
        registry = self._registry
        timers = self.watch_open(now_ms) if registry.open else []
        return timers + (self.watch_ids(now_ms) if registry.transactions else [])

    def watch_open(self, now_ms: int) -> list[SetTimer]:
        """Return the timer of the next look at open transactions, unless it is set already."""
        if self._next_open_ms > now_ms:
            return []
        return [self._next_abort(now_ms)]

    def watch_ids(self, now_ms: int) -> list[SetTimer]:
        """Return the timer of the next look at ids not used for long, unless it is set already."""
        if self._next_ids_ms > now_ms:
            return []
        return [self._next_removal(now_ms)]

    def abort_timed_out(self, event: AbortTimedOut, now_ms: int) -> CoordinatorResult[None]:
        """Fence the producers of transactions that are open for too long, and roll back."""
        registry = self._registry
        done = self._begin(_ABORTS_AT_ONCE)
        for transactional_id in registry.open:
            if done.is_full():
                self._next_open_ms = now_ms + PAUSE_MS
                return done.result(SetTimer(AbortTimedOut, self._next_open_ms, event))
            transaction = registry.transactions[transactional_id]
            if not _is_timed_out(transaction, now_ms):
                continue
            try:
                prepared = registry.rolled_back(transaction, now_ms)
            except KafkaError:
                # There is no fresh producer id to be had for it now; the next round tries again.
                continue
            done.records.append(transaction_record(prepared))
            done.names += _size_of(prepared)
            done.intents.append(markers_of(prepared))
            done.tell(partial(_timed_out, transaction, prepared, now_ms))
        is_over = len(done.records) == len(registry.open)
        return done.result(None if is_over else self._next_abort(now_ms))

    def remove_expired(self, event: RemoveExpired, now_ms: int) -> CoordinatorResult[None]:
        """Forget ids without a transaction that were last used too long ago."""
        transactions = self._registry.transactions
        expiration_ms = self._registry.config.int(EXPIRATION)
        ids = event.ids or tuple(transactions)
        done = self._begin(TOMBSTONES_AT_ONCE)
        position = event.position
        while position < len(ids) and not done.is_full():
            transaction = transactions.get(ids[position])
            position += 1
            done.looks += 1
            if transaction is not None and _is_expired(transaction, expiration_ms, now_ms):
                done.records.append(transaction_tombstone(transaction.transactional_id))
                done.names += len(transaction.transactional_id)
                done.tell(partial(_expired, transaction, expiration_ms, now_ms))
        if position < len(ids):
            self._next_ids_ms = now_ms + PAUSE_MS
            later = RemoveExpired(ids, position)
            return done.result(SetTimer(RemoveExpired, self._next_ids_ms, later))
        is_over = len(done.records) == len(transactions)
        return done.result(None if is_over else self._next_removal(now_ms))

    def on_append_failed(self, records: Sequence[Record], error: KafkaError) -> None:
        """Take smaller steps from now on if the log found the last one too large.

        Its topic may have been given a `max.message.bytes` that is smaller than most. Timers that
        went with the records are not set.
        """
        self._next_open_ms = self._next_ids_ms = 0
        self._stride.on_append_failed(records, error)

    def _begin(self, limit: int) -> _Pass:
        return self._stride.begin(_Pass(most_looks=_LOOKS_AT_ONCE, limit=limit))

    def _next_abort(self, now_ms: int) -> SetTimer:
        self._next_open_ms = self._round_after(now_ms, ABORT_INTERVAL)
        # Where nothing can time out nothing is missed when time jumps over some rounds.
        is_idle = all(
            self._registry.transactions[each].timeout_ms == NO_TIMEOUT_MS
            for each in self._registry.open
        )
        return SetTimer(AbortTimedOut, self._next_open_ms, AbortTimedOut(), is_tick=is_idle)

    def _next_removal(self, now_ms: int) -> SetTimer:
        self._next_ids_ms = self._round_after(now_ms, EXPIRY_INTERVAL)
        return SetTimer(RemoveExpired, self._next_ids_ms, RemoveExpired(), is_tick=True)

    def _round_after(self, now_ms: int, interval_key: str) -> int:
        interval_ms = self._registry.config.int(interval_key)
        return now_ms + interval_ms - (now_ms - self._loaded_ms) % interval_ms


def _is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    return (
        transaction.timeout_ms != NO_TIMEOUT_MS
        and transaction.start_timestamp_ms + transaction.timeout_ms < now_ms
    )


def _is_expired(transaction: Transaction, expiration_ms: int, now_ms: int) -> bool:
    return (
        transaction.state in AT_REST
        and transaction.last_update_timestamp_ms <= now_ms - expiration_ms
    )


def _size_of(transaction: Transaction) -> int:
    return len(transaction.transactional_id) + sum(
        len(topic) + _PARTITION_BYTES for topic, _ in transaction.partitions
    )


def _timed_out(transaction: Transaction, prepared: Transaction, now_ms: int) -> Event:
    open_ms = now_ms - transaction.start_timestamp_ms
    name = transaction.transactional_id
    return Event(
        name,
        "aborted",
        f"transaction of id {name} aborted: open for {_duration(open_ms)}, "
        f"its timeout is {_duration(transaction.timeout_ms)}; "
        f"producer {transaction.producer_id} is fenced at epoch {transaction.producer_epoch}",
        {
            "rule": "timeout",
            "open_ms": open_ms,
            "timeout_ms": transaction.timeout_ms,
            "producer_id": transaction.producer_id,
            "fenced_epoch": transaction.producer_epoch,
            "epoch": prepared.producer_epoch,
            "partitions": [
                f"{topic}-{index}"
                for topic, index in sorted(transaction.partitions)[:_PARTITIONS_TOLD]
            ],
        },
        SubjectKind.TRANSACTIONAL_ID,
    )


def _expired(transaction: Transaction, expiration_ms: int, now_ms: int) -> Event:
    idle_ms = now_ms - transaction.last_update_timestamp_ms
    name = transaction.transactional_id
    return Event(
        name,
        "expired",
        f"transactional id {name} expired: not used for {_duration(idle_ms)}, "
        f"and ids are kept for {_duration(expiration_ms)} ({EXPIRATION})",
        {
            "rule": "expiry",
            "idle_ms": idle_ms,
            "expiration_ms": expiration_ms,
            "state": transaction.state.label,
            "producer_id": transaction.producer_id,
            "producer_epoch": transaction.producer_epoch,
        },
        SubjectKind.TRANSACTIONAL_ID,
    )


def _duration(duration_ms: int) -> str:
    """Word a duration: in seconds, but where days tell a reader more."""
    if duration_ms >= 2 * _DAY_MS:
        return f"{duration_ms / _DAY_MS:.1f}".removesuffix(".0") + " days"
    return f"{duration_ms / 1_000:.3f}".rstrip("0").rstrip(".") + " s"
