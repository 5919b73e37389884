"""The share coordinator locates the shard of a state, and creates its topic."""

from __future__ import annotations

from typing import NoReturn

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import MetadataDelta
from kafkalite.metadata.internal_topics import SHARE_STATE_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.shares.coordinator import ShareCoordinator
from kafkalite.shares.state import ShareKey
from kafkalite.testing.clock import ManualClock
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.cluster.metadata import MetadataCluster
from tests.unit.shares.share_coordinator import KEY, ManualShareCoordinator, change, topic_image

PRUNE_MS = 300_000


def no_log(index: int) -> NoReturn:
    """Raise: nothing is pruned here."""
    raise OSError(5, "input/output error", f"__share_group_state-{index}")


class Stage:
    """A share coordinator with a controller."""

    def __init__(self) -> None:
        coordinator = MetadataCluster()
        self.metadata = coordinator.controller
        self.metadata_log = coordinator.log
        self.logs: dict[int, MemoryCoordinatorLog] = {}
        self.coordinator = ShareCoordinator(
            clock=ManualClock(),
            config=BrokerConfig.from_text(),
            metadata=self.metadata,
            open_log=lambda index: self.logs.setdefault(index, MemoryCoordinatorLog()),
            prunable_log=no_log,
        )
        self.coordinator.on_image(self.metadata.image, MetadataDelta())
        self.metadata.subscribe(self.coordinator.on_image)


def test_topic_is_created_once_with_kafkas_settings() -> None:
    stage = Stage()
    with pytest.raises(KafkaError) as refusal:
        stage.coordinator.summary(*KEY)
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR
    stage.coordinator.ensure_topic()
    version = stage.metadata.image.version
    stage.coordinator.ensure_topic()
    assert stage.metadata.image.version == version
    assert len(stage.metadata.image.topics[SHARE_STATE_TOPIC].partitions) == 50
    assert stage.metadata.image.topic_config(SHARE_STATE_TOPIC) == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": "104857600",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
    }
    assert len(stage.coordinator.shards()) == 50


def test_state_is_stored_in_the_partition_of_its_key() -> None:
    stage = Stage()
    stage.coordinator.ensure_topic()
    (creation,) = stage.metadata.create_topics([NewTopic(name="t", partitions=3)])
    assert creation.error is None
    topic_id = stage.metadata.image.topics["t"].topic_id
    key = ShareKey("g", topic_id, 2)
    stage.coordinator.initialize_state(*key, state_epoch=1, start_offset=4)
    home = stage.coordinator.partition_for_share(*key)
    assert home == stage.coordinator.partition_for(f"g:{uuid_to_text(topic_id)}:2")
    assert [index for index, log in stage.logs.items() if log.entries] == [home]
    stage.metadata.delete_topics([topic_id])
    assert len(stage.logs[home].entries) == 2


def test_superseded_records_are_pruned() -> None:
    coordinator = ManualShareCoordinator(topics=[topic_image("t", 4)])
    for index in range(4):
        coordinator.initialize(KEY._replace(partition=index))
    for offset in range(1_500):
        coordinator.coordinator.write_state(KEY, change((offset, offset, 2, 1), start=offset))
    states = coordinator.machine.states()
    coordinator.clock.advance(PRUNE_MS)
    assert len(coordinator.log.entries) == 4
    stored = coordinator.restart().machine.states()
    assert stored.keys() == states.keys()
    assert stored == coordinator.machine.states()
    assert [(state.start_offset, state.batches) for state in stored.values()] == [
        (state.start_offset, state.batches) for state in states.values()
    ]
    # A few superseded records are not pruned.
    coordinator.coordinator.write_state(KEY, change((1_500, 1_500, 2, 1)))
    coordinator.clock.advance(PRUNE_MS)
    assert len(coordinator.log.entries) == 5


def test_failed_pruning_is_retried_in_the_next_round() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    for offset in range(1_500):
        coordinator.coordinator.write_state(KEY, change((offset, offset, 2, 1), start=offset))
    coordinator.clock.advance(PRUNE_MS - 1)
    coordinator.log.next_error = OSError(28, "no space left on device")
    coordinator.clock.advance(1)
    assert len(coordinator.log.entries) > 1_500
    coordinator.clock.advance(PRUNE_MS)
    assert len(coordinator.log.entries) <= 2


def test_a_coordinator_that_stops_prunes_no_more() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    coordinator.coordinator.stop()
    assert coordinator.clock.next_deadline_ms is None
