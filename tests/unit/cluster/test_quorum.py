"""The quorum: the controller is its leader, and other nodes are observers that may lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.log_directories import DirectoryIds
from kafkalite.cluster.node import NodeState
from kafkalite.cluster.quorum import (
    OBSERVER_SESSION_TIMEOUT_MS,
    Replica,
    controller_listener,
    controller_node,
    describe_quorum,
    voter_key,
)
from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.topic_names import METADATA_TOPIC
from kafkalite.ports.files import OsFiles
from kafkalite.protocol._generated.records.no_op import NoOpRecord
from kafkalite.protocol.codec import encode_metadata_record
from kafkalite.protocol.uuids import ZERO_UUID
from kafkalite.storage.batch import BatchView, build_batch
from kafkalite.storage.data_directory import CLEAN_SHUTDOWN_FILE, START_OFFSETS_FILE
from kafkalite.storage.record_format import NewRecord
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster of three nodes."""
    wire = TestCluster(tmp_path, nodes=3)
    yield wire
    wire.end()


def observers(wire: TestCluster) -> dict[int, tuple[int, int, int]]:
    """Return the lag of each observer, and the ages of its last fetch and of its last state."""
    quorum, now_ms = describe_quorum(wire.cluster), wire.clock.now_ms()
    return {
        each.key.node_id: (
            quorum.voter.log_end_offset - each.log_end_offset,
            now_ms - each.last_fetch_ms,
            now_ms - each.last_caught_up_ms,
        )
        for each in quorum.observers
    }


def test_the_controller_is_the_leader_and_the_only_voter(wire: TestCluster) -> None:
    wire.clock.advance(700)
    quorum, end = describe_quorum(wire.cluster), wire.cluster.metadata.image.version
    assert (quorum.leader_id, quorum.leader_epoch, quorum.high_watermark) == (1, 1, end)
    now_ms = wire.clock.now_ms()
    assert quorum.voter == Replica(voter_key(wire.cluster), end, now_ms, now_ms)
    assert observers(wire) == {2: (0, 0, 0), 3: (0, 0, 0)}


def test_a_controller_with_an_id_of_its_own_is_no_broker(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, nodes=2, controller_id=3000)
    quorum = describe_quorum(wire.cluster)
    assert (quorum.leader_id, quorum.voter.key) == (3000, voter_key(wire.cluster))
    assert observers(wire) == {1: (0, 0, 0), 2: (0, 0, 0)}
    log = wire.cluster.partitions.logs()[METADATA_TOPIC, 0]
    end = log.end_offset
    wire.cluster.node_control.stop(1)
    assert log.end_offset > end
    assert describe_quorum(wire.cluster).leader_id == 3000
    wire.end()


def test_the_epoch_of_a_log_that_kafka_has_written_does_not_decrease(wire: TestCluster) -> None:
    now_ms = wire.clock.now_ms()
    no_operation = encode_metadata_record(NoOpRecord(), 0)
    batch = build_batch([NewRecord(None, no_operation, now_ms)])
    log = wire.cluster.partitions.logs()[METADATA_TOPIC, 0]
    log.append([BatchView(batch)], leader_epoch=5, now_ms=now_ms)
    wire.restart()
    assert describe_quorum(wire.cluster).leader_epoch == 5
    wire.create("t")
    log = wire.cluster.partitions.logs()[METADATA_TOPIC, 0]
    assert [epoch for epoch, _ in log.epochs.entries] == [1, 5]


def test_a_log_without_its_beginning_is_refused(tmp_path: Path) -> None:
    files = OsFiles()
    TestCluster(tmp_path, files=files).end()
    (tmp_path / START_OFFSETS_FILE).write_text(f"0\n1\n{METADATA_TOPIC} 0 3\n")
    with pytest.raises(OSError, match="begins at offset 3: the earlier records are in a snapshot"):
        TestCluster(tmp_path, files=files)
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


def test_directories_have_different_ids_that_do_not_change(wire: TestCluster) -> None:
    def directories() -> list[bytes]:
        quorum = describe_quorum(wire.cluster)
        return [each.key.directory_id for each in (quorum.voter, *quorum.observers)]

    before = directories()
    assert len({*before, ZERO_UUID}) == 4
    assert {len(each) for each in before} == {16}
    wire.restart()
    assert directories() == before


def test_the_directory_of_the_first_node_is_that_of_its_meta_properties(wire: TestCluster) -> None:
    properties = {"node.id": "2", "directory.id": "AAECAwQFBgcICQoLDA0ODw"}
    wire.cluster.directory_ids = DirectoryIds(wire.cluster.id, properties)
    quorum = describe_quorum(wire.cluster)
    directories = {each.key.node_id: each.key.directory_id for each in quorum.observers}
    assert directories[2] == bytes(range(16))
    assert directories[3] != bytes(range(16))


@pytest.mark.parametrize("action", ["stop", "shut_down", "isolate", "freeze_metadata"])
def test_a_node_without_metadata_is_a_lagging_observer(wire: TestCluster, action: str) -> None:
    control = wire.cluster.node_control
    getattr(control, action)(3)
    behind = wire.cluster.metadata.image.version - wire.cluster.nodes[3].image.version
    wire.create("orders")
    lag = wire.cluster.metadata.image.version - wire.cluster.nodes[3].image.version
    assert lag > behind
    wire.clock.advance(4_000)
    assert observers(wire)[3] == (lag, 4_000, 4_000)
    assert observers(wire)[2] == (0, 0, 0)
    (control.thaw_metadata if action == "freeze_metadata" else control.start)(3)
    assert observers(wire)[3] == (0, 0, 0)


def test_a_frozen_node_that_stops_lags_since_it_was_frozen(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.freeze_metadata(2)
    wire.clock.advance(1_000)
    control.isolate(2)
    wire.clock.advance(1_000)
    control.start(2)
    assert observers(wire)[2][1:] == (2_000, 2_000)
    control.thaw_metadata(2)
    assert observers(wire)[2] == (0, 0, 0)


def test_an_observer_is_forgotten_five_minutes_after_its_last_fetch(wire: TestCluster) -> None:
    wire.cluster.node_control.stop(2)
    wire.clock.advance(OBSERVER_SESSION_TIMEOUT_MS - 1)
    assert list(observers(wire)) == [2, 3]
    wire.clock.advance(1)
    assert list(observers(wire)) == [3]
    wire.cluster.node_control.start(2)
    assert list(observers(wire)) == [2, 3]


def test_another_node_leads_after_the_controller_stopped(wire: TestCluster) -> None:
    wire.cluster.node_control.stop(1)
    quorum = describe_quorum(wire.cluster)
    assert (quorum.leader_id, quorum.voter.key.node_id) == (2, 2)
    assert list(observers(wire)) == [1, 3]


def test_an_unregistered_controller_remains_the_leader(wire: TestCluster) -> None:
    for node_id in (1, 2, 3):
        wire.cluster.metadata.unregister_broker(node_id)
    assert controller_node(wire.cluster).id == 1
    wire.cluster.nodes[1].state = NodeState.STOPPED
    assert controller_node(wire.cluster).id == 2


def test_an_unregistered_node_does_not_lead_in_place_of_stopped_ones(wire: TestCluster) -> None:
    wire.cluster.metadata.unregister_broker(3)
    for node_id in (1, 2):
        wire.cluster.node_control.stop(node_id)
    assert controller_node(wire.cluster).id == 2


def test_the_last_controller_is_named_when_all_nodes_have_stopped(wire: TestCluster) -> None:
    for node_id in (2, 3, 1):
        wire.cluster.node_control.stop(node_id)
    assert controller_node(wire.cluster).id == 1
    wire.cluster.node_control.start(3)
    wire.cluster.node_control.stop(3)
    assert controller_node(wire.cluster).id == 3


def test_fixed_voters_have_no_directory(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, config={"controller.quorum.voters": "1@localhost:9093"})
    assert describe_quorum(wire.cluster).voter.key == (1, ZERO_UUID)
    wire.end()


def test_the_listener_of_controllers_is_the_first_of_its_setting() -> None:
    def listener(names: str) -> str:
        return controller_listener(BrokerConfig.from_text({"controller.listener.names": names}))

    assert listener("c,other") == "C"
    assert controller_listener(BrokerConfig.from_text()) == "CONTROLLER"
    assert controller_listener(BrokerConfig.from_text(defaults="kafka")) == "CONTROLLER"
