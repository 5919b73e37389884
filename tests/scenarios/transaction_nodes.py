"""TransactionNodes: three nodes in memory, and the requests of a transactional producer to each."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, ControlKind
from kafkalite.testing.clock import ManualClock
from tests.cluster.transactions import ID, TransactionCluster
from tests.unit.data_plane import batch_of, batches_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.cluster.node_control import NodeControl
    from kafkalite.ports.files import Files
    from kafkalite.storage.batch import BatchView
    from kafkalite.transactions.state import ProducerIdAndEpoch, TopicPartition

OFFSETS_TOPIC, GROUP = "__consumer_offsets", "g"
LAG_TIME_MS = 60_000
SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "replica.lag.time.max.ms": str(LAG_TIME_MS),
}
READ_COMMITTED = 1
_GROUP_KEY = 0


class TransactionNodes(TransactionCluster):
    """Three nodes with transactional ids and partitions of a test's choice.

    `add_version` and the like are the versions of the new protocol of transactions (KIP-890).
    """

    def __init__(
        self, config: Mapping[str, str] | None = None, *, files: Files | None = None
    ) -> None:
        self.sequences: dict[tuple[ProducerIdAndEpoch, TopicPartition], int] = defaultdict(int)
        super().__init__("/data", 3, {**SETTINGS, **(config or {})}, files=files)  # type: ignore[arg-type]

    def start_again(self, files: Files) -> None:
        """Start at the same time on other files, after all nodes were killed."""
        self._files, self.clock = files, ManualClock(self.clock.now_ms())
        self._start()

    @property
    def control(self) -> NodeControl:
        """The commands to nodes."""
        return self.cluster.node_control

    def create_replicated(self, name: str, *replicas: tuple[int, ...]) -> None:
        """Create a topic with these replicas of each partition; the first one leads."""
        (made,) = self.cluster.metadata.create_topics(
            [NewTopic(name=name, assignments=tuple(enumerate(replicas)))]
        )
        assert made.error is None, made.error

    def id_coordinated_by(self, node_id: int) -> str:
        """Return a transactional id whose coordinator is this node."""
        names = [f"id-{number}" for number in range(20)]
        return names[self.find(*names).index(node_id)]

    def produce(
        self,
        producer: ProducerIdAndEpoch,
        partition: TopicPartition,
        value: bytes,
        *,
        transactional_id: str = ID,
        node: int = 1,
        version: int = 12,
    ) -> Any:  # noqa: ANN401 - a response or PendingResponse
        """Write a record of a transaction with acks=all."""
        topic, index = partition
        sequence = self.sequences[producer, partition]
        self.sequences[producer, partition] += 1
        records = batch_of(
            value, attributes=TRANSACTIONAL, producer=BatchProducer(*producer, sequence)
        )
        data = ProduceRequest.PartitionProduceData(index=index, records=records)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        return self.ask(request, version, node)

    def commit_offset(
        self,
        producer: ProducerIdAndEpoch,
        offset: int,
        *,
        topic: str,
        transactional_id: str = ID,
        node: int = 1,
        version: int = 5,
    ) -> int:
        """Commit the group's offset of partition 0 in the transaction; return the error."""
        row = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=GROUP,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[row])
            ],
        )
        (answer,) = self.ask(request, version, node).topics
        code: int = answer.partitions[0].error_code
        return code

    def offset(self, topic: str, node: int = 1) -> int:
        """Return the group's committed offset of partition 0; -1 without one."""
        requested = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=GROUP, topics=[requested])
        (answer,) = self.ask(request, 7, node).topics
        assert answer.partitions[0].error_code == 0
        committed: int = answer.partitions[0].committed_offset
        return committed

    def fetch(self, partition: TopicPartition, node: int = 1) -> Any:  # noqa: ANN401 - a response
        """Return what a reader of committed records gets from a node."""
        topic, index = partition
        fetched = FetchRequest.FetchPartition(
            partition=index, fetch_offset=0, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            isolation_level=READ_COMMITTED,
            max_bytes=1 << 20,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[fetched])],
        )
        (answer,) = self.ask(request, 12, node).responses[0].partitions
        return answer

    def control_batches(self, partition: TopicPartition) -> list[BatchView]:
        """Return the control batches of a partition."""
        return [batch for batch in self.partition(*partition).log.batches() if batch.is_control]

    def committed(self, partition: TopicPartition, node: int = 1) -> list[bytes | None]:
        """Return the values of the committed records that a node serves."""
        answer = self.fetch(partition, node)
        assert answer.error_code == 0
        return committed_values(answer)


def committed_values(answer: Any) -> list[bytes | None]:  # noqa: ANN401 - a partition's response
    """Return the values in a fetched partition, without those of aborted transactions."""
    aborted = sorted(
        (transaction.first_offset, transaction.producer_id)
        for transaction in answer.aborted_transactions or ()
    )
    skipped: set[int] = set()
    values: list[bytes | None] = []
    for batch in batches_in(answer.records):
        while aborted and aborted[0][0] <= batch.last_offset:
            skipped.add(aborted.pop(0)[1])
        marker = batch.control_marker() if batch.is_control else None
        if marker is not None and marker.kind is ControlKind.ABORT:
            skipped.discard(batch.producer_id)
        elif marker is None and batch.producer_id not in skipped:
            values += (record.value for record in batch.records())
    return values
