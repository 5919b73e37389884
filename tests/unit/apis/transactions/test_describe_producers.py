"""DescribeProducers returns the producers of a partition and their open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.duplicates import MAX_DUPLICATES
from kafkalite.apis.transactions.describe_producers import APIS
from kafkalite.protocol._generated.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.rows import refusal
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView
from kafkalite.storage.transaction_marker import TransactionMarker
from tests.unit.data_plane import DataPlane, batch_of

if TYPE_CHECKING:
    from pathlib import Path

(API,) = APIS
TIME = 1_700_000_000_000


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)


def describe(
    plane: DataPlane, name: str = "t", *indexes: int, node_id: int = 0
) -> list[DescribeProducersResponse.PartitionResponse]:
    topic = DescribeProducersRequest.TopicRequest(name=name, partition_indexes=list(indexes or [0]))
    response = plane.ask(API, DescribeProducersRequest(topics=[topic]), 0, node_id=node_id)
    (answer,) = response.topics
    assert answer.name == name
    partitions: list[DescribeProducersResponse.PartitionResponse] = answer.partitions
    return partitions


def send(plane: DataPlane, producer: BatchProducer, attributes: int = 0) -> None:
    batch = batch_of(b"a", b"b", attributes=attributes, producer=producer, timestamp=TIME)
    plane.partition().append(BatchView(batch), plane.clock.now_ms(), is_verified=True)


def test_producers_are_returned_with_open_transactions(plane: DataPlane) -> None:
    plane.create()
    send(plane, BatchProducer(5, 2, 0))
    send(plane, BatchProducer(3, 0, 0), TRANSACTIONAL)
    (answer,) = describe(plane)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert answer.active_producers == [
        DescribeProducersResponse.ProducerState(
            producer_id=3,
            producer_epoch=0,
            last_sequence=1,
            last_timestamp=TIME,
            coordinator_epoch=-1,
            current_txn_start_offset=2,
        ),
        DescribeProducersResponse.ProducerState(
            producer_id=5,
            producer_epoch=2,
            last_sequence=1,
            last_timestamp=TIME,
            coordinator_epoch=-1,
            current_txn_start_offset=-1,
        ),
    ]


def test_a_marker_with_a_new_epoch_has_no_sequence(plane: DataPlane) -> None:
    plane.create()
    send(plane, BatchProducer(3, 0, 0), TRANSACTIONAL)
    marker = TransactionMarker(3, 1, 7, is_commit=True, transaction_version=2)
    plane.partition().append_marker(marker, plane.clock.now_ms())
    (producer,) = describe(plane)[0].active_producers
    assert producer == DescribeProducersResponse.ProducerState(
        producer_id=3,
        producer_epoch=1,
        last_sequence=-1,
        last_timestamp=plane.clock.now_ms(),
        coordinator_epoch=7,
        current_txn_start_offset=-1,
    )


def test_unknown_partitions_and_topics_are_refused(plane: DataPlane) -> None:
    plane.create(replicas=(0, 1))
    known, unknown = describe(plane, "t", 0, 1)
    assert (known.error_code, known.active_producers) == (0, [])
    assert (unknown.error_code, unknown.error_message) == (3, None)
    (answer,) = describe(plane, "u")
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_message == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.message
    (answer,) = describe(plane, "bad name")
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.error_message is not None
    assert "'bad name' contains" in answer.error_message


def test_every_replica_answers_and_no_other_node(plane: DataPlane) -> None:
    plane.create(replicas=(0, 1))
    send(plane, BatchProducer(3, 0, 0), TRANSACTIONAL)
    (leader,), (follower,), (without_replica,) = (
        describe(plane, node_id=node) for node in (0, 1, 2)
    )
    assert follower.error_code == ErrorCode.NONE
    assert [each.producer_id for each in follower.active_producers] == [3]
    assert follower == leader
    assert (without_replica.error_code, without_replica.error_message) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        None,
    )
    assert without_replica.active_producers == []


def test_an_offline_partition_has_an_error(plane: DataPlane) -> None:
    plane.create_offline()
    assert describe(plane)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_refusal_lists_every_partition() -> None:
    topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0, 1])
    request = DescribeProducersRequest(topics=[topic])
    response = refusal(ApiKey.DESCRIBE_PRODUCERS, request, ErrorCode.UNKNOWN_SERVER_ERROR, "why")
    assert [
        (one.partition_index, one.error_code, one.error_message)
        for one in response.topics[0].partitions
    ] == [(0, -1, "why"), (1, -1, "why")]


def test_duplicates_of_a_partition_are_limited(plane: DataPlane) -> None:
    plane.create(partitions=2)
    answers = describe(plane, "t", *[1] * (MAX_DUPLICATES + 3), 0)
    assert [each.error_code for each in answers] == [
        *[ErrorCode.NONE] * (MAX_DUPLICATES + 1),
        *[ErrorCode.INVALID_REQUEST] * 2,
        ErrorCode.NONE,
    ]
