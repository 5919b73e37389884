"""The transaction coordinator creates its topic, applies metadata, and verifies partitions."""

from __future__ import annotations

import itertools

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.image import MetadataDelta
from kafkalite.metadata.internal_topics import TRANSACTION_STATE_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from kafkalite.transactions.coordinator import TransactionCoordinator
from kafkalite.transactions.producer_initialization import ProducerRequest
from kafkalite.transactions.state import ProducerIdAndEpoch, TransactionState
from tests.cluster.metadata import MetadataCluster
from tests.unit.transactions.transaction_coordinator import ID, A, B, ManualTransactionCoordinator

NO_PRODUCER = ProducerIdAndEpoch(1, 0)


class Stage:
    """A transaction coordinator with a controller."""

    def __init__(self) -> None:
        coordinator = MetadataCluster()
        self.metadata = coordinator.controller
        self.metadata_log = coordinator.log
        self.logs: dict[int, MemoryCoordinatorLog] = {}
        ids = itertools.count(7)
        self.coordinator = TransactionCoordinator(
            clock=ManualClock(),
            config=BrokerConfig.from_text(),
            metadata=self.metadata,
            generate_producer_id=lambda: next(ids),
            open_log=lambda index: self.logs.setdefault(index, MemoryCoordinatorLog()),
        )
        self.coordinator.on_image(self.metadata.image, MetadataDelta())
        self.metadata.subscribe(self.coordinator.on_image)


def test_topic_is_created_once() -> None:
    stage = Stage()
    with pytest.raises(KafkaError) as refusal:
        stage.coordinator.locate(ID, 1)
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    stage.coordinator.ensure_topic()
    version = stage.metadata.image.version
    stage.coordinator.ensure_topic()
    assert stage.metadata.image.version == version
    assert len(stage.metadata.image.topics[TRANSACTION_STATE_TOPIC].partitions) == 50
    assert len(stage.coordinator.shards()) == 50


def test_id_is_stored_in_the_partition_of_its_hash() -> None:
    stage = Stage()
    stage.coordinator.ensure_topic()
    partition = stage.coordinator.partition_for("transfers")
    stage.coordinator.locate("transfers", 1).write(
        lambda machine, now_ms: machine.init_producer_id(
            "transfers", ProducerRequest(1_000), now_ms
        )
    )
    assert [index for index, log in stage.logs.items() if log.entries] == [partition]
    assert stage.coordinator.shard_for("transfers").partition == partition


def test_without_a_topic_no_partition_is_verified() -> None:
    stage = Stage()
    assert stage.coordinator.verify_or_add_partitions(ID, NO_PRODUCER, [A], adds_missing=True) == {
        A: ErrorCode.COORDINATOR_NOT_AVAILABLE
    }


def test_partitions_are_verified_or_added() -> None:
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init()
    verify_or_add = coordinator.coordinator.verify_or_add_partitions
    assert verify_or_add(ID, producer, [A], adds_missing=True) == {A: ErrorCode.NONE}
    assert coordinator.describe().client_transaction_version == 2
    assert verify_or_add(ID, producer, [A, B], adds_missing=False) == {
        A: ErrorCode.NONE,
        B: ErrorCode.TRANSACTION_ABORTABLE,
    }
    zombie = producer._replace(producer_epoch=5)
    assert verify_or_add(ID, zombie, [A, B], adds_missing=True) == dict.fromkeys(
        [A, B], ErrorCode.PRODUCER_FENCED
    )
    assert verify_or_add("y", zombie, [A], adds_missing=False) == {
        A: ErrorCode.INVALID_PRODUCER_ID_MAPPING
    }
    coordinator.log.next_error = OSError(28, "no space left on device")
    assert verify_or_add(ID, producer, [B], adds_missing=True) == {B: ErrorCode.NOT_COORDINATOR}
    assert [entry.facts["error"] for entry in coordinator.events()] == [
        "PRODUCER_FENCED",
        "NOT_COORDINATOR",
    ]


def test_records_are_written_in_the_version_of_the_cluster() -> None:
    coordinator = ManualTransactionCoordinator(level=0)
    coordinator.init()
    coordinator.set_level(1)
    coordinator.init()
    versions = [value[:2] for _, value in coordinator.log.entries if value is not None]
    assert versions == [b"\0\0", b"\0\1"]


def test_intents_of_loading_are_carried_out_after_loading() -> None:
    coordinator = ManualTransactionCoordinator(writes_markers=False)
    producer = coordinator.init()
    coordinator.add(producer, A)
    coordinator.end(producer)
    # Here the intent is carried out at once, as by an outbox.
    later = coordinator.restart(writes_markers=True)
    assert [each.transactional_id for each in later.written] == [ID]
    assert later.describe().state is TransactionState.COMPLETE_COMMIT
