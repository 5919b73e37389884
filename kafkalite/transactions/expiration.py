"""Expiration: aborts transactions that time out, and removes unused transactional ids.

Both run periodically, starting when the shard is loaded. No timer is set if there is nothing to
examine, because most shards of a broker are empty and the clock may be accelerated. Each round
consists of small steps, see `coordinator.sweep`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, Event, SetTimer
from kafkalite.coordinator.sweep import MAX_RECORDS, PAUSE_MS, SweepDecision, SweepLimit
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.end import markers_of
from kafkalite.transactions.state import IDLE_STATES, NO_TIMEOUT_MS
from kafkalite.transactions.transaction_records import transaction_record, transaction_tombstone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kafkalite.transactions.registry import TransactionRegistry
    from kafkalite.transactions.state import Transaction
    from kafkalite.transactions.transaction_records import Record

_MAX_ABORTS_PER_STEP = 50
"""Maximum transactions that one step aborts; their markers are written before the next step."""
_MAX_EXAMINED_PER_STEP = 5_000
"""Maximum transactional ids that one step examines."""
_MAX_PARTITIONS_IN_EVENT = 10
_PARTITION_INDEX_CHARACTERS = 4
_DAY_MS = 86_400_000

ABORT_INTERVAL_CONFIG = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
REMOVAL_INTERVAL_CONFIG = "transaction.remove.expired.transaction.cleanup.interval.ms"
EXPIRATION_CONFIG = "transactional.id.expiration.ms"


@dataclass(frozen=True, slots=True)
class AbortTimedOut:
    """Timer event: search for transactions that are open for longer than their timeout."""


@dataclass(frozen=True, slots=True)
class RemoveExpired:
    """Timer event: search for transactional ids that were not used for the expiration time.

    A round covers the ids that existed when it began. `ids` is empty in the event that begins a
    round.
    """

    ids: tuple[str, ...] = ()
    position: int = 0


@dataclass(slots=True, kw_only=True)
class _SweepStep(SweepDecision):
    """The records, events and intents of one decision of a sweep."""

    intents: list[object] = field(default_factory=list)

    def result(self, timer: SetTimer | None) -> CoordinatorResult[None]:
        return CoordinatorResult(
            None,
            self.records,
            timers=[] if timer is None else [timer],
            events=self.events,
            intents=self.intents,
        )


class TransactionExpiration:
    """Periodic work on the transactional ids of a shard: timeouts and expiration."""

    def __init__(self, registry: TransactionRegistry) -> None:
        self._registry = registry
        self._sweep_limit = SweepLimit()
        self._loaded_at_ms = 0
        self._next_abort_ms = 0
        self._next_removal_ms = 0
        """Time of the next search, if one is scheduled; soft state, like `_next_abort_ms`."""
        self.timers: Mapping[type, Callable[..., CoordinatorResult[None]]] = {
            AbortTimedOut: self.abort_timed_out,
            RemoveExpired: self.remove_expired,
        }

    def on_loaded(self, now_ms: int) -> list[SetTimer]:
        """Set the start of the rounds; return the timers of those with something to examine."""
        self._loaded_at_ms = now_ms
        registry = self._registry
        timers = self.schedule_abort(now_ms) if registry.open_ids else []
        return timers + (self.schedule_removal(now_ms) if registry.transactions else [])

    def schedule_abort(self, now_ms: int) -> list[SetTimer]:
        """Return the timer of the next search for timeouts, unless it is set already."""
        if self._next_abort_ms > now_ms:
            return []
        return [self._abort_timer(now_ms)]

    def schedule_removal(self, now_ms: int) -> list[SetTimer]:
        """Return the timer of the next search for unused ids, unless it is set already."""
        if self._next_removal_ms > now_ms:
            return []
        return [self._removal_timer(now_ms)]

    def abort_timed_out(self, event: AbortTimedOut, now_ms: int) -> CoordinatorResult[None]:
        """Abort transactions that are open for too long, and fence their producers."""
        registry = self._registry
        step = self._begin_step(_MAX_ABORTS_PER_STEP)
        for transactional_id in registry.open_ids:
            if step.is_full():
                self._next_abort_ms = now_ms + PAUSE_MS
                return step.result(SetTimer(AbortTimedOut, self._next_abort_ms, event))
            transaction = registry.transactions[transactional_id]
            if not _is_timed_out(transaction, now_ms):
                continue
            try:
                prepared = registry.abort_and_fence(transaction, now_ms)
            except KafkaError:
                # No new producer id is available now; the next round tries again.
                continue
            step.records.append(transaction_record(prepared))
            step.characters += _characters_of(prepared)
            step.intents.append(markers_of(prepared))
            step.add_event(partial(_timed_out_event, transaction, prepared, now_ms))
        is_done = len(step.records) == len(registry.open_ids)
        return step.result(None if is_done else self._abort_timer(now_ms))

    def remove_expired(self, event: RemoveExpired, now_ms: int) -> CoordinatorResult[None]:
        """Remove ids without a transaction that were last used too long ago."""
        transactions = self._registry.transactions
        expiration_ms = self._registry.config.int(EXPIRATION_CONFIG)
        ids = event.ids or tuple(transactions)
        step = self._begin_step(MAX_RECORDS)
        position = event.position
        while position < len(ids) and not step.is_full():
            transaction = transactions.get(ids[position])
            position += 1
            step.examined += 1
            if transaction is not None and _is_expired(transaction, expiration_ms, now_ms):
                step.records.append(transaction_tombstone(transaction.transactional_id))
                step.characters += len(transaction.transactional_id)
                step.add_event(partial(_expired_event, transaction, expiration_ms, now_ms))
        if position < len(ids):
            self._next_removal_ms = now_ms + PAUSE_MS
            next_event = RemoveExpired(ids, position)
            return step.result(SetTimer(RemoveExpired, self._next_removal_ms, next_event))
        is_done = len(step.records) == len(transactions)
        return step.result(None if is_done else self._removal_timer(now_ms))

    def on_append_failed(self, records: Sequence[Record], error: KafkaError) -> None:
        """Reduce the size of steps if the log refused the records of the last one as too large.

        The topic may have a small `max.message.bytes`. The timers of the failed decision were not
        set.
        """
        self._next_abort_ms = self._next_removal_ms = 0
        self._sweep_limit.on_append_failed(records, error)

    def _begin_step(self, limit: int) -> _SweepStep:
        return self._sweep_limit.apply_to(
            _SweepStep(max_examined=_MAX_EXAMINED_PER_STEP, max_records=limit)
        )

    def _abort_timer(self, now_ms: int) -> SetTimer:
        self._next_abort_ms = self._next_round_ms(now_ms, ABORT_INTERVAL_CONFIG)
        # If nothing can time out, rounds may be skipped when time jumps.
        is_idle = all(
            self._registry.transactions[each].timeout_ms == NO_TIMEOUT_MS
            for each in self._registry.open_ids
        )
        return SetTimer(AbortTimedOut, self._next_abort_ms, AbortTimedOut(), is_periodic=is_idle)

    def _removal_timer(self, now_ms: int) -> SetTimer:
        self._next_removal_ms = self._next_round_ms(now_ms, REMOVAL_INTERVAL_CONFIG)
        return SetTimer(RemoveExpired, self._next_removal_ms, RemoveExpired(), is_periodic=True)

    def _next_round_ms(self, now_ms: int, interval_key: str) -> int:
        interval_ms = self._registry.config.int(interval_key)
        return now_ms + interval_ms - (now_ms - self._loaded_at_ms) % interval_ms


def _is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    return (
        transaction.timeout_ms != NO_TIMEOUT_MS
        and transaction.start_timestamp_ms + transaction.timeout_ms < now_ms
    )


def _is_expired(transaction: Transaction, expiration_ms: int, now_ms: int) -> bool:
    return (
        transaction.state in IDLE_STATES
        and transaction.last_update_timestamp_ms <= now_ms - expiration_ms
    )


def _characters_of(transaction: Transaction) -> int:
    return len(transaction.transactional_id) + sum(
        len(topic) + _PARTITION_INDEX_CHARACTERS for topic, _ in transaction.partitions
    )


def _timed_out_event(transaction: Transaction, prepared: Transaction, now_ms: int) -> Event:
    open_ms = now_ms - transaction.start_timestamp_ms
    name = transaction.transactional_id
    return Event(
        name,
        "aborted",
        f"transaction of id {name} aborted: open for {_format_duration(open_ms)}, "
        f"its timeout is {_format_duration(transaction.timeout_ms)}; "
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
                for topic, index in sorted(transaction.partitions)[:_MAX_PARTITIONS_IN_EVENT]
            ],
        },
        Entity.TRANSACTIONAL_ID,
    )


def _expired_event(transaction: Transaction, expiration_ms: int, now_ms: int) -> Event:
    idle_ms = now_ms - transaction.last_update_timestamp_ms
    name = transaction.transactional_id
    return Event(
        name,
        "expired",
        f"transactional id {name} expired: not used for {_format_duration(idle_ms)}, "
        f"and {EXPIRATION_CONFIG} is {_format_duration(expiration_ms)}",
        {
            "rule": "expiry",
            "idle_ms": idle_ms,
            "expiration_ms": expiration_ms,
            "state": transaction.state.label,
            "producer_id": transaction.producer_id,
            "producer_epoch": transaction.producer_epoch,
        },
        Entity.TRANSACTIONAL_ID,
    )


def _format_duration(duration_ms: int) -> str:
    """Format a duration in seconds, or in days if it is long."""
    if duration_ms >= 2 * _DAY_MS:
        return f"{duration_ms / _DAY_MS:.1f}".removesuffix(".0") + " days"
    return f"{duration_ms / 1_000:.3f}".rstrip("0").rstrip(".") + " s"
