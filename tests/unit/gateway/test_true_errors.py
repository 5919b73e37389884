"""True errors: after a fault with an error, the broker itself answers the same request with it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from kafkalite.gateway.fault_rules import FaultError, rule_of
from kafkalite.gateway.faults import Faults
from kafkalite.gateway.steps import StepOrder
from kafkalite.gateway.true_errors import HANDLED_DESPITE, TRUE_ERRORS
from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.catalogue import AnsweringNode, entities_in_request, values_at
from kafkalite.protocol.catalogue import row as row_of
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer
from tests.architecture.source import ROOT
from tests.cluster.cluster import raise_fault
from tests.cluster.transactions import ID, TransactionCluster, topics
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from kafkalite.gateway.fault_rules import FaultFields
    from kafkalite.protocol.message import Message

SETTINGS = {
    "default.replication.factor": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
GROUP, TOPIC = "g", "orders"

Sent: TypeAlias = "tuple[Message, int]"
"""A request and its version."""


class FaultyCluster(TransactionCluster):
    """Two nodes with faults, and a topic that both replicate."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 2, SETTINGS)
        self.controller.create_topics(
            [NewTopic(name="copied", assignments=((0, (1, 2)), (1, (1, 2))))]
        )
        self.faults = Faults(
            self.cluster.nodes,
            {"PLAINTEXT": self.gateway},
            SeededEntropy(),
            report=lambda *_: None,
            report_bug=raise_fault,
            install=partial(self.gateway.set_step, StepOrder.FAULTS),
        )
        self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4)

    def leader(self, topic: str, index: int = 0) -> int:
        partition = self.controller.image.partition(topic, index)
        assert partition is not None
        return partition.leader

    @property
    def coordinator(self) -> int:
        """The coordinator of the transactional id."""
        return self.find()[0]

    def node_of(self, sent: Sent) -> int:
        """Return the node that answers a request now."""
        request, _ = sent
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        kind = row_of(key).node
        if kind is AnsweringNode.TRANSACTION_COORDINATOR:
            return self.coordinator
        if kind is AnsweringNode.GROUP_COORDINATOR:
            return self.leader("__consumer_offsets")
        return self.leader(next(entities_in_request(key, Entity.TOPIC, request)))

    def send(self, sent: Sent, node: int | None = None) -> Any:  # noqa: ANN401 - a response
        """Send a request to a node, by default to the one that answers it."""
        return self.ask(*sent, node=node or self.node_of(sent))

    def codes(self, sent: Sent, node: int | None = None) -> set[ErrorCode]:
        """Return the error codes of the response to a request."""
        key: int = sent[0].API_KEY  # type: ignore[attr-defined]  # as above
        response = self.send(sent, node)
        places = row_of(key).errors.split()
        return {ErrorCode(code) for place in places for code in values_at(response, place)}

    def texts(self) -> list[str]:
        """Return the texts of the history."""
        return [each.text for each in self.cluster.history.latest()]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FaultyCluster]:
    cluster = FaultyCluster(tmp_path)
    yield cluster
    cluster.end()


# Members


def classic_member(cluster: FaultyCluster, instance: str | None = None) -> str:
    """Let one member join and sync, and return its id; the generation is 1."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=60_000,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[protocol],
    )
    if instance is None:
        request.member_id = cluster.send((request, 9)).member_id
    joining = cluster.send((request, 9))
    cluster.clock.advance(0)
    member_id: str = joining.response.member_id
    sync = SyncGroupRequest(
        group_id=GROUP, generation_id=1, member_id=member_id, group_instance_id=instance
    )
    sync.assignments = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id)]
    assert cluster.send((sync, 4)).response.error_code == ErrorCode.NONE
    return member_id


def heartbeat(cluster: FaultyCluster) -> Sent:
    return HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=classic_member(cluster)), 4


def static_heartbeat(cluster: FaultyCluster) -> Sent:
    member_id = classic_member(cluster, "i")
    request = HeartbeatRequest(
        group_id=GROUP, generation_id=1, member_id=member_id, group_instance_id="i"
    )
    return request, 4


def classic_commit(cluster: FaultyCluster) -> Sent:
    return commit(classic_member(cluster), 1), 8


def commit(member_id: str, epoch: int) -> OffsetCommitRequest:
    row = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[row])
    return OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[topic],
    )


def consumer_member(cluster: FaultyCluster, instance: str | None = None) -> int:
    """Let member `m` join for a topic, and return its epoch."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        instance_id=instance,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    epoch: int = cluster.send((request, 1)).member_epoch
    return epoch


def consumer_heartbeat(cluster: FaultyCluster, instance: str | None = None) -> Sent:
    epoch = consumer_member(cluster, instance)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=epoch, instance_id=instance
    )
    return request, 1


def static_consumer_heartbeat(cluster: FaultyCluster) -> Sent:
    return consumer_heartbeat(cluster, "i")


def consumer_commit(cluster: FaultyCluster) -> Sent:
    return commit("m", consumer_member(cluster)), 9


def share_heartbeat(cluster: FaultyCluster) -> Sent:
    request = ShareGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", subscribed_topic_names=[TOPIC]
    )
    epoch: int = cluster.send((request, 1)).member_epoch
    return ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=epoch), 1


# Producers and partitions


def produce(
    cluster: FaultyCluster, topic: str = "copied", indexes: tuple[int, ...] = (0,)
) -> ProduceRequest:
    found = cluster.controller.image.topics[topic]
    data = [
        ProduceRequest.PartitionProduceData(index=each, records=batch_of(b"v")) for each in indexes
    ]
    named = ProduceRequest.TopicProduceData(
        name=topic, topic_id=found.topic_id, partition_data=data
    )
    return ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[named])


def copied(cluster: FaultyCluster) -> Sent:
    return produce(cluster), 9


def next_transaction(cluster: FaultyCluster) -> Sent:
    """Return the first request of a producer's transaction."""
    producer = cluster.new_producer(node=cluster.coordinator)
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics((TOPIC, 0)),
    ), 3


def open_transaction(cluster: FaultyCluster) -> Sent:
    """Begin a transaction, and return the same request again."""
    sent = next_transaction(cluster)
    assert cluster.codes(sent) == {ErrorCode.NONE}
    return sent


def write_in_transaction(cluster: FaultyCluster) -> Sent:
    """Begin a transaction, and return a write in it, which is a duplicate the second time."""
    adding, _ = open_transaction(cluster)
    producer = BatchProducer(
        adding.v3_and_below_producer_id,  # type: ignore[attr-defined]
        adding.v3_and_below_producer_epoch,  # type: ignore[attr-defined]
        0,
    )
    request = produce(cluster, TOPIC)
    request.transactional_id = ID
    request.topic_data[0].partition_data[0].records = batch_of(
        b"v", attributes=TRANSACTIONAL, producer=producer
    )
    return request, 11


def fetch(cluster: FaultyCluster) -> Sent:
    """Write three records, and return a fetch of the first."""
    for _ in range(3):
        cluster.send((produce(cluster, TOPIC), 9))
    topic_id = cluster.controller.image.topics[TOPIC].topic_id
    partition = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    topic = FetchRequest.FetchTopic(topic=TOPIC, topic_id=topic_id, partitions=[partition])
    return FetchRequest(max_bytes=1 << 20, topics=[topic]), 13


CASES: Sequence[tuple[ErrorCode, Callable[[FaultyCluster], Sent]]] = [
    (ErrorCode.UNKNOWN_MEMBER_ID, heartbeat),
    (ErrorCode.UNKNOWN_MEMBER_ID, static_heartbeat),
    (ErrorCode.UNKNOWN_MEMBER_ID, classic_commit),
    (ErrorCode.UNKNOWN_MEMBER_ID, consumer_heartbeat),
    (ErrorCode.UNKNOWN_MEMBER_ID, share_heartbeat),
    (ErrorCode.ILLEGAL_GENERATION, heartbeat),
    (ErrorCode.ILLEGAL_GENERATION, classic_commit),
    (ErrorCode.FENCED_MEMBER_EPOCH, consumer_heartbeat),
    (ErrorCode.FENCED_MEMBER_EPOCH, share_heartbeat),
    (ErrorCode.STALE_MEMBER_EPOCH, consumer_commit),
    (ErrorCode.REBALANCE_IN_PROGRESS, heartbeat),
    (ErrorCode.FENCED_INSTANCE_ID, static_heartbeat),
    (ErrorCode.FENCED_INSTANCE_ID, static_consumer_heartbeat),
    (ErrorCode.NOT_COORDINATOR, heartbeat),
    (ErrorCode.UNKNOWN_TOPIC_ID, fetch),
    (ErrorCode.OFFSET_OUT_OF_RANGE, fetch),
    (ErrorCode.NOT_LEADER_OR_FOLLOWER, copied),
    (ErrorCode.PRODUCER_FENCED, next_transaction),
    (ErrorCode.PRODUCER_FENCED, open_transaction),
    (ErrorCode.INVALID_PRODUCER_EPOCH, write_in_transaction),
]
EACH_CASE = pytest.mark.parametrize(
    ("code", "prepare"), CASES, ids=[f"{code.name}-{each.__name__}" for code, each in CASES]
)


@EACH_CASE
def test_the_broker_answers_the_same_request_with_the_same_error(
    cluster: FaultyCluster, code: ErrorCode, prepare: Callable[[FaultyCluster], Sent]
) -> None:
    sent = prepare(cluster)
    node = cluster.node_of(sent)
    fault = cluster.faults.add(rule_of({"error": code.name, "times": 1}))
    assert code in cluster.codes(sent, node)
    assert code in cluster.codes(sent, node)
    assert cluster.faults.state(fault.id).firings == 1
    assert any(f"by fault {fault.id}" in each for each in cluster.texts())
    assert any(f"fault {fault.id}" in each and "refused" not in each for each in cluster.texts())


@EACH_CASE
def test_an_error_that_is_only_an_answer_changes_nothing(
    cluster: FaultyCluster, code: ErrorCode, prepare: Callable[[FaultyCluster], Sent]
) -> None:
    sent = prepare(cluster)
    node = cluster.node_of(sent)
    cluster.faults.add(rule_of({"error": code.name, "times": 1, "only_answer": True}))
    assert code in cluster.codes(sent, node)
    assert cluster.codes(sent, node) == {ErrorCode.NONE}


def test_an_error_of_one_partition_is_true_for_that_partition(cluster: FaultyCluster) -> None:
    fields: FaultFields = {"topic": "copied", "partition": 1, "error": "NOT_LEADER_OR_FOLLOWER"}
    cluster.faults.add(rule_of(fields))
    response = cluster.ask(produce(cluster, "copied", (0, 1)), 9)
    partitions = response.responses[0].partition_responses
    assert [each.error_code for each in partitions] == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [cluster.leader("copied", index) for index in (0, 1)] == [1, 2]


def test_the_answer_to_a_write_names_the_new_leader(cluster: FaultyCluster) -> None:
    cluster.faults.add(rule_of({"error": "NOT_LEADER_OR_FOLLOWER", "times": 1}))
    response = cluster.ask(produce(cluster, "copied", (0, 1)), 10)
    leaders = [each.current_leader for each in response.responses[0].partition_responses]
    assert [(each.leader_id, each.leader_epoch) for each in leaders] == [(2, 1), (2, 1)]
    assert [each.node_id for each in response.node_endpoints] == [2]


def test_the_answer_to_a_read_names_the_new_leader(cluster: FaultyCluster) -> None:
    cluster.ask(produce(cluster, "copied", (0, 1)), 10)
    cluster.faults.add(
        rule_of(
            {"api": "Fetch", "topic": "copied", "partition": 1, "error": "NOT_LEADER_OR_FOLLOWER"}
        )
    )
    partitions = FetchRequest.FetchPartition(partition=1, partition_max_bytes=1000)
    topic = cluster.controller.image.topics["copied"]
    request = FetchRequest(
        topics=[FetchRequest.FetchTopic(topic_id=topic.topic_id, partitions=[partitions])]
    )
    response = cluster.ask(request, 16)
    (partition,) = response.responses[0].partitions
    leader = partition.current_leader
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (leader.leader_id, leader.leader_epoch) == (2, 1)
    assert [each.node_id for each in response.node_endpoints] == [2]


def test_a_member_that_does_not_exist_gets_the_error_all_the_same(cluster: FaultyCluster) -> None:
    member_id = classic_member(cluster)
    fault = cluster.faults.add(rule_of({"error": "UNKNOWN_MEMBER_ID", "times": 1}))
    other = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="other")
    assert cluster.codes((other, 4)) == {ErrorCode.UNKNOWN_MEMBER_ID}
    assert cluster.faults.state(fault.id).firings == 1
    beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    assert cluster.codes((beat, 4)) == {ErrorCode.NONE}


def test_a_coordinator_is_loaded_again_without_what_is_not_in_its_log(
    cluster: FaultyCluster,
) -> None:
    member_id = classic_member(cluster)
    joining = JoinGroupRequest(
        group_id=GROUP, session_timeout_ms=45_000, rebalance_timeout_ms=60_000,
        group_instance_id="i", protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
    )  # fmt: skip
    waiting = cluster.send((joining, 9))
    beat = (HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id), 4)
    assert cluster.codes(beat) == {ErrorCode.REBALANCE_IN_PROGRESS}
    cluster.faults.add(rule_of({"error": "COORDINATOR_LOAD_IN_PROGRESS", "times": 1}))
    committing = (commit(member_id, 1), 8)
    assert cluster.codes(committing) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    assert waiting.response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert cluster.codes(beat) == {ErrorCode.NONE}  # the rebalance was not in the log


@pytest.mark.parametrize("fields", [{}, {"topic": "copied", "partition": 1}])
def test_records_are_appended_despite_not_enough_replicas_after_append(
    cluster: FaultyCluster, fields: FaultFields
) -> None:
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    cluster.faults.add(rule_of({"error": code.name, "times": 1, **fields}))
    response = cluster.ask(produce(cluster, "copied", (0, 1)), 9)
    partitions = response.responses[0].partition_responses
    expected = [0 if fields else code, code]
    assert [(each.index, each.error_code) for each in partitions] == [*enumerate(expected)]
    assert [cluster.partition("copied", index).end_offset for index in (0, 1)] == [1, 1]


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("Produce", "UNKNOWN_MEMBER_ID"),
        ("Metadata", "NOT_LEADER_OR_FOLLOWER"),
        ("Fetch", "NOT_COORDINATOR"),
        ("Heartbeat", "PRODUCER_FENCED"),
        ("ListOffsets", "OFFSET_OUT_OF_RANGE"),
        ("Fetch", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),
    ],
)
def test_an_error_that_kafka_never_returns_needs_force(
    cluster: FaultyCluster, api: str, error: str
) -> None:
    with pytest.raises(FaultError, match=f"Kafka never answers {api} with {error}; add force"):
        cluster.faults.add(rule_of({"api": api, "error": error}))
    assert cluster.faults.add(rule_of({"api": api, "error": error, "force": True})).id == "f1"


def test_the_guide_lists_all_errors_that_are_made_true() -> None:
    guide = (ROOT / "docs/how-to/faults.md").read_text()
    for code, error in TRUE_ERRORS.items():
        assert f"| `{code.name}` | {error.state} |" in guide
    for code in HANDLED_DESPITE:
        assert f"| `{code.name}` |" in guide
