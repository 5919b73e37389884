"""ProducerTransaction: a transaction of a producer, from its begin to commit or abort (KIP-98).

The protocol is that of transaction version 1, which every broker supports: partitions are added
before records are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.coordinator_requests import TRANSACTION, CoordinatorRequests
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.storage.batch import BatchProducer

if TYPE_CHECKING:
    from kafkalite.client.client import KafkaClient
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.retries import Retries

_TIMEOUT_MS: Final = 60_000
"""The default of clients in Java."""
_INIT_VERSIONS: Final = Versions(0, 5)
_ADD_VERSIONS: Final = Versions(0, 3)
_END_VERSIONS: Final = Versions(0, 4)


class ProducerTransaction:
    """One transaction at a time of a transactional id."""

    def __init__(self, client: KafkaClient, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self._requests = CoordinatorRequests(client, transactional_id, TRANSACTION)
        self._producer_id = -1
        self._producer_epoch = -1
        self._sequences: dict[TopicPartition, int] = {}
        """Partition → the sequence number of its next record."""
        self._partitions: set[TopicPartition] = set()

    async def begin(self, retries: Retries) -> None:
        """Fence earlier producers of the id, and begin a transaction.

        Raises BrokerError or TimedOutError.
        """
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=_TIMEOUT_MS
        )
        response = await self._requests.ask(request, _INIT_VERSIONS, retries)
        self._producer_id, self._producer_epoch = response.producer_id, response.producer_epoch
        self._sequences.clear()
        self._partitions.clear()

    async def add(self, partition: TopicPartition, retries: Retries) -> None:
        """Add a partition before its first records; raises BrokerError or TimedOutError."""
        if partition in self._partitions:
            return
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=partition.topic, partitions=[partition.partition]
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._producer_epoch,
            v3_and_below_topics=[topic],
        )
        await self._requests.ask(request, _ADD_VERSIONS, retries, _addition_error)
        self._partitions.add(partition)

    def next_batch(self, partition: TopicPartition, record_count: int) -> BatchProducer:
        """Return the producer of the next batch of a partition, with its first sequence number."""
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + record_count
        return BatchProducer(self._producer_id, self._producer_epoch, sequence)

    def withdraw(self, partition: TopicPartition, record_count: int) -> None:
        """Reuse the sequence numbers of the last batch of a partition, which a broker refused."""
        self._sequences[partition] -= record_count

    async def end(self, retries: Retries, *, commits: bool) -> None:
        """Commit or abort; raises BrokerError or TimedOutError."""
        if not self._partitions:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            committed=commits,
        )
        await self._requests.ask(request, _END_VERSIONS, retries)
        self._partitions.clear()


def _addition_error(response: Any) -> ErrorCode:  # noqa: ANN401 - an AddPartitionsToTxnResponse
    codes = (
        ErrorCode(row.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    )
    return next((code for code in codes if code), ErrorCode.NONE)
