"""NodeControl: the states of nodes, and the commands that are impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.node import NodeState
from kafkalite.cluster.node_control import NodeError, UnknownNodeError
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.testing.files import FaultyFiles, MemoryFiles
from tests.unit.cluster.replicated import SESSION_MS, ReplicatedCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def test_an_isolated_node_is_fenced_when_its_session_expires(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.clock.advance(SESSION_MS - 1)
    assert fenced(cluster) == set()
    cluster.clock.advance(1)
    assert fenced(cluster) == {1}
    assert cluster.state() == (2, 1, {2, 3})
    cluster.control.start(1)
    assert fenced(cluster) == set()
    assert cluster.state() == (2, 1, {1, 2, 3})


def test_a_node_that_connects_again_in_time_is_not_fenced(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.control.start(1)
    cluster.clock.advance(SESSION_MS)
    assert fenced(cluster) == set()


def test_a_second_isolation_does_not_extend_the_session(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.clock.advance(SESSION_MS - 1)
    cluster.control.isolate(1)
    cluster.clock.advance(1)
    assert fenced(cluster) == {1}


def test_a_session_that_ended_with_the_node_does_not_expire(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.control.stop(1)
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


def test_frozen_metadata_is_replaced_when_the_node_is_thawed(cluster: ReplicatedCluster) -> None:
    node = cluster.control.node(3)
    before = node.image
    cluster.control.freeze_metadata(3)
    cluster.create("u")
    assert node.image is before
    cluster.control.thaw_metadata(3)
    assert "u" in node.image.topics


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


def test_the_last_running_node_stays(cluster: ReplicatedCluster) -> None:
    cluster.control.isolate(1)
    cluster.control.stop(2)
    with pytest.raises(NodeError, match=r"^node 3 cannot be stopped: no other node is running$"):
        cluster.control.stop(3)
    with pytest.raises(NodeError, match=r"^node 3 cannot be isolated: no other node is running$"):
        cluster.control.isolate(3)
    with pytest.raises(NodeError, match=r"^node 2 is stopped: start it before isolating it$"):
        cluster.control.isolate(2)
    cluster.control.stop(1)
    assert cluster.control.node(1).state is NodeState.STOPPED


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
