"""Intents of transaction coordinators: markers are written, and the transaction is completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster import transaction_markers
from kafkalite.coordinator.runtime import partition_of
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.metadata.partition_creation import NewPartitions
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import ControlKind
from kafkalite.storage.transaction_marker import TransactionMarker
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.producer_initialization import ProducerRequest
from kafkalite.transactions.shard import TransactionShard
from kafkalite.transactions.state import ProducerIdAndEpoch, Transaction, TransactionState
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.partitions.partition import Partition
    from kafkalite.storage.batch import ControlMarker

ID = "t"
LONGEST_MS = 62
"""The longest delay of markers with the pace of Kafka."""


class MarkerCluster:
    """A cluster whose transaction coordinator is called directly."""

    def __init__(self, wire: TestCluster) -> None:
        self.wire = wire
        wire.cluster.transactions.ensure_topic()
        wire.create("orders", 3, replication_factor=len(wire.cluster.nodes))

    def begin(self, *partitions: tuple[str, int]) -> ProducerIdAndEpoch:
        """Begin a transaction with a new producer."""
        shard = self.wire.cluster.transactions.shard_for(ID)
        begun = shard.write(
            lambda machine, now_ms: machine.init_producer_id(ID, ProducerRequest(60_000), now_ms)
        )
        producer: ProducerIdAndEpoch = begun.producer  # type: ignore[union-attr]  # transactions park nothing
        shard.write(
            lambda machine, now_ms: machine.add_partitions(ID, producer, partitions, 0, now_ms)
        )
        return producer

    def end(self, producer: ProducerIdAndEpoch, *, is_commit: bool, version: int = 0) -> None:
        self.wire.cluster.transactions.shard_for(ID).write(
            lambda machine, now_ms: machine.end(
                ID,
                producer,
                is_commit=is_commit,
                client_transaction_version=version,
                now_ms=now_ms,
            )
        )

    def described_transaction(self) -> Transaction:
        """Return the coordinator's state of the id, in any shard."""
        for shard in self.wire.cluster.transactions.shards():
            for transaction in shard.machine.transactions():
                if transaction.transactional_id == ID:
                    return transaction
        raise AssertionError("the id is unknown")

    def partition(self, index: int) -> Partition:
        topic = self.wire.cluster.partitions.topic("orders")
        assert topic is not None
        partition = topic.partition(index)
        assert partition is not None
        return partition

    def markers(self, index: int) -> list[tuple[int, int, ControlMarker | None]]:
        """Return producer id, epoch and marker of each control batch of a partition."""
        log = self.partition(index).log
        return [
            (batch.producer_id, batch.producer_epoch, batch.control_marker())
            for batch in log.batches(0)
            if batch.is_control
        ]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MarkerCluster]:
    wire = TestCluster(tmp_path, config={"transaction.state.log.num.partitions": "4"})
    yield MarkerCluster(wire)
    wire.end()


@pytest.fixture
def paced(tmp_path: Path) -> Iterator[MarkerCluster]:
    """Yield a cluster of two nodes with the pace of a real Kafka."""
    config = {
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "2",
    }
    wire = TestCluster(tmp_path, 2, config, is_paced=True)
    yield MarkerCluster(wire)
    wire.end()


def assert_pending(cluster: MarkerCluster) -> None:
    """Assert that the end is decided, that no marker is written, and that the producer waits."""
    assert cluster.described_transaction().state is TransactionState.PREPARE_COMMIT
    assert cluster.markers(0) == []
    with pytest.raises(KafkaError) as refusal:
        cluster.begin(("orders", 0))
    assert refusal.value.code is ErrorCode.CONCURRENT_TRANSACTIONS


def assert_completed(cluster: MarkerCluster) -> None:
    """Assert that the markers are written once after the longest delay."""
    cluster.wire.clock.advance(LONGEST_MS)
    assert cluster.described_transaction().state is TransactionState.COMPLETE_COMMIT
    assert len(cluster.markers(0)) == 1
    assert len(cluster.wire.cluster.outbox) == 0


@pytest.mark.parametrize("version", [0, 2])
def test_markers_are_late_with_the_pace_of_kafka(paced: MarkerCluster, version: int) -> None:
    paced.end(paced.begin(("orders", 0)), is_commit=True, version=version)
    assert_pending(paced)
    assert_completed(paced)
    assert paced.begin(("orders", 0)).producer_epoch > 0


def test_late_markers_are_written_after_a_restart(paced: MarkerCluster) -> None:
    paced.end(paced.begin(("orders", 0)), is_commit=True)
    paced.wire.restart()
    assert_pending(paced)
    assert_completed(paced)


def test_late_markers_are_written_by_the_next_coordinator(paced: MarkerCluster) -> None:
    """It requests them again; the delay of the stopped one ends without an effect."""
    producer = paced.begin(("orders", 0))
    leader = paced.wire.cluster.transactions.shard_for(ID).leader_id
    paced.end(producer, is_commit=True)
    paced.wire.cluster.node_control.stop(leader)
    assert paced.wire.cluster.transactions.shard_for(ID).leader_id == 3 - leader
    assert_pending(paced)
    assert_completed(paced)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_a_transaction_is_complete_when_its_end_is_answered(
    cluster: MarkerCluster, version: int, *, is_commit: bool
) -> None:
    producer = cluster.begin(("orders", 0), ("orders", 2))
    cluster.end(producer, is_commit=is_commit, version=version)
    kind = ControlKind.COMMIT if is_commit else ControlKind.ABORT
    for index in (0, 2):
        ((producer_id, epoch, marker),) = cluster.markers(index)
        assert marker is not None
        assert (producer_id, marker.kind) == (producer.producer_id, kind)
        assert epoch == producer.producer_epoch + (version == 2)
        assert marker.coordinator_epoch == 0
    assert cluster.markers(1) == []
    complete = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    assert cluster.described_transaction().state is complete
    assert len(cluster.wire.cluster.outbox) == 0


def refuse_marker(_: Partition, marker: TransactionMarker, now_ms: int) -> int:
    raise OSError(28, "No space left on device", str((marker, now_ms)))


def test_markers_that_the_disk_refuses_are_retried(
    cluster: MarkerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, the id cannot begin another transaction."""
    producer = cluster.begin(("orders", 0), ("orders", 1))
    monkeypatch.setattr(type(cluster.partition(1)), "append_marker", refuse_marker)
    cluster.end(producer, is_commit=True)
    assert cluster.described_transaction().state is TransactionState.PREPARE_COMMIT
    with pytest.raises(KafkaError) as refusal:
        cluster.begin(("orders", 0))
    assert refusal.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    cluster.wire.clock.advance(500)
    assert len(cluster.wire.cluster.outbox) == 1
    monkeypatch.undo()
    cluster.wire.clock.advance(1_000)
    assert cluster.described_transaction().state is TransactionState.COMPLETE_COMMIT
    assert len(cluster.markers(0)) == len(cluster.markers(1)) == 1
    assert cluster.begin(("orders", 0)).producer_epoch == producer.producer_epoch + 1


def test_a_partition_without_its_marker_does_not_delay_others(
    cluster: MarkerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the others do not get their marker again while it is retried."""
    producer = cluster.begin(("orders", 0), ("orders", 1), ("orders", 2))
    failing = cluster.partition(0)
    append_marker = type(failing).append_marker

    def append_to_others(partition: Partition, marker: TransactionMarker, now_ms: int) -> int:
        if partition is failing:
            return refuse_marker(partition, marker, now_ms)
        return append_marker(partition, marker, now_ms)

    monkeypatch.setattr(type(failing), "append_marker", append_to_others)
    cluster.end(producer, is_commit=False)
    cluster.wire.clock.advance(100_000)
    assert cluster.described_transaction().state is TransactionState.PREPARE_ABORT
    assert [len(cluster.markers(index)) for index in range(3)] == [0, 1, 1]
    monkeypatch.undo()
    cluster.wire.clock.advance(30_000)
    assert cluster.described_transaction().state is TransactionState.COMPLETE_ABORT
    assert [len(cluster.markers(index)) for index in range(3)] == [1, 1, 1]
    assert len(cluster.wire.cluster.outbox) == 0


def test_markers_for_many_partitions_are_written_in_several_passes(
    cluster: MarkerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other requests are served in between, and the producer gets a retriable error."""
    monkeypatch.setattr(transaction_markers, "_PARTITIONS_PER_PASS", 2)
    producer = cluster.begin(("orders", 0), ("orders", 1), ("orders", 2))
    cluster.end(producer, is_commit=True)
    assert cluster.described_transaction().state is TransactionState.PREPARE_COMMIT
    assert [len(cluster.markers(index)) for index in range(3)] == [1, 1, 0]
    cluster.wire.clock.advance(0)
    assert cluster.described_transaction().state is TransactionState.COMPLETE_COMMIT
    assert [len(cluster.markers(index)) for index in range(3)] == [1, 1, 1]


def test_markers_are_not_written_again_when_completion_cannot_be_recorded(
    cluster: MarkerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = cluster.begin(("orders", 0))

    def refuse(*_: object) -> None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(TransactionShard, "complete_transaction", refuse)
    cluster.end(producer, is_commit=True)
    cluster.wire.clock.advance(100_000)
    assert cluster.described_transaction().state is TransactionState.PREPARE_COMMIT
    monkeypatch.undo()
    cluster.wire.clock.advance(30_000)
    assert cluster.described_transaction().state is TransactionState.COMPLETE_COMMIT
    assert len(cluster.markers(0)) == 1


def test_a_restart_writes_missing_markers(
    cluster: MarkerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = cluster.begin(("orders", 0))
    monkeypatch.setattr(type(cluster.partition(0)), "append_marker", refuse_marker)
    cluster.end(producer, is_commit=False)
    monkeypatch.undo()
    assert cluster.markers(0) == []
    cluster.wire.restart()
    assert len(cluster.markers(0)) == 1
    assert cluster.described_transaction().state is TransactionState.COMPLETE_ABORT


def test_deleted_partitions_are_skipped(cluster: MarkerCluster) -> None:
    gone = cluster.wire.create("gone")
    producer = cluster.begin(("gone", 0), ("never", 3), ("orders", 0), ("orders", 99))
    assert cluster.wire.cluster.metadata.delete_topics([gone]) == {gone: None}
    cluster.end(producer, is_commit=True)
    assert cluster.described_transaction().state is TransactionState.COMPLETE_COMMIT
    assert len(cluster.markers(0)) == 1


def test_a_transaction_stays_prepared_if_a_partition_has_a_later_producer(
    cluster: MarkerCluster,
) -> None:
    """As in Kafka: another coordinator has written markers there, and this one does not retry."""
    producer = cluster.begin(("orders", 0), ("orders", 1))
    later = producer.producer_epoch + 5
    marker = TransactionMarker(producer.producer_id, later, 0, is_commit=False)
    cluster.partition(0).append_marker(marker, 1)
    cluster.end(producer, is_commit=True)
    assert cluster.described_transaction().state is TransactionState.PREPARE_COMMIT
    assert len(cluster.wire.cluster.outbox) == 0
    assert [epoch for _, epoch, _ in cluster.markers(0)] == [later]
    assert len(cluster.markers(1)) == 1


def test_an_outdated_intent_does_not_end_a_later_transaction(cluster: MarkerCluster) -> None:
    """Before transaction version 2, the next transaction has the same epoch."""
    producer = cluster.begin(("orders", 0))
    cluster.end(producer, is_commit=True)
    shard = cluster.wire.cluster.transactions.shard_for(ID)
    shard.write(
        lambda machine, now_ms: machine.add_partitions(ID, producer, [("orders", 0)], 0, now_ms)
    )
    late = WriteMarkers(
        ID, *producer, is_commit=True, transaction_version=0, partitions=(("orders", 0),)
    )
    cluster.wire.cluster.outbox.carry_out(late)
    assert len(cluster.markers(0)) == 1
    assert cluster.described_transaction().state is TransactionState.ONGOING


def test_a_transaction_ends_although_partitions_were_added_to_its_topic(
    cluster: MarkerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a restart, its id maps to another partition, as in Kafka; its record stays."""
    producer = cluster.begin(("orders", 0))
    monkeypatch.setattr(type(cluster.partition(0)), "append_marker", refuse_marker)
    cluster.end(producer, is_commit=True)
    monkeypatch.undo()
    before = cluster.wire.cluster.transactions.partition_for(ID)
    count = next(count for count in range(5, 40) if partition_of(ID, count) != before)
    (error,) = cluster.wire.cluster.metadata.create_partitions(
        [NewPartitions(TRANSACTION_STATE_TOPIC, count)]
    )
    assert error is None
    assert cluster.wire.cluster.transactions.partition_for(ID) == before
    cluster.wire.restart()
    assert cluster.wire.cluster.transactions.partition_for(ID) != before
    assert cluster.described_transaction().state is TransactionState.COMPLETE_COMMIT
    assert len(cluster.markers(0)) == 1


def test_partitions_of_a_deleted_topic_are_skipped(
    cluster: MarkerCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = cluster.begin(("orders", 0))
    monkeypatch.setattr(type(cluster.partition(0)), "append_marker", refuse_marker)
    cluster.end(producer, is_commit=True)
    monkeypatch.undo()
    topic_id = cluster.wire.cluster.metadata.image.topics[TRANSACTION_STATE_TOPIC].topic_id
    cluster.wire.cluster.metadata.delete_topics([topic_id])
    cluster.wire.clock.advance(500)
    assert len(cluster.wire.cluster.outbox) == 0
    assert cluster.markers(0) == []
