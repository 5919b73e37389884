"""Transactions, read from the state of their coordinators."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from kafkalite.control.command_table import running_cluster
from kafkalite.control.turns import in_turns, sorted_in_turns
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.acl_operations import Entity
from kafkalite.transactions.state import IDLE_STATES

if TYPE_CHECKING:
    from kafkalite.coordinator.event_history import EventHistory
    from kafkalite.server.broker import Broker
    from kafkalite.transactions.state import TopicPartition, Transaction, TransactionState

_INITIALIZED: Final = "initialized"
_MAX_SHOWN: Final = 10


class TransactionStatus(NamedTuple):
    """A transactional id with its current or last transaction, and its producer."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    """The partitions of the transaction; empty unless it is open or ending."""
    timeout_ms: int
    """The transaction timeout that the producer requested."""
    start_timestamp_ms: int
    """Start of the transaction in milliseconds since the Unix epoch; -1 if none was started."""
    last_update_timestamp_ms: int
    """Time of the last change, in milliseconds since the Unix epoch."""
    age_ms: int | None
    """Time since the start of the transaction; None unless it is open or ending."""
    client_id: str | None
    """Client id of the producer; None if the history does not have its initialization any more."""
    client_host: str | None
    """Address of that client as Kafka's tools show it: /127.0.0.1."""

    def __repr__(self) -> str:
        """Return the id with its state, its producer and its first partitions."""
        parts = [
            f"<transactional id {self.transactional_id!r} {self.state.label}",
            f"producer {self.producer_id} at epoch {self.producer_epoch}",
        ]
        if self.client_host is not None:
            name, host = self.client_id or "(no id)", self.client_host.removeprefix("/")
            parts.append(f"client {name} at {host}")
        if self.age_ms is not None:
            parts.append(f"open for {self.age_ms} of {self.timeout_ms} ms")
        shown = [f"{topic}-{index}" for topic, index in sorted(self.partitions)[:_MAX_SHOWN]]
        hidden = len(self.partitions) - _MAX_SHOWN
        more = f" (and {hidden} more)" if hidden > 0 else ""
        return f"{', '.join(parts)}, partitions: {' '.join(shown) or 'none'}{more}>"


async def list_transactions(broker: Broker) -> list[TransactionStatus]:
    """Return the transactional ids, sorted, with their transactions."""
    cluster = running_cluster(broker)
    found = [
        status_of(each, cluster.history, cluster.clock.now_ms())
        for shard in cluster.transactions.shards()
        async for each in in_turns(tuple(shard.machine.transactions()))
    ]
    return [each async for each in sorted_in_turns(found, attrgetter("transactional_id"))]


def status_of(transaction: Transaction, history: EventHistory, now_ms: int) -> TransactionStatus:
    """Return a transactional id with its transaction; `history` names the client."""
    client_id, client_host = _client(transaction, history)
    is_idle = transaction.state in IDLE_STATES
    return TransactionStatus(
        transactional_id=transaction.transactional_id,
        state=transaction.state,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        partitions=transaction.partitions,
        timeout_ms=transaction.timeout_ms,
        start_timestamp_ms=transaction.start_timestamp_ms,
        last_update_timestamp_ms=transaction.last_update_timestamp_ms,
        age_ms=None if is_idle else now_ms - transaction.start_timestamp_ms,
        client_id=client_id,
        client_host=client_host,
    )


def _client(transaction: Transaction, history: EventHistory) -> tuple[str | None, str | None]:
    """Return the client that initialized the producer last: id and host."""
    entries = history.about(transaction.transactional_id, of=Entity.TRANSACTIONAL_ID)
    for entry in reversed(entries):
        if entry.kind == _INITIALIZED:
            client_id, host = entry.facts.get("client_id"), entry.facts.get("client_host")
            return None if client_id is None else f"{client_id}", f"{host}"
    return None, None
