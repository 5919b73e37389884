"""NodeControl: the states of nodes, and the commands that are impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError, UnknownNodeError
from kafkalite.cluster.pace import Pace
from kafkalite.config.definitions import ConfigError
from kafkalite.metadata.brokers import UsedControllerIdError
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import NO_LEADER, AddedNode
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.metadata.reassignment import RequestedReassignment
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.files import FaultyFiles, MemoryFiles
from tests.cluster.cluster import TestCluster
from tests.unit.cluster.replicated import SESSION_MS, ReplicatedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.cluster.node import Node
    from kafkalite.metadata.image import MetadataDelta, MetadataImage

MANY = 1_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ReplicatedCluster]:
    cluster = ReplicatedCluster(tmp_path)
    yield cluster
    cluster.end()


def fenced(cluster: ReplicatedCluster) -> set[int]:
    brokers = cluster.cluster.metadata.image.brokers
    return {node_id for node_id, broker in brokers.items() if broker.is_fenced}


def test_a_stopped_node_is_fenced_and_receives_no_metadata(cluster: ReplicatedCluster) -> None:
    node = cluster.control.node(2)
    before = node.image
    cluster.control.stop(2)
    assert cluster.control.node(2).state is NodeState.STOPPED
    assert fenced(cluster) == {2}
    assert node.image is before
    assert node.has_stale_metadata
    cluster.control.start(2)
    assert cluster.control.node(2).state is NodeState.RUNNING
    assert fenced(cluster) == set()
    assert node.image is cluster.cluster.metadata.image
    assert not node.has_stale_metadata


def test_a_second_isolation_does_not_extend_the_session(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.clock.advance(SESSION_MS - 1)
    cluster.control.isolate(1)
    cluster.clock.advance(1)
    assert fenced(cluster) == {1}


def test_a_session_that_ended_with_the_node_does_not_expire(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.control.stop(1)
    assert cluster.control.node(1).state is NodeState.STOPPED
    cluster.control.start(1)
    version = cluster.cluster.metadata.image.version
    cluster.clock.advance(SESSION_MS)
    assert cluster.cluster.metadata.image.version == version


def test_a_node_without_connection_reaches_no_other_node(cluster: ReplicatedCluster) -> None:
    nodes = cluster.cluster.nodes
    for change in (cluster.control.isolate, cluster.control.stop):
        change(2)
        for sender, receiver in ((1, 2), (2, 1)):
            with pytest.raises(KafkaError) as refusal:
                nodes[sender].send(receiver, ApiKey.WRITE_TXN_MARKERS, None)
            assert refusal.value.code is ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize("command", ["stop", "isolate"])
def test_pending_calls_of_the_node_fail(cluster: ReplicatedCluster, command: str) -> None:
    never: Waiting[object] = Waiting()
    cluster.cluster.deliver = lambda *_: never
    pending = cluster.cluster.nodes[2].send(3, ApiKey.WRITE_TXN_MARKERS, None)
    outcomes: list[object] = []
    pending.then(outcomes.append)
    getattr(cluster.control, command)(2)
    (error,) = outcomes
    assert isinstance(error, KafkaError)
    assert error.code is ErrorCode.NETWORK_EXCEPTION


def test_metadata_stays_frozen_while_the_node_stops_and_starts(cluster: ReplicatedCluster) -> None:
    node = cluster.control.node(3)
    before = node.image
    cluster.control.freeze_metadata(3)
    cluster.control.stop(3)
    cluster.control.start(3)
    assert node.image is before
    cluster.control.isolate(3)
    cluster.control.thaw_metadata(3)
    assert node.image is before  # an isolated node receives nothing
    cluster.control.start(3)
    assert node.image is cluster.cluster.metadata.image


def test_replicas_stay_where_they_are_while_replication_is_paused(
    cluster: ReplicatedCluster,
) -> None:
    cluster.append(b"a")
    cluster.control.pause_replication(2)
    cluster.append(b"b")
    partition = cluster.partition()
    assert [partition.end_offset_of(node) for node in (1, 2, 3)] == [2, 1, 2]
    cluster.control.resume_replication(2)
    assert partition.end_offset_of(2) == 2


def test_shards_have_no_coordinator_while_their_leader_is_isolated(
    cluster: ReplicatedCluster,
) -> None:
    cluster.create_replicated(OFFSETS_TOPIC, (1, 2, 3), (2, 3, 1))

    def led() -> list[int]:
        return [shard.leader_id for shard in cluster.cluster.groups.shards()]

    assert led() == [1, 2]
    cluster.control.isolate(1)
    assert led() == [2]
    cluster.clock.advance(SESSION_MS)
    assert led() == [2, 2]
    cluster.control.start(1)
    assert led() == [2, 2]


def test_unknown_nodes_are_refused(cluster: ReplicatedCluster) -> None:
    control = cluster.control
    for command in (
        control.stop, control.start, control.isolate, control.freeze_metadata,
        control.thaw_metadata, control.pause_replication, control.resume_replication,
    ):  # fmt: skip
        with pytest.raises(UnknownNodeError, match=r"^there is no node 4: the nodes are 1, 2, 3$"):
            command(4)


@pytest.mark.parametrize("is_controlled", [False, True])
def test_all_nodes_stop_and_start(cluster: ReplicatedCluster, *, is_controlled: bool) -> None:
    stop = cluster.control.shut_down if is_controlled else cluster.control.stop
    for node_id in (3, 2, 1):
        stop(node_id)
    stopped = cluster.image()
    assert (stopped.leader, stopped.isr) == (NO_LEADER, ())
    for node_id in (3, 1, 2):
        cluster.control.start(node_id)
        # Node 1 was the last one in sync.
        assert (cluster.image().leader == 1) is (node_id != 3)
    assert set(cluster.image().isr) == {1, 2, 3}


def test_commands_without_effect_change_nothing(cluster: ReplicatedCluster) -> None:
    cluster.control.stop(2)
    version = cluster.cluster.metadata.image.version
    cluster.control.stop(2)
    cluster.control.start(1)
    cluster.control.thaw_metadata(1)
    cluster.control.resume_replication(1)
    assert cluster.cluster.metadata.image.version == version


def test_a_refusal_of_the_disk_is_repaired_by_another_call(tmp_path: Path) -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    cluster = ReplicatedCluster(tmp_path, files=files)
    files.fail_from(1, failing_steps=MANY)
    with pytest.raises(KafkaError) as refusal:
        cluster.control.stop(2)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert fenced(cluster) == set()
    files.fail_from(None)
    cluster.control.stop(2)
    assert fenced(cluster) == {2}
    files.fail_from(1, failing_steps=MANY)
    with pytest.raises(KafkaError):
        cluster.control.start(2)
    files.fail_from(None)
    cluster.control.start(2)
    assert fenced(cluster) == set()
    assert cluster.state() == (1, 0, {1, 2, 3})
    cluster.end()


def test_a_session_that_the_disk_does_not_let_expire_expires_later(tmp_path: Path) -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    cluster = ReplicatedCluster(tmp_path, files=files)
    cluster.control.isolate(2)
    files.fail_from(1, failing_steps=MANY)
    cluster.clock.advance(SESSION_MS)
    files.fail_from(None)
    assert fenced(cluster) == set()
    cluster.clock.advance(SESSION_MS)
    assert fenced(cluster) == {2}
    cluster.end()


def test_a_former_leader_that_does_not_know_the_next_one_writes_no_markers(
    cluster: ReplicatedCluster,
) -> None:
    cluster.control.freeze_metadata(1)
    assert cluster.control.node(1).partition("t", 0) is cluster.partition()
    cluster.cluster.metadata.move_leader("t", 0, 2)
    with pytest.raises(KafkaError) as refused:
        cluster.control.node(1).partition("t", 0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert cluster.control.node(2).partition("t", 0) is cluster.partition()


# Controlled shutdown


def test_a_shutdown_moves_leaders_and_leaves_no_isr(cluster: ReplicatedCluster) -> None:
    cluster.append(b"a")
    cluster.control.shut_down(1)
    assert cluster.control.node(1).state is NodeState.STOPPED
    assert fenced(cluster) == {1}
    assert cluster.state() == (2, 1, {2, 3})
    assert cluster.partition().end_offset_of(1) == 1
    cluster.append(b"b")
    assert cluster.partition().end_offset_of(1) == 1
    cluster.control.start(1)
    assert cluster.state() == (2, 1, {1, 2, 3})
    assert cluster.partition().end_offset_of(1) == 2


def test_the_node_knows_the_next_leader_before_it_stops(cluster: ReplicatedCluster) -> None:
    seen: list[tuple[NodeState, int, bool]] = []
    node = cluster.control.node(1)

    def observe(image: MetadataImage, _: MetadataDelta) -> None:
        leader = node.image.topics["t"].partitions[0].leader
        seen.append((node.state, leader, image.brokers[1].is_fenced))

    cluster.cluster.metadata.subscribe(observe)
    cluster.control.shut_down(1)
    assert seen == [(NodeState.RUNNING, 2, False), (NodeState.RUNNING, 2, True)]


def test_a_second_shutdown_changes_nothing(cluster: ReplicatedCluster) -> None:
    cluster.control.shut_down(2)
    version = cluster.cluster.metadata.image.version
    cluster.control.shut_down(2)
    assert cluster.cluster.metadata.image.version == version


@pytest.mark.parametrize("is_controlled", [True, False])
def test_a_node_remains_eligible_after_a_shutdown_only(
    tmp_path: Path, *, is_controlled: bool
) -> None:
    cluster = ReplicatedCluster(tmp_path, {"min.insync.replicas": "3"})
    (cluster.control.shut_down if is_controlled else cluster.control.stop)(3)
    assert cluster.image().elr == (3,)
    cluster.control.pause_replication(3)
    cluster.control.start(3)
    assert cluster.image().elr == ((3,) if is_controlled else ())
    cluster.end()


def test_a_shutdown_that_the_disk_refuses_is_completed_by_another_call(tmp_path: Path) -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    cluster = ReplicatedCluster(tmp_path, files=files)
    refusals = 0
    for step in range(1, MANY):
        files.fail_from(step, failing_steps=MANY)
        try:
            cluster.control.shut_down(1)
        except KafkaError:
            assert cluster.control.node(1).state is NodeState.RUNNING
            refusals += 1
        else:
            break
        finally:
            files.fail_from(None)
    assert refusals
    cluster.control.shut_down(1)
    assert fenced(cluster) == {1}
    assert cluster.state() == (2, 1, {2, 3})
    cluster.end()


def test_a_shutdown_fences_a_stopped_node_whose_fencing_the_disk_refused(tmp_path: Path) -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    cluster = ReplicatedCluster(tmp_path, files=files)
    files.fail_from(1, failing_steps=MANY)
    with pytest.raises(KafkaError):
        cluster.control.stop(1)
    files.fail_from(None)
    assert cluster.control.node(1).state is NodeState.STOPPED
    assert fenced(cluster) == set()
    cluster.control.shut_down(1)
    assert fenced(cluster) == {1}
    cluster.end()


def test_a_shutdown_that_is_cancelled_by_a_start_registers_the_node_again(
    cluster: ReplicatedCluster,
) -> None:
    cluster.cluster.metadata.begin_shutdown(1)
    assert cluster.state() == (2, 1, {2, 3})
    cluster.control.start(1)
    assert cluster.state() == (2, 1, {1, 2, 3})
    assert fenced(cluster) == set()


# Incarnations


@pytest.mark.parametrize("change", ["stop", "shut_down"])
def test_a_started_node_is_another_incarnation_with_a_new_epoch(
    cluster: ReplicatedCluster, change: str
) -> None:
    before = cluster.cluster.metadata.image.brokers[2]
    getattr(cluster.control, change)(2)
    cluster.control.start(2)
    after = cluster.cluster.metadata.image.brokers[2]
    assert (before.broker_epoch, after.broker_epoch) == (2, 4)
    assert before.incarnation_id != after.incarnation_id
    assert not after.is_shutting_down


def test_a_node_that_connects_again_is_the_same_incarnation(cluster: ReplicatedCluster) -> None:
    before = cluster.cluster.metadata.image.brokers[2]
    cluster.control.isolate(2)
    cluster.clock.advance(SESSION_MS)
    cluster.control.start(2)
    assert cluster.cluster.metadata.image.brokers[2] == before


# Added and removed nodes


def added(cluster: ReplicatedCluster, node_id: int, **settings: str) -> Node:
    texts = {name.replace("_", "."): text for name, text in settings.items()}
    return cluster.control.add(node_id, AddedNode(texts), lambda _: None)


def test_an_added_node_runs_without_partitions(cluster: ReplicatedCluster) -> None:
    version = cluster.cluster.metadata.image.version
    node = added(cluster, 4, broker_rack="b")
    assert node is cluster.control.node(4)
    assert (node.state, node.rack) == (NodeState.RUNNING, "b")
    assert node.image is cluster.cluster.metadata.image
    broker = node.image.brokers[4]
    assert (broker.broker_epoch, broker.rack, broker.is_fenced) == (4, "b", False)
    assert node.image.version == version + 2  # registered as a fenced node, and then unfenced
    assert cluster.state() == (1, 0, {1, 2, 3})
    cluster.create_replicated("u", (4, 1))
    assert cluster.state("u") == (4, 0, {1, 4})
    cluster.control.stop(4)
    assert cluster.state("u") == (1, 1, {1})


def test_a_free_id_is_used_after_the_largest_possible_one(
    monkeypatch: pytest.MonkeyPatch, cluster: ReplicatedCluster
) -> None:
    monkeypatch.setattr("kafkalite.cluster.node_control.MAX_NODE_ID", 3)
    assert cluster.control.check_new(None) == 0


def test_ids_of_added_nodes(cluster: ReplicatedCluster) -> None:
    assert cluster.control.check_new(None) == 4
    assert cluster.control.check_new(0) == 0
    for node_id, reason in (
        (2, r"^node 2 exists already$"),
        (-1, r"^a node id is a number from 0 to 2147483647, not -1$"),
        (2**31, r"not 2147483648$"),
    ):
        with pytest.raises(NodeError, match=reason):
            cluster.control.check_new(node_id)


def test_the_id_of_a_controller_that_is_no_broker_is_not_that_of_a_node(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, controller_id=2)
    control = wire.cluster.node_control
    assert control.check_new(None) == 3
    with pytest.raises(NodeError) as raised:
        control.check_new(2)
    assert str(raised.value) == "2 is the id of the controller: use another id for the node"
    wire.end()


def test_a_controller_does_not_start_with_the_id_of_an_added_node(tmp_path: Path) -> None:
    files = MemoryFiles()
    wire = TestCluster(tmp_path, files=files)
    wire.cluster.node_control.add(3000, AddedNode({}), lambda _: None)
    wire.end()
    message = r"^--controller-id 3000 is the id of a node that was added: use another id$"
    with pytest.raises(UsedControllerIdError, match=message):
        TestCluster(tmp_path, files=files, controller_id=3000)


def test_invalid_settings_add_no_node(cluster: ReplicatedCluster) -> None:
    with pytest.raises(ConfigError, match=r"^node 4: group.version cannot differ between nodes"):
        added(cluster, 4, group_version="1")
    assert list(cluster.cluster.nodes) == [1, 2, 3]
    assert added(cluster, 4).rack is None


def test_a_node_that_the_disk_refuses_is_not_added(tmp_path: Path) -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    cluster = ReplicatedCluster(tmp_path, files=files)
    files.fail_from(1, failing_steps=MANY)
    with pytest.raises(KafkaError):
        added(cluster, 4, broker_rack="b")
    files.fail_from(None)
    assert list(cluster.cluster.nodes) == [1, 2, 3]
    assert added(cluster, 4).rack is None
    cluster.end()


def test_replicas_move_to_an_added_node_and_the_former_node_is_removed(
    cluster: ReplicatedCluster,
) -> None:
    cluster.append(b"a")
    added(cluster, 4)
    with pytest.raises(
        NodeError,
        match=r"^node 1 cannot be removed: it has replicas of 1 partition, such as t-0: reassign ",
    ):
        cluster.control.check_removal(1)
    cluster.cluster.metadata.alter_reassignments([RequestedReassignment("t", 0, (4, 2, 3))])
    assert cluster.image().replicas == (4, 2, 3)
    with pytest.raises(NodeError, match=r"^node 1 is running: stop it before removing it$"):
        cluster.control.remove(1)
    cluster.control.shut_down(1)
    cluster.control.remove(1)
    assert list(cluster.cluster.nodes) == [2, 3, 4] == list(cluster.cluster.metadata.image.brokers)
    assert cluster.partition().views == {}
    cluster.append(b"b")
    assert cluster.partition().high_watermark == 2
    with pytest.raises(UnknownNodeError, match=r"^there is no node 1: the nodes are 2, 3, 4$"):
        cluster.control.start(1)


def test_added_and_removed_nodes_are_those_of_the_next_start(cluster: ReplicatedCluster) -> None:
    added(cluster, 4, broker_rack="b")
    added(cluster, 9)
    cluster.control.stop(9)
    cluster.control.remove(9)
    cluster.restart()
    nodes = cluster.cluster.nodes
    assert {node_id: node.rack for node_id, node in nodes.items()} == {
        1: None, 2: None, 3: None, 4: "b",
    }  # fmt: skip
    assert cluster.config.node_str_or_none(4, "broker.rack") == "b"
    cluster.control.stop(4)
    cluster.control.start(4)
    cluster.control.stop(4)
    cluster.control.remove(4)
    cluster.restart()
    assert list(cluster.cluster.nodes) == [1, 2, 3]


def test_an_unregistered_node_is_removed(cluster: ReplicatedCluster) -> None:
    added(cluster, 4)
    cluster.cluster.metadata.unregister_broker(4)
    cluster.control.start(4)
    assert cluster.cluster.metadata.image.brokers[4].added == AddedNode({})
    cluster.cluster.metadata.unregister_broker(4)
    cluster.control.stop(4)
    cluster.control.remove(4)
    assert list(cluster.cluster.nodes) == [1, 2, 3]


def test_the_last_running_node_is_not_removed(tmp_path: Path) -> None:
    cluster = ReplicatedCluster(tmp_path)
    cluster.cluster.metadata.delete_topics([cluster.partition().topic_id])
    cluster.control.stop(1)
    cluster.control.stop(2)
    with pytest.raises(NodeError, match=r"^node 3 cannot be removed: no other node is running$"):
        cluster.control.check_removal(3)
    cluster.control.remove(1)
    assert list(cluster.cluster.nodes) == [2, 3]
    cluster.end()


def test_all_nodes_receive_delayed_metadata_late(cluster: ReplicatedCluster) -> None:
    """A second change in the meantime is received with the first."""
    pace = Pace(cluster.clock, SeededEntropy(2))
    nodes = [cluster.control.node(node_id) for node_id in cluster.cluster.nodes]
    before = cluster.cluster.metadata.image
    for name in ("a", "b"):
        with cluster.control.metadata_delayed(pace):
            cluster.cluster.metadata.create_topics([NewTopic(name=name, partitions=1)])
    assert any(node.image is before for node in nodes)
    cluster.control.freeze_metadata(1)
    cluster.clock.advance(100)
    images = {node.id: node.image for node in nodes}
    latest = cluster.cluster.metadata.image
    assert [images[node_id] is latest for node_id in images if node_id != 1] == [True, True]
    cluster.control.thaw_metadata(1)
    assert cluster.control.node(1).image is latest


def test_a_change_without_a_delay_is_received_at_once(cluster: ReplicatedCluster) -> None:
    pace = Pace(cluster.clock, SeededEntropy(2))
    node = cluster.control.node(1)
    known = []
    for number in range(20):
        with cluster.control.metadata_delayed(pace):
            cluster.cluster.metadata.create_topics([NewTopic(name=f"t{number}", partitions=1)])
        known.append(f"t{number}" in node.image.topics)
        cluster.clock.advance(100)
    assert 1 <= sum(known) < 15
