"""ProducerTransaction: a transaction of a producer, from its begin to commit or abort (KIP-98).

`ProducerSequences` has the producer id and the sequence numbers, also those of a producer that is
only idempotent. A broker whose feature `transaction.version` has the level 2 adds partitions to a
transaction by itself, and raises the epoch of the producer at its end (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite import __version__
from kafkalite.client.coordinator_requests import TRANSACTION, CoordinatorRequests
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.exchanges import error_text
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.storage.batch import BatchProducer

if TYPE_CHECKING:
    from kafkalite.client.client import KafkaClient
    from kafkalite.client.epochs import TopicPartition
    from kafkalite.client.retries import Retries

PRODUCE_VERSIONS: Final = Versions(3, 13)
_EXPLICIT_PRODUCE_VERSIONS: Final = Versions(3, 11)
"""Later versions add partitions to a transaction by themselves."""
_TIMEOUT_MS: Final = 60_000
"""The default of clients in Java."""
_FEATURE: Final = "transaction.version"
_IMPLICIT_LEVEL: Final = 2
_FEATURE_VERSIONS: Final = Versions(0, 4)
_SOFTWARE: Final = "kafkalite"
_INIT_VERSIONS: Final = Versions(0, 5)
_ADD_VERSIONS: Final = Versions(0, 3)
_EXPLICIT_END_VERSIONS: Final = Versions(0, 4)
_END_VERSIONS: Final = Versions(0, 5)
_NO_PRODUCER: Final = -1


class ProducerSequences:
    """The id of a producer, and its next sequence number in each partition."""

    def __init__(self) -> None:
        self.producer_id = self.producer_epoch = _NO_PRODUCER
        self._next: dict[TopicPartition, int] = {}

    def restart(self, producer_id: int, producer_epoch: int) -> None:
        """Begin again with this id and epoch."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._next.clear()

    def next_batch(self, partition: TopicPartition, record_count: int) -> BatchProducer:
        """Return the producer of the next batch of a partition, with its first sequence number."""
        sequence = self._next.get(partition, 0)
        self._next[partition] = sequence + record_count
        return BatchProducer(self.producer_id, self.producer_epoch, sequence)

    def withdraw(self, partition: TopicPartition, record_count: int) -> None:
        """Reuse the sequence numbers of the last batch of a partition, which a broker refused."""
        self._next[partition] -= record_count

    def forget(self) -> None:
        """Request another id before the next batch: it is unknown what brokers have written."""
        self.restart(_NO_PRODUCER, _NO_PRODUCER)

    async def request_id(self, client: KafkaClient, retries: Retries) -> None:
        """Request an id from any broker if it has none; raises BrokerError or TimedOutError."""
        while self.producer_id == _NO_PRODUCER:
            request = InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS
            )
            response = await client.ask_any(
                request, _INIT_VERSIONS, timeout_s=retries.request_timeout_s
            )
            code = ErrorCode(response.error_code)
            if not code:
                self.restart(response.producer_id, response.producer_epoch)
            elif not code.retriable:
                raise BrokerError(code, "no producer id")
            elif not await retries.wait():
                raise TimedOutError(f"no producer id: {error_text(code)}")


class ProducerTransaction:
    """One transaction at a time of a transactional id."""

    def __init__(
        self, client: KafkaClient, transactional_id: str, sequences: ProducerSequences
    ) -> None:
        self.transactional_id = transactional_id
        self._client = client
        self._requests = CoordinatorRequests(client, transactional_id, TRANSACTION)
        self._sequences = sequences
        self._partitions: set[TopicPartition] = set()
        self._adds_partitions: bool | None = None
        """Whether partitions are added by requests; None before the first transaction."""

    @property
    def produce_versions(self) -> Versions:
        """The versions of Produce that the transactions of the cluster allow."""
        return _EXPLICIT_PRODUCE_VERSIONS if self._adds_partitions else PRODUCE_VERSIONS

    async def begin(self, retries: Retries) -> None:
        """Fence earlier producers of the id, and begin a transaction.

        Raises BrokerError or TimedOutError.
        """
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=_TIMEOUT_MS
        )
        response = await self._requests.ask(request, _INIT_VERSIONS, retries)
        if self._adds_partitions is None:
            levels = await _finalized_levels(self._client, retries)
            self._adds_partitions = levels.get(_FEATURE, 0) < _IMPLICIT_LEVEL
        self._sequences.restart(response.producer_id, response.producer_epoch)
        self._partitions.clear()

    async def add(self, partition: TopicPartition, retries: Retries) -> None:
        """Add a partition before its first records; raises BrokerError or TimedOutError."""
        if partition in self._partitions:
            return
        if self._adds_partitions:
            topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
                name=partition.topic, partitions=[partition.partition]
            )
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self._sequences.producer_id,
                v3_and_below_producer_epoch=self._sequences.producer_epoch,
                v3_and_below_topics=[topic],
            )
            await self._requests.ask(request, _ADD_VERSIONS, retries, _addition_error)
        self._partitions.add(partition)

    async def end(self, retries: Retries, *, commits: bool) -> None:
        """Commit or abort; raises BrokerError or TimedOutError."""
        if not self._partitions:
            return
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self._sequences.producer_id,
            producer_epoch=self._sequences.producer_epoch,
            committed=commits,
        )
        versions = _EXPLICIT_END_VERSIONS if self._adds_partitions else _END_VERSIONS
        await self._requests.ask(request, versions, retries)
        self._partitions.clear()


async def _finalized_levels(client: KafkaClient, retries: Retries) -> dict[str, int]:
    """Return the levels of features of the cluster; empty before Kafka 2.7."""
    response = await client.ask_any(
        ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version=__version__),
        _FEATURE_VERSIONS,
        timeout_s=retries.request_timeout_s,
    )
    return {each.name: each.max_version_level for each in response.finalized_features}


def _addition_error(response: Any) -> ErrorCode:  # noqa: ANN401 - an AddPartitionsToTxnResponse
    codes = (
        ErrorCode(row.partition_error_code)
        for topic in response.results_by_topic_v3_and_below
        for row in topic.results_by_partition
    )
    return next((code for code in codes if code), ErrorCode.NONE)
