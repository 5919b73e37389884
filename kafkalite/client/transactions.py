"""Transactions of a cluster: list, describe and abort them (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_each_broker
from kafkalite.client.coordinator_requests import TRANSACTION, ask_coordinator
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import (
    ClientError,
    NoLeaderError,
    UnknownNameError,
    no_partition_text,
    raise_refusal,
)
from kafkalite.client.topics import find_topic
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol._generated.messages.describe_transactions import (
    DescribeTransactionsRequest,
)
from kafkalite.protocol._generated.messages.list_transactions import ListTransactionsRequest
from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.server.addresses import Address
from kafkalite.transactions.state import IDLE_STATES, TransactionState

if TYPE_CHECKING:
    from kafkalite.client.client import KafkaClient

_LIST_VERSIONS: Final = Versions(0, 2)
_DESCRIBE_VERSIONS: Final = Versions(0, 0)
_PRODUCERS_VERSIONS: Final = Versions(0, 0)
_MARKERS_VERSIONS: Final = Versions(0, 1)
_NO_TIME: Final = -1
OPEN_STATES: Final = frozenset(
    each.label for each in TransactionState if each not in {*IDLE_STATES, TransactionState.DEAD}
)
"""States of a transaction that is open or ending."""


class TransactionListing(NamedTuple):
    """A transactional id in a list."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int
    """The node that coordinates the transactional id."""


class TransactionDescription(NamedTuple):
    """The current or last transaction of a transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """The start in milliseconds since the Unix epoch; None if none was started."""
    partitions: tuple[TopicPartition, ...]
    """The partitions of the transaction; empty unless it is open or ending."""


class _ActiveProducer(NamedTuple):
    """A producer in the log of a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transaction_start: int
    """The offset of the first record of its open transaction; -1 without one."""


async def list_transactions(client: KafkaClient) -> list[TransactionListing]:
    """Return the transactional ids of all coordinators, sorted; raises BrokerError."""
    found: list[TransactionListing] = []
    responses = await ask_each_broker(client, ListTransactionsRequest(), _LIST_VERSIONS)
    for node_id, response in responses.items():
        raise_refusal(response, f"transactions of node {node_id}")
        found += [
            TransactionListing(
                each.transactional_id, each.transaction_state, each.producer_id, node_id
            )
            for each in response.transaction_states
        ]
    return sorted(found)


async def describe_transaction(
    client: KafkaClient, transactional_id: str
) -> TransactionDescription:
    """Return the transaction of an id; raises UnknownNameError, BrokerError or TimedOutError."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    response = await ask_coordinator(
        client,
        transactional_id,
        TRANSACTION,
        request,
        _DESCRIBE_VERSIONS,
        find_error=_retriable_error,
    )
    (found,) = response.transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        known = [each.transactional_id for each in await list_transactions(client)]
        raise UnknownNameError("transactional id", transactional_id, known)
    raise_refusal(found, f"transactional id {transactional_id!r}")
    start_ms = found.transaction_start_time_ms
    return TransactionDescription(
        transactional_id=transactional_id,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        start_ms=None if start_ms == _NO_TIME else start_ms,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, index)
                for topic in found.topics
                for index in topic.partitions
            )
        ),
    )


async def abort_in_partition(
    client: KafkaClient, partition: TopicPartition, start_offset: int
) -> int:
    """Abort the transaction whose first record in a partition has this offset.

    This is for transactions that hang, because their coordinator does not know them any more.
    Returns the id of the producer. Raises UnknownNameError, ClientError or BrokerError.
    """
    leader = await _leader(client, partition)
    producer = await _producer(client, leader, partition, start_offset)
    await abort_of_producer(
        client,
        partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
    )
    return producer.producer_id


async def abort_of_producer(
    client: KafkaClient,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Write the marker that aborts the transaction of a producer in a partition.

    Raises UnknownNameError, ClientError or BrokerError.
    """
    leader = await _leader(client, partition)
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        # As in Java's Admin: a log without a marker of this producer has no epoch.
        coordinator_epoch=max(coordinator_epoch, 0),
        transaction_result=False,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                name=partition.topic, partition_indexes=[partition.partition]
            )
        ],
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = await client.ask(leader, request, _MARKERS_VERSIONS)
    for found in response.markers:
        for topic in found.topics:
            raise_refusal(topic.partitions[0], f"cannot abort the transaction in {partition}")


async def _leader(client: KafkaClient, partition: TopicPartition) -> Address:
    topic = await find_topic(client, partition.topic)
    leaders = {each.partition: each.leader for each in topic.partitions}
    if partition.partition not in leaders:
        raise ClientError(no_partition_text(*partition, len(leaders)))
    for broker in (await client.metadata()).brokers:
        if broker.node_id == leaders[partition.partition]:
            return Address(broker.host, broker.port)
    raise NoLeaderError(partition)


async def _producer(
    client: KafkaClient, leader: Address, partition: TopicPartition, start_offset: int
) -> _ActiveProducer:
    """Return the producer of the open transaction that begins at an offset."""
    row = DescribeProducersRequest.TopicRequest(
        name=partition.topic, partition_indexes=[partition.partition]
    )
    response = await client.ask(leader, DescribeProducersRequest(topics=[row]), _PRODUCERS_VERSIONS)
    (found,) = response.topics[0].partitions
    raise_refusal(found, f"producers of {partition}")
    producers = [
        _ActiveProducer(
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in found.active_producers
    ]
    for each in producers:
        if each.transaction_start == start_offset:
            return each
    starts = sorted(each.transaction_start for each in producers if each.transaction_start >= 0)
    known = f"one begins at {', '.join(map(str, starts))}" if starts else "none is open"
    raise ClientError(
        f"no open transaction in {partition} begins at offset {start_offset}; {known}"
    )


def _retriable_error(response: Any) -> ErrorCode:  # noqa: ANN401 - a DescribeTransactionsResponse
    (found,) = response.transaction_states
    code = ErrorCode(found.error_code)
    return code if code.retriable else ErrorCode.NONE
