"""ServedCluster: a broker of three nodes with sockets and a stopped clock, and clients."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.conformance.batches import batch
from tests.conformance.raw import RawClient
from tests.unit.data_plane import values_in

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

TOPIC = "t"
LAG_TIME_MS = 30_000
"""The default of replica.lag.time.max.ms."""
SESSION_MS = 9_000
"""The default of broker.session.timeout.ms."""


class Leadership(NamedTuple):
    """A partition in a node's Metadata response."""

    leader: int
    epoch: int
    isr: set[int]


class WaitingProduce:
    """A Produce request on a connection of its own, whose answer is read later."""

    def __init__(self, client: RawClient) -> None:
        self._client = client

    @property
    def is_answered(self) -> bool:
        """Whether an answer has arrived."""
        readable, _, _ = select.select([self._client._socket], [], [], 0)
        return bool(readable)

    def answer(self) -> Any:  # noqa: ANN401 - a response class of its version
        """Wait for the answer, and return its only partition."""
        return self._client.receive().responses[0].partition_responses[0]


class ServedCluster:
    """A topic `t` of one partition on nodes 1, 2 and 3; node 1 leads it in epoch 0."""

    def __init__(
        self,
        config: dict[str, str | float] | None = None,
        *,
        data_directory: Path | None = None,
    ) -> None:
        settings = {
            "connections.max.idle.ms": -1,
            "default.replication.factor": 3,
            **(config or {}),
        }
        self.broker = Broker(
            brokers=3,
            clock="manual@2026-03-01",
            config=settings,
            data_directory=data_directory,
        )
        self._clients: dict[int, RawClient] = {}
        self._waiting: list[RawClient] = []

    def __enter__(self) -> Self:
        self.broker.start()
        self.create(TOPIC, (1, 2, 3))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for client in (*self._clients.values(), *self._waiting):
            client.close()
        self.broker.stop()

    def port(self, node: int) -> int:
        """Return the port of a node."""
        return int(self.broker.nodes[node].bootstrap_servers.rpartition(":")[2])

    def connect(self, node: int) -> RawClient:
        """Return a new connection to a node."""
        client = RawClient(self.port(node), 10)
        self._waiting.append(client)
        return client

    def client(self, node: int) -> RawClient:
        """Return the connection to a node that most requests use."""
        if node not in self._clients:
            self._clients[node] = RawClient(self.port(node), 10)
        return self._clients[node]

    def disconnect(self, node: int) -> None:
        """Close the connection to a node; the next request opens a new one."""
        if node in self._clients:
            self._clients.pop(node).close()

    def create(self, name: str, *replicas: tuple[int, ...]) -> None:
        """Create a topic with these replicas of each partition; the first one leads."""
        assignments = [
            CreateTopicsRequest.CreatableReplicaAssignment(
                partition_index=index, broker_ids=list(node_ids)
            )
            for index, node_ids in enumerate(replicas)
        ]
        topic = CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments
        )
        answer = self.client(1).call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0].error_message

    # --- writing -------------------------------------------------------------------------------

    def produce(self, *values: bytes, node: int = 1, acks: int = -1) -> Any:  # noqa: ANN401 - see above
        """Produce one batch, and return the answer of the partition."""
        answer = self.client(node).call(_produce_request(values, acks, 1_000), 9)
        return answer.responses[0].partition_responses[0]

    def append(self, *values: bytes, node: int = 1, acks: int = -1) -> int:
        """Produce one batch, and return its offset."""
        answer = self.produce(*values, node=node, acks=acks)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        offset: int = answer.base_offset
        return offset

    def begin_produce(
        self, *values: bytes, node: int = 1, timeout_ms: int = 600_000
    ) -> WaitingProduce:
        """Send a Produce request with acks=all, and wait until its batch is in the log."""
        before = self.log_end(node)
        client = self.connect(node)
        client.send(_produce_request(values, -1, timeout_ms), 10)
        for _ in range(1_000):
            if self.log_end(node) > before:
                break
        return WaitingProduce(client)

    # --- reading -------------------------------------------------------------------------------

    def fetch(
        self,
        offset: int = 0,
        *,
        node: int = 1,
        leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
    ) -> Any:  # noqa: ANN401 - see above
        """Fetch from an offset, and return the answer of the partition."""
        request = fetch_request(offset, leader_epoch, last_fetched_epoch)
        return self.client(node).call(request, 12).responses[0].partitions[0]

    def values(self, *, node: int = 1) -> list[bytes | None]:
        """Return the values of all records that a consumer reads from a node."""
        answer = self.fetch(node=node)
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return values_in(answer.records)

    def end_of_epoch(self, epoch: int, *, node: int = 1, leader_epoch: int = -1) -> Any:  # noqa: ANN401
        """Return the answer of OffsetForLeaderEpoch."""
        partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=leader_epoch, leader_epoch=epoch
        )
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
            topic=TOPIC, partitions=[partition]
        )
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        return self.client(node).call(request, 4).topics[0].partitions[0]

    def log_end(self, node: int) -> int:
        """Return the end offset of the leader's log, which may be above the high watermark."""
        end_offset: int = self.end_of_epoch(self.leadership(node=node).epoch, node=node).end_offset
        return end_offset

    def high_watermark(self, *, node: int = 1) -> int:
        """Return the latest offset that consumers can read up to."""
        partition = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[partition])
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = self.client(node).call(request, 6).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        offset: int = answer.offset
        return offset

    # --- metadata ------------------------------------------------------------------------------

    def metadata(self, *, node: int = 1) -> Any:  # noqa: ANN401 - see above
        """Return the Metadata response of a node for all topics."""
        return self.client(node).call(MetadataRequest(topics=None), 12)

    def leadership(self, topic: str = TOPIC, index: int = 0, *, node: int = 1) -> Leadership:
        """Return leader, leader epoch and ISR of a partition, as a node knows them."""
        (found,) = (each for each in self.metadata(node=node).topics if each.name == topic)
        (partition,) = (each for each in found.partitions if each.partition_index == index)
        return Leadership(partition.leader_id, partition.leader_epoch, set(partition.isr_nodes))

    def advance(self, ms: int) -> None:
        """Move the clock of the broker."""
        self.broker.clock.advance(milliseconds=ms)


def fetch_request(
    offset: int = 0, leader_epoch: int = -1, last_fetched_epoch: int = -1, max_wait_ms: int = 0
) -> FetchRequest:
    """Return a Fetch of the partition without a fetch session."""
    partition = FetchRequest.FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
        partition_max_bytes=1_000_000,
    )
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])
    return FetchRequest(max_bytes=1_000_000, max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])


def _produce_request(values: tuple[bytes, ...], acks: int, timeout_ms: int) -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(*values))
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])
