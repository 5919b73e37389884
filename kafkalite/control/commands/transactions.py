"""The command that lists transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from kafkalite.config.typed_json import About
from kafkalite.control.command_table import Family, Row
from kafkalite.control.group_status import TopicPartitions
from kafkalite.control.transaction_reader import list_transactions
from kafkalite.control.turns import answer_pieces, drain, in_turns
from kafkalite.ports.times import iso_of

if TYPE_CHECKING:
    from kafkalite.control.transaction_reader import TransactionStatus
    from kafkalite.server.broker import Broker


@dataclass(frozen=True, slots=True)
class TransactionAnswer:
    """A transactional id with its current or last transaction, and its producer."""

    transactional_id: Annotated[str, About("The transactional id.")]
    state: Annotated[str, About("State as Kafka's tools show it, such as `Ongoing`.")]
    producer_id: Annotated[int, About("Id of the producer.")]
    producer_epoch: Annotated[int, About("Epoch of the producer.")]
    partitions: Annotated[
        tuple[TopicPartitions, ...],
        About("Partitions of a transaction that is open or ending, by topic."),
    ]
    timeout_ms: Annotated[int, About("Transaction timeout that the producer requested.")]
    started_iso: Annotated[
        str | None, About("Start of the last transaction in ISO 8601, UTC; null without one.")
    ]
    age_ms: Annotated[
        int | None, About("Time since the start of a transaction that is open or ending.")
    ]
    client_id: Annotated[
        str | None, About("Client id of the producer; null if the history does not have it.")
    ]
    client_host: Annotated[
        str | None, About("Address of that client as Kafka's tools show it: /127.0.0.1.")
    ]


@dataclass(frozen=True, slots=True)
class TransactionList:
    """All transactional ids."""

    transactions: Annotated[tuple[TransactionAnswer, ...], About("Transactional ids, sorted.")]


@dataclass(frozen=True, slots=True)
class ListTransactions:
    """List the transactional ids with their current or last transactions."""

    async def perform(self, broker: Broker) -> TransactionList:
        """Return all transactional ids."""
        found = in_turns(drain(await list_transactions(broker)))
        return TransactionList(tuple([transaction_answer(each) async for each in found]))


def transaction_answer(status: TransactionStatus) -> TransactionAnswer:
    """Return a transactional id as answers have it."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(status.partitions):
        by_topic.setdefault(topic, []).append(partition)
    start_ms = status.start_timestamp_ms
    return TransactionAnswer(
        transactional_id=status.transactional_id,
        state=status.state.label,
        producer_id=status.producer_id,
        producer_epoch=status.producer_epoch,
        partitions=tuple(TopicPartitions(topic, tuple(each)) for topic, each in by_topic.items()),
        timeout_ms=status.timeout_ms,
        started_iso=None if start_ms < 0 else iso_of(start_ms),
        age_ms=status.age_ms,
        client_id=status.client_id,
        client_host=status.client_host,
    )


COMMANDS = Family(
    (Row(ListTransactions, TransactionList, "GET", "/v1/transactions", pieces=answer_pieces),)
)
