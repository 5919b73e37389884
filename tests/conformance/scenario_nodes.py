"""ScenarioNodes: the nodes of one cluster during a scenario, and a transcript of their answers."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import batch
from tests.conformance.raw import ConnectionClosedError
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.setup import EARLIEST, LATEST, list_offsets, produce
from tests.oracle.node_clusters import NODE_IDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.protocol.message import Message
    from tests.conformance.normalization import Tree
    from tests.conformance.scenario_cluster import Entry
    from tests.oracle.node_clusters import NodeCluster

NO_LEADER = -1
PREFERRED, UNCLEAN = 0, 1
"""Types of elections."""

_IGNORED = frozenset(("controller_id",))
_SETTLE_TIMEOUT_S = 30.0
_PAUSE_S = 0.05
_ALL = 2**31 - 1


@dataclass(slots=True)
class ScenarioNode(ScenarioCluster):
    """One node; titles in the transcript contain its id."""

    stage: str = ""

    def record(self, title: str, answer: Tree) -> None:
        """Add an entry to the transcript."""
        ScenarioCluster.record(self, f"{self.stage}, {self.name}: {title}", answer)


class ScenarioNodes:
    """The running nodes of a cluster; answers of all of them are in one transcript."""

    def __init__(self, cluster: NodeCluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self.transcript: list[Entry] = []
        self._topic_ids: dict[str, bytes] = {}
        self._nodes = {
            node_id: ScenarioNode(
                cluster.port(node_id), f"node {node_id}", _IGNORED, transcript=self.transcript
            )
            for node_id in NODE_IDS
        }
        self._running = set(NODE_IDS)
        self._paused: set[int] = set()
        self._isolated: set[int] = set()

    # --- nodes ---------------------------------------------------------------------------------

    def begin(self, stage: str) -> None:
        """Name the following part of the scenario in the transcript."""
        for node in self._nodes.values():
            node.stage = stage

    def kill(self, node_id: int) -> None:
        """End a node without a shutdown."""
        self._leave(node_id)
        self._cluster.kill_node(node_id)

    def stop(self, node_id: int) -> None:
        """Shut a node down."""
        self._leave(node_id)
        self._cluster.stop_node(node_id)

    def start(self, node_id: int) -> None:
        """Start a node."""
        self._cluster.start_node(node_id)
        self._running.add(node_id)

    def pause_replication(self, node_id: int) -> None:
        """Let the replicas of a node lag; the node gets no requests meanwhile."""
        self._running.discard(node_id)
        self._paused.add(node_id)
        self._cluster.pause_replication(node_id)

    def resume_replication(self, node_id: int) -> None:
        """Let the replicas of a node follow again."""
        self._cluster.resume_replication(node_id)
        self._paused.discard(node_id)
        self._running.add(node_id)

    def isolate(self, node_id: int) -> None:
        """Cut a node off from the others; it still answers requests that name it."""
        self._running.discard(node_id)
        self._isolated.add(node_id)
        self._cluster.isolate_node(node_id)

    def connect(self, node_id: int) -> None:
        """Let an isolated node reach the others again."""
        self._cluster.connect_node(node_id)
        self._isolated.discard(node_id)
        self._running.add(node_id)

    def close(self) -> None:
        """Start or connect the nodes that do not run, and close all connections."""
        for node_id in tuple(self._paused):
            self.resume_replication(node_id)
        for node_id in tuple(self._isolated):
            self.connect(node_id)
        for node in self._nodes.values():
            node.close()
        for node_id in set(NODE_IDS) - self._running:
            self.start(node_id)

    def node(self, node_id: int) -> ScenarioNode:
        """Return a node."""
        return self._nodes[node_id]

    def running(self) -> list[ScenarioNode]:
        """Return the running nodes."""
        return [self._nodes[node_id] for node_id in sorted(self._running)]

    def _nodes_or_running(self, node_ids: Sequence[int]) -> list[ScenarioNode]:
        return [self._nodes[node_id] for node_id in node_ids] or self.running()

    def _leave(self, node_id: int) -> None:
        self._nodes[node_id].close()
        self._running.discard(node_id)

    # --- topics and settled states -------------------------------------------------------------

    def full_name(self, topic: str) -> str:
        """Return the name of a topic of this scenario."""
        return f"{self._name}-{topic}"

    def create(self, topic: str, replicas: Sequence[int], **configs: str) -> None:
        """Create a topic of one partition, and wait until all nodes know it."""
        rows = CreateTopicsRequest
        new_topic = rows.CreatableTopic(
            name=self.full_name(topic),
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                rows.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
            ],
            configs=[
                rows.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        request = CreateTopicsRequest(topics=[new_topic], timeout_ms=10_000)
        (created,) = self.running()[0].probe(request, 7).topics
        assert created.error_code == ErrorCode.NONE, created
        self._topic_ids[topic] = created.topic_id
        for node in self._nodes.values():
            node.name_topic(created.topic_id, topic)
        self.settle(topic, replicas[0], replicas)

    def settle(
        self, topic: str, leader: int, isr: Sequence[int], elr: Sequence[int] | None = None
    ) -> int:
        """Wait until every running node reports this state; return the leader epoch.

        The leader then answers, and the high watermark is the same on all replicas in the ISR. The
        followers in the ISR have truncated the records that the leader does not have.
        """
        expected = leader, set(isr)
        epochs: set[int] = set()

        def is_settled(row: Any) -> bool:  # noqa: ANN401 - a row of a response
            epochs.add(row.leader_epoch)
            return (row.leader_id, set(row.isr_nodes)) == expected and (
                elr is None or set(row.eligible_leader_replicas or ()) == set(elr)
            )

        for _ in range(2):  # a node may have settled before another one has changed
            epochs.clear()
            for node in self.running():
                row = self._wait(node, self._describe_request(topic), 0, _partition_row, is_settled)
                assert is_settled(row), f"{node.name}: {topic} is not {expected}: {row}"
                epochs = {row.leader_epoch}
        epoch = max(epochs)
        if leader != NO_LEADER:
            self._settle_offsets(topic, epoch, leader, isr)
        return epoch

    def leader_at(self, node_id: int, topic: str) -> int:
        """Return the leader that a node reports."""
        row = _partition_row(self.node(node_id).probe(self._describe_request(topic), 0))
        return int(row.leader_id)

    def isr_at(self, node_id: int, topic: str) -> set[int]:
        """Return the in-sync replicas that a node reports."""
        return set(
            _partition_row(self.node(node_id).probe(self._describe_request(topic), 0)).isr_nodes
        )

    def wait_for_isr(self, topic: str, isr: Sequence[int]) -> None:
        """Wait until every running node reports these in-sync replicas."""

        def is_expected(row: Any) -> bool:  # noqa: ANN401 - a row of a response
            return set(row.isr_nodes) == set(isr)

        for node in self.running():
            row = self._wait(node, self._describe_request(topic), 0, _partition_row, is_expected)
            assert is_expected(row), f"{node.name}: the ISR of {topic} is not {isr}: {row}"

    def _settle_offsets(self, topic: str, epoch: int, leader: int, isr: Sequence[int]) -> None:
        name = self.full_name(topic)
        row = self._wait(self.node(leader), list_offsets(name), 7, _partition_row, _has_no_error)
        assert _has_no_error(row), row
        end = self._wait(
            self.node(leader), self._epoch_request(topic, epoch), 4, _partition_row, _has_no_error
        )
        assert _has_no_error(end), end
        for node_id in set(isr) & self._running:
            self._wait(
                self.node(node_id),
                self.fetch_request(topic, 0, max_bytes=0),
                12,
                _fetch_row,
                lambda fetched: fetched.high_watermark == row.offset,
            )
            # A follower stays in the ISR until it truncates. Later records cannot be read then.
            self._wait(
                self.node(node_id),
                self.fetch_request(topic, end.end_offset + 1, max_bytes=0),
                12,
                _fetch_row,
                lambda fetched: fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE,
            )

    def wait_for(
        self, node_id: int, request: Message, version: int, until: Callable[[Any], bool]
    ) -> None:
        """Repeat a fetch until its answer for the partition is as expected."""
        row = self._wait(self.node(node_id), request, version, _fetch_row, until)
        assert until(row), row

    @staticmethod
    def _wait(
        node: ScenarioNode,
        request: Message,
        version: int,
        row_of: Callable[[Any], Any],
        until: Callable[[Any], bool],
    ) -> Any:  # noqa: ANN401 - a row of a response
        """Repeat a request until its row is as expected; return the last row."""
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        row = None
        while time.monotonic() < deadline:
            with suppress(ConnectionClosedError, ConnectionError):
                row = row_of(node.probe(request, version))
                if row is not None and until(row):
                    return row
            time.sleep(_PAUSE_S)
        return row

    # --- requests ------------------------------------------------------------------------------

    def describe(self, topic: str, *node_ids: int) -> None:
        """Ask some nodes about the topic and the cluster, by default every running one."""
        metadata = MetadataRequest(
            topics=[MetadataRequest.MetadataRequestTopic(name=self.full_name(topic))],
            allow_auto_topic_creation=False,
        )
        for node in self._nodes_or_running(node_ids):
            node.ask(metadata, 13)
            node.ask(metadata, 12)
            node.ask(metadata, 1)
            node.ask(self._describe_request(topic), 0)

    def describe_cluster(self, *node_ids: int) -> None:
        """Ask some nodes about the nodes, by default every running one."""
        for node in self._nodes_or_running(node_ids):
            node.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)

    def wait_for_end(self, node_id: int, topic: str, epoch: int, end_offset: int) -> None:
        """Wait until the log of a leader ends at an offset."""

        def is_expected(row: Any) -> bool:  # noqa: ANN401 - a row of a response
            return bool(row.end_offset == end_offset)

        request = self._epoch_request(topic, epoch)
        row = self._wait(self.node(node_id), request, 4, _partition_row, is_expected)
        assert is_expected(row), row

    def produce(
        self, node_id: int, topic: str, value: bytes, acks: int = -1, timeout_ms: int = 5000
    ) -> None:
        """Append one record."""
        request = produce(self.full_name(topic), batch(value), acks=acks, timeout_ms=timeout_ms)
        self.node(node_id).ask(request, 10)

    def fetch(self, request: FetchRequest, *node_ids: int, version: int = 12) -> None:
        """Send a fetch to some nodes."""
        for node_id in node_ids:
            self.node(node_id).ask(request, version)

    def elect(self, kind: int, *topics: str) -> None:
        """Elect leaders."""
        rows = [
            ElectLeadersRequest.TopicPartitions(topic=self.full_name(topic), partitions=[0])
            for topic in topics
        ]
        request = ElectLeadersRequest(election_type=kind, topic_partitions=rows, timeout_ms=10_000)
        self.running()[0].ask(request, 2)

    def observe(self, topic: str, epoch: int, end_offset: int, *node_ids: int) -> None:
        """Ask some nodes about offsets, epochs and records, with all kinds of epochs.

        By default, ask every running node.
        """
        self.describe(topic, *node_ids)
        name = self.full_name(topic)
        for node in self._nodes_or_running(node_ids):
            for current in (-1, epoch - 1, epoch, epoch + 1):
                for timestamp in (LATEST, EARLIEST):
                    node.ask(list_offsets(name, timestamp=timestamp, leader_epoch=current), 7)
                node.ask(self._epoch_request(topic, epoch, current), 4)
                fetch = self.fetch_request(topic, 0, current_leader_epoch=current)
                node.ask(fetch, 12)
                node.ask(fetch, 18)
            for other in range(epoch + 2):
                node.ask(self._epoch_request(topic, other), 4)
                for offset in range(end_offset + 2):
                    node.ask(self.fetch_request(topic, offset, last_fetched_epoch=other), 12)
            for offset in range(end_offset + 2):
                node.ask(self.fetch_request(topic, offset), 12)

    def _describe_request(self, topic: str) -> DescribeTopicPartitionsRequest:
        rows = DescribeTopicPartitionsRequest
        return rows(
            topics=[rows.TopicRequest(name=self.full_name(topic))], response_partition_limit=100
        )

    def _epoch_request(
        self, topic: str, epoch: int, current: int = -1
    ) -> OffsetForLeaderEpochRequest:
        rows = OffsetForLeaderEpochRequest
        partition = rows.OffsetForLeaderPartition(
            partition=0, current_leader_epoch=current, leader_epoch=epoch
        )
        row = rows.OffsetForLeaderTopic(topic=self.full_name(topic), partitions=[partition])
        return rows(replica_id=-1, topics=[row])

    def fetch_request(
        self,
        topic: str,
        offset: int,
        *,
        rack: str = "",
        max_bytes: int = _ALL,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
    ) -> FetchRequest:
        """Return a fetch without a session, which does not wait for records."""
        partition = FetchRequest.FetchPartition(
            partition=0,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=current_leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        row = FetchRequest.FetchTopic(
            topic=self.full_name(topic), topic_id=self._topic_ids[topic], partitions=[partition]
        )
        return FetchRequest(
            max_wait_ms=0, min_bytes=1, session_epoch=-1, rack_id=rack, topics=[row]
        )


def _partition_row(response: Any) -> Any:  # noqa: ANN401 - any response class
    (topic,) = response.topics
    return topic.partitions[0] if topic.partitions else None


def _fetch_row(response: Any) -> Any:  # noqa: ANN401 - any response class
    return response.responses[0].partitions[0]


def _has_no_error(row: Any) -> bool:  # noqa: ANN401 - a row of a response
    return bool(row.error_code == ErrorCode.NONE)
