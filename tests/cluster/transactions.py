"""TransactionCluster: a TestCluster with requests of transactional producers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.describe_transactions import DescribeTransactionsRequest
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.transactions.state import ProducerIdAndEpoch
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kafkalite.coordinator.event_history import Entry
    from kafkalite.partitions.partition import Partition
    from kafkalite.ports.files import Files
    from kafkalite.transactions.state import TopicPartition

SMALL = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "2"}
ID = "t"
NO_PRODUCER = ProducerIdAndEpoch(-1, -1)
TRANSACTION_KEY = 1

RequestTopic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
RequestTransaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction


class TransactionCluster(TestCluster):
    """A cluster with a topic `orders` with three partitions, and a producer."""

    def __init__(
        self,
        path: Path,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        finds: bool = True,
        files: Files | None = None,
        as_version: str | None = None,
    ) -> None:
        super().__init__(
            path, nodes, {**SMALL, **(config or {})}, files=files, as_version=as_version
        )
        if "orders" not in self.cluster.metadata.image.topics:
            self.create("orders", 3)
        if finds:
            self.find()

    def find(self, *keys: str, kind: int = TRANSACTION_KEY) -> list[int]:
        """Return the coordinators of these ids."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys) or [ID])
        found = self.ask(request, 4).coordinators
        assert {each.error_code for each in found} == {0}
        return [each.node_id for each in found]

    def init(
        self,
        producer: ProducerIdAndEpoch = NO_PRODUCER,
        *,
        transactional_id: str | None = ID,
        timeout_ms: int = 60_000,
        version: int = 5,
        node: int = 1,
    ) -> Any:  # noqa: ANN401 - any response class
        """Request a producer id and an epoch."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )
        return self.ask(request, version, node)

    def new_producer(self, *, transactional_id: str = ID, node: int = 1) -> ProducerIdAndEpoch:
        """Return a new producer of the id."""
        answer = self.init(transactional_id=transactional_id, node=node)
        assert answer.error_code == 0
        return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    def add(
        self,
        producer: ProducerIdAndEpoch,
        *partitions: TopicPartition,
        transactional_id: str = ID,
        version: int = 3,
        node: int = 1,
    ) -> dict[TopicPartition, int]:
        """Add partitions as a client does, and return their errors."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=topics(*partitions),
        )
        answer = self.ask(request, version, node)
        return codes(answer.results_by_topic_v3_and_below)

    def add_all(self, *transactions: RequestTransaction, version: int = 5, node: int = 1) -> Any:  # noqa: ANN401 - any response class
        """Add or verify partitions as a broker does."""
        return self.ask(AddPartitionsToTxnRequest(transactions=list(transactions)), version, node)

    def add_offsets(
        self, producer: ProducerIdAndEpoch, group_id: str = "g", *, version: int = 4, node: int = 1
    ) -> int:
        """Add a group's offsets and return the error."""
        request = AddOffsetsToTxnRequest(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group_id,
        )
        code: int = self.ask(request, version, node).error_code
        return code

    def end_transaction(
        self,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool = True,
        transactional_id: str = ID,
        version: int = 5,
        node: int = 1,
    ) -> Any:  # noqa: ANN401 - any response class
        """Commit or abort."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_commit,
        )
        return self.ask(request, version, node)

    def describe(self, transactional_id: str = ID, node: int = 1) -> Any:  # noqa: ANN401 - any response class
        """Return the description of an id by DescribeTransactions."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (state,) = self.ask(request, 0, node).transaction_states
        return state

    def state(self) -> str:
        """Return the state of the id."""
        name: str = self.describe().transaction_state
        return name

    def events(self, transactional_id: str = ID) -> list[Entry]:
        """Return the history of an id without its initializations."""
        return [
            entry
            for entry in self.cluster.history.latest()
            if entry.transactional_id == transactional_id and entry.kind != "initialized"
        ]

    def partition(self, name: str = "orders", index: int = 0) -> Partition:
        """Return an existing partition."""
        topic = self.cluster.partitions.topic(name)
        assert topic is not None
        partition = topic.partition(index)
        assert partition is not None
        return partition

    def markers(
        self, name: str = "orders", index: int = 0
    ) -> list[tuple[ProducerIdAndEpoch, bool]]:
        """Return producer id and result of each control batch of a partition."""
        found = []
        for batch in self.partition(name, index).log.batches(0):
            if batch.is_control:
                marker = batch.control_marker()
                assert marker is not None
                producer = ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch)
                found.append((producer, marker.kind.name == "COMMIT"))
        return found


def topics(*partitions: TopicPartition) -> list[RequestTopic]:
    """Return partitions as in AddPartitionsToTxn."""
    names = dict.fromkeys(topic for topic, _ in partitions)
    return [
        RequestTopic(name=name, partitions=[index for topic, index in partitions if topic == name])
        for name in names
    ]


def codes(results: Any) -> dict[TopicPartition, int]:  # noqa: ANN401 - one of two classes
    """Return the error of each partition."""
    return {
        (topic.name, row.partition_index): row.partition_error_code
        for topic in results
        for row in topic.results_by_partition
    }


def transaction(
    producer: ProducerIdAndEpoch,
    *partitions: TopicPartition,
    transactional_id: str = ID,
    verify_only: bool = False,
) -> RequestTransaction:
    """Return a transaction of AddPartitionsToTxn as brokers send it."""
    return RequestTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=verify_only,
        topics=topics(*partitions),
    )
