"""AddPartitionsToTxn, AddOffsetsToTxn, EndTxn: every version, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.table import find_api
from kafkalite.coordinator.runtime import partition_of
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.metadata.partition_creation import NewPartitions
from kafkalite.protocol._generated.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.state import ProducerIdAndEpoch
from tests.cluster.transactions import ID, TransactionCluster, codes, topics, transaction

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FIRST, SECOND = ("orders", 0), ("orders", 2)
OFFSETS = "__consumer_offsets"


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TransactionCluster]:
    wire = TransactionCluster(tmp_path)
    yield wire
    wire.end()


@pytest.mark.parametrize("version", [4, 5])
def test_brokers_add_and_verify_partitions_of_several_transactions(
    wire: TransactionCluster, version: int
) -> None:
    producer = wire.new_producer()
    wire.find("u")
    other = wire.new_producer(transactional_id="u")
    answer = wire.add_all(
        transaction(producer, FIRST, SECOND),
        transaction(other, FIRST, transactional_id="u"),
        transaction(other, SECOND, transactional_id="u", verify_only=True),
        transaction(producer, FIRST, transactional_id="unknown"),
        version=version,
    )
    assert answer.error_code == 0
    assert [each.transactional_id for each in answer.results_by_transaction] == [
        ID, "u", "u", "unknown",
    ]  # fmt: skip
    assert [codes(each.topic_results) for each in answer.results_by_transaction] == [
        {FIRST: 0, SECOND: 0},
        {FIRST: 0},
        {SECOND: ErrorCode.TRANSACTION_ABORTABLE},
        {FIRST: ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    ]


def test_an_invalid_partition_prevents_the_others(wire: TransactionCluster) -> None:
    wire.find("g", kind=0)
    producer = wire.new_producer()
    unknown, internal = ("orders", 3), (OFFSETS, 0)
    assert wire.add(producer, FIRST, unknown, ("none", 0), internal) == {
        FIRST: ErrorCode.OPERATION_NOT_ATTEMPTED,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        internal: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert wire.state() == "Empty"
    assert wire.events() == []


def test_brokers_may_add_internal_topics(wire: TransactionCluster) -> None:
    wire.find("g", kind=0)
    producer = wire.new_producer()
    (result,) = wire.add_all(transaction(producer, (OFFSETS, 1), FIRST)).results_by_transaction
    assert codes(result.topic_results) == {(OFFSETS, 1): 0, FIRST: 0}
    (result,) = wire.add_all(transaction(producer, (OFFSETS, 2))).results_by_transaction
    assert codes(result.topic_results) == {(OFFSETS, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, ErrorCode.PRODUCER_FENCED),
        (3, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_the_error_of_a_fenced_producer_depends_on_the_version(
    wire: TransactionCluster, version: int, code: ErrorCode
) -> None:
    zombie = wire.new_producer()
    wire.new_producer()
    assert wire.add(zombie, FIRST, version=version) == {FIRST: code}
    assert wire.add_offsets(zombie, version=version) == code
    assert wire.end_transaction(zombie, version=version).error_code == code
    assert wire.state() == "Empty"
    events = wire.events()
    assert [entry.kind for entry in events] == ["fenced"] * 3
    assert [entry.facts["api"] for entry in events] == [
        "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn",
    ]  # fmt: skip
    assert {entry.facts["error"] for entry in events} == {"PRODUCER_FENCED"}
    assert {entry.facts["producer_epoch"] for entry in events} == {zombie.producer_epoch}


@pytest.mark.parametrize(
    ("producer_id_step", "epoch_step", "code"),
    [
        (1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (0, 1, ErrorCode.PRODUCER_FENCED),
        (0, -1, ErrorCode.PRODUCER_FENCED),
    ],
)
def test_another_producer_changes_nothing(
    wire: TransactionCluster, producer_id_step: int, epoch_step: int, code: ErrorCode
) -> None:
    producer_id, epoch = wire.new_producer()
    wire.add(ProducerIdAndEpoch(producer_id, epoch), FIRST)
    other_producer = ProducerIdAndEpoch(producer_id + producer_id_step, epoch + epoch_step)
    assert wire.add(other_producer, SECOND) == {SECOND: code}
    assert wire.add_offsets(other_producer) == code
    assert wire.end_transaction(other_producer).error_code == code
    assert wire.state() == "Ongoing"
    (topic,) = wire.describe().topics
    assert topic.partitions == [0]


def test_other_nodes_answer_not_coordinator(tmp_path: Path) -> None:
    wire = TransactionCluster(tmp_path, nodes=3)
    (leader,) = wire.find()
    producer = wire.new_producer(node=leader)
    for node in {1, 2, 3} - {leader}:
        assert wire.add(producer, FIRST, node=node) == {FIRST: ErrorCode.NOT_COORDINATOR}
        assert wire.add_offsets(producer, node=node) == ErrorCode.NOT_COORDINATOR
        assert wire.end_transaction(producer, node=node).error_code == ErrorCode.NOT_COORDINATOR
        assert wire.describe(node=node).error_code == ErrorCode.NOT_COORDINATOR
        assert wire.init(node=node).error_code == ErrorCode.NOT_COORDINATOR
    assert wire.add(producer, FIRST, node=leader) == {FIRST: 0}
    wire.end()


@pytest.mark.parametrize("version", range(5))
def test_the_offsets_partition_of_a_group_is_added_like_others(
    wire: TransactionCluster, version: int
) -> None:
    producer = wire.new_producer()
    assert wire.add_offsets(producer, version=version) == 0
    (topic,) = wire.describe().topics
    assert topic.topic == OFFSETS
    assert topic.partitions == [wire.cluster.groups.partition_for("g")]


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", range(6))
def test_an_end_is_complete_when_it_is_answered(
    wire: TransactionCluster, version: int, *, is_commit: bool
) -> None:
    """From version 5 on, the producer continues with the next epoch."""
    producer = wire.new_producer()
    wire.add(producer, FIRST, SECOND)
    ended = wire.end_transaction(producer, is_commit=is_commit, version=version)
    successor = ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch + 1)
    bumps = version == 5
    assert ended.error_code == 0
    assert (ended.producer_id, ended.producer_epoch) == (successor if bumps else (-1, -1))
    assert wire.state() == ("CompleteCommit" if is_commit else "CompleteAbort")
    for name, index in (FIRST, SECOND):
        assert wire.markers(name, index) == [(successor if bumps else producer, is_commit)]
    assert wire.add(successor if bumps else producer, FIRST) == {FIRST: 0}


@pytest.mark.parametrize("version", [3, 5])
def test_an_internal_error_has_the_structure_of_the_version(version: int) -> None:
    """The error of the whole request is repeated for its partitions."""
    api = find_api(24)
    assert api is not None
    assert api.lift is not None
    assert api.lower is not None
    request = AddPartitionsToTxnRequest(
        transactions=[transaction(ProducerIdAndEpoch(1, 0), FIRST)],
        v3_and_below_transactional_id=ID,
        v3_and_below_topics=topics(FIRST),
    )
    request = api.lift(request, version)
    response = api.lower(api.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, None), version)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    results = (
        response.results_by_topic_v3_and_below
        if version == 3
        else response.results_by_transaction[0].topic_results
    )
    assert codes(results) == {FIRST: ErrorCode.UNKNOWN_SERVER_ERROR}


def test_ids_are_unknown_after_their_log_was_deleted(wire: TransactionCluster) -> None:
    """The next coordinator begins with an empty state."""
    producer = wire.new_producer()
    wire.add(producer, FIRST)
    metadata = wire.cluster.metadata
    metadata.delete_topics([metadata.image.topics[TRANSACTION_STATE_TOPIC].topic_id])
    assert wire.add(producer, SECOND) == {SECOND: ErrorCode.NOT_COORDINATOR}
    assert wire.end_transaction(producer).error_code == ErrorCode.NOT_COORDINATOR
    wire.find()
    assert wire.add(producer, SECOND) == {SECOND: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    successor = wire.new_producer()
    assert successor.producer_id != producer.producer_id
    assert wire.add(successor, FIRST) == {FIRST: 0}


def test_a_deleted_topic_does_not_block_a_transaction(wire: TransactionCluster) -> None:
    topic_id = wire.create("gone", 2)
    producer = wire.new_producer()
    wire.add(producer, FIRST, ("gone", 1))
    assert wire.cluster.metadata.delete_topics([topic_id]) == {topic_id: None}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert wire.add(producer, ("gone", 0)) == {("gone", 0): unknown}
    assert wire.end_transaction(producer, version=4).error_code == 0
    assert wire.state() == "CompleteCommit"
    assert wire.markers() == [(producer, True)]


def test_markers_have_the_epoch_of_their_coordinator(tmp_path: Path) -> None:
    """So partitions refuse late markers of the previous coordinator."""
    wire = TransactionCluster(tmp_path, nodes=2)
    names = [f"id-{number}" for number in range(20)]
    leaders = dict(zip(names, wire.find(*names), strict=True))
    name = next(name for name, node in leaders.items() if node == 2)
    producer = wire.new_producer(transactional_id=name, node=2)
    wire.add(producer, FIRST, transactional_id=name, node=2)
    wire.restart(nodes=1)
    assert wire.find(name) == [1]
    ended = wire.end_transaction(producer, transactional_id=name, version=4)
    assert ended.error_code == 0
    image = wire.cluster.metadata.image
    index = wire.cluster.transactions.partition_for(name)
    led = image.partition(TRANSACTION_STATE_TOPIC, index)
    assert led is not None
    (batch,) = (each for each in wire.partition().log.batches(0) if each.is_control)
    marker = batch.control_marker()
    assert marker is not None
    assert marker.coordinator_epoch == led.leader_epoch == 1
    wire.end()


def test_added_partitions_move_ids_only_after_a_restart(wire: TransactionCluster) -> None:
    """As in Kafka, which reads the number of partitions at its start."""
    names = [f"id-{number}" for number in range(12)]
    wire.find(*names)
    producers = {name: wire.new_producer(transactional_id=name) for name in names}
    (error,) = wire.cluster.metadata.create_partitions([NewPartitions(TRANSACTION_STATE_TOPIC, 7)])
    assert error is None
    for name, producer in producers.items():
        assert wire.add(producer, FIRST, transactional_id=name) == {FIRST: 0}
    wire.restart()
    for name, producer in producers.items():
        stays = partition_of(name, 4) == partition_of(name, 7)
        code = 0 if stays else ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert wire.add(producer, FIRST, transactional_id=name) == {FIRST: code}
