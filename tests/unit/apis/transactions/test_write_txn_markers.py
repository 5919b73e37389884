"""WriteTxnMarkers: transactions are ended on each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.protocol._generated.messages.write_txn_markers import WriteTxnMarkersRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.state import ProducerIdAndEpoch
from tests.cluster.transactions import TransactionCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.transactions.state import TopicPartition

Marker = WriteTxnMarkersRequest.WritableTxnMarker
Topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic

FIRST, SECOND = ("orders", 0), ("orders", 2)
PRODUCER = ProducerIdAndEpoch(77, 3)


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TransactionCluster]:
    wire = TransactionCluster(tmp_path)
    yield wire
    wire.end()


def marker(
    *partitions: TopicPartition,
    producer: ProducerIdAndEpoch = PRODUCER,
    is_commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> Marker:
    return Marker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=is_commit,
        topics=[Topic(name=name, partition_indexes=[index]) for name, index in partitions],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )


def write(
    wire: TransactionCluster, *markers: Marker, version: int = 2, node: int = 1
) -> dict[int, dict[TopicPartition, int]]:
    """Return the errors of partitions by producer id."""
    answer: Any = wire.ask(WriteTxnMarkersRequest(markers=list(markers)), version, node)
    return {
        one.producer_id: {
            (topic.name, row.partition_index): row.error_code
            for topic in one.topics
            for row in topic.partitions
        }
        for one in answer.markers
    }


@pytest.mark.parametrize("producer", [ProducerIdAndEpoch(78, -1), ProducerIdAndEpoch(-1, 0)])
def test_a_negative_producer_id_or_epoch_fails_the_request(
    wire: TransactionCluster, producer: ProducerIdAndEpoch
) -> None:
    """The request ends there; later markers are not written."""
    unknown = ("orders", 9)
    errors = write(
        wire, marker(FIRST), marker(unknown, SECOND, producer=producer), marker(("orders", 1))
    )
    failed = ErrorCode.UNKNOWN_SERVER_ERROR
    assert errors == {
        77: {FIRST: failed, ("orders", 1): failed},
        producer.producer_id: {unknown: failed, SECOND: failed},
    }
    assert wire.markers(*FIRST) == [(PRODUCER, False)]
    assert wire.markers(*SECOND) == wire.markers("orders", 1) == []


def test_a_negative_producer_epoch_for_groups_fails_one_partition_only(
    wire: TransactionCluster,
) -> None:
    wire.find("g", kind=0)
    unknown, offsets = ("orders", 9), ("__consumer_offsets", 0)
    errors = write(
        wire, marker(unknown, offsets, producer=ProducerIdAndEpoch(78, -1)), marker(FIRST)
    )
    assert errors == {
        78: {
            unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            offsets: ErrorCode.UNKNOWN_SERVER_ERROR,
        },
        77: {FIRST: 0},
    }


def test_pending_offsets_are_ended_by_the_group_coordinator(wire: TransactionCluster) -> None:
    place = ("__consumer_offsets", 0)
    assert write(wire, marker(place)) == {77: {place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}
    wire.find("g", kind=0)
    assert write(wire, marker(place)) == {77: {place: 0}}
    assert wire.markers(*place) == [(PRODUCER, False)]


def test_only_the_leader_writes_a_marker(tmp_path: Path) -> None:
    config = {"default.replication.factor": "2", "offsets.topic.replication.factor": "2"}
    wire = TransactionCluster(tmp_path, nodes=3, config=config)
    wire.find("g", kind=0)
    for topic in ("orders", "__consumer_offsets"):
        for image in wire.cluster.metadata.image.topics[topic].partitions:
            place = (topic, image.index)
            for node in (1, 2, 3):
                expected = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if node in image.replicas:
                    expected = ErrorCode.NOT_LEADER_OR_FOLLOWER
                if node == image.leader:
                    expected = ErrorCode.NONE
                assert write(wire, marker(place), node=node) == {77: {place: expected}}
    wire.end()


def test_a_failing_disk_is_a_storage_error(
    wire: TransactionCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(wire.partition()), "append_marker", refuse)
    assert write(wire, marker(FIRST)) == {77: {FIRST: ErrorCode.KAFKA_STORAGE_ERROR}}
    monkeypatch.undo()
    assert write(wire, marker(FIRST)) == {77: {FIRST: 0}}
