"""DescribeQuorum, AddRaftVoter, RemoveRaftVoter and UnregisterController."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.metadata.features import METADATA_VERSION
from kafkalite.protocol._generated.messages.add_raft_voter import AddRaftVoterRequest
from kafkalite.protocol._generated.messages.describe_quorum import DescribeQuorumRequest
from kafkalite.protocol._generated.messages.remove_raft_voter import RemoveRaftVoterRequest
from kafkalite.protocol._generated.messages.unregister_controller import (
    UnregisterControllerRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.uuids import ZERO_UUID, uuid_to_text
from tests.cluster.cluster import TestCluster

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

METADATA = "__cluster_metadata"
DIRECTORY = bytes(range(16))
DIRECTORY_TEXT = "AAECAwQFBgcICQoLDA0ODw"
Topic, Partition = DescribeQuorumRequest.TopicData, DescribeQuorumRequest.PartitionData
Listener = AddRaftVoterRequest.Listener


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster of two nodes."""
    wire = TestCluster(tmp_path, nodes=2)
    yield wire
    wire.end()


def of(*topics: tuple[str, Sequence[int]]) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[
            Topic(topic_name=name, partitions=[Partition(partition_index=each) for each in indexes])
            for name, indexes in topics
        ]
    )


def voter_text(wire: TestCluster) -> str:
    """Return the only voter as in Kafka's texts."""
    (voter,) = wire.ask(of((METADATA, [0])), 2, node=2).topics[0].partitions[0].current_voters
    directory = uuid_to_text(voter.replica_directory_id)
    return f"ReplicaKey(id={voter.replica_id}, directoryId={directory})"


def test_the_metadata_partition_is_described_at_every_node(wire: TestCluster) -> None:
    wire.cluster.nodes[1].set_endpoint("CONTROLLER", "controller.test", 9093)
    now_ms, end = wire.clock.now_ms(), wire.cluster.metadata.image.version
    for node in (1, 2):
        answer = wire.ask(of((METADATA, [0])), 2, node)
        assert (answer.error_code, answer.error_message) == (0, "")
        (topic,) = answer.topics
        (partition,) = topic.partitions
        assert (topic.topic_name, partition.partition_index) == (METADATA, 0)
        assert (partition.error_code, partition.error_message) == (0, "")
        assert (partition.leader_id, partition.leader_epoch) == (1, 1)
        assert partition.high_watermark == end
        rows = [
            (each.replica_id, each.log_end_offset, each.last_fetch_timestamp)
            for each in (*partition.current_voters, *partition.observers)
        ]
        assert rows == [(1, end, now_ms), (2, end, now_ms)]
        ((voter, (listener,)),) = ((each.node_id, each.listeners) for each in answer.nodes)
        assert (voter, listener.name, listener.host, listener.port) == (
            1, "CONTROLLER", "controller.test", 9093,
        )  # fmt: skip


def test_earlier_versions_have_fewer_fields(wire: TestCluster) -> None:
    now_ms = wire.clock.now_ms()
    for version, timestamp in ((0, -1), (1, now_ms)):
        answer = wire.ask(of((METADATA, [0])), version)
        (voter,) = answer.topics[0].partitions[0].current_voters
        assert voter.replica_directory_id == ZERO_UUID
        assert (voter.last_fetch_timestamp, voter.last_caught_up_timestamp) == (
            timestamp, timestamp,
        )  # fmt: skip
        assert answer.nodes == []


def test_voter_without_a_listener_for_controllers_has_none(wire: TestCluster) -> None:
    (node,) = wire.ask(of((METADATA, [0])), 2).nodes
    assert (node.node_id, node.listeners) == (1, [])


@pytest.mark.parametrize(
    "topics",
    [
        [("t", [0])],
        [(METADATA, [1])],
        [(METADATA, [0, 1])],
        [(METADATA, [0, 0])],
        [(METADATA, [0]), ("t", [0])],
        [(METADATA, [])],
        [],
    ],
)
def test_other_partitions_are_unknown(
    wire: TestCluster, topics: list[tuple[str, Sequence[int]]]
) -> None:
    answer = wire.ask(of(*topics), 2)
    assert answer.error_code == 0
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [
        (topic.topic_name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.topics
    ] == [(name, [(index, code) for index in indexes]) for name, indexes in topics]
    assert answer.nodes == []


def add(wire: TestCluster, **fields: Any) -> tuple[int, str | None]:  # noqa: ANN401 - any fields
    """Return the error of a request for another voter; `fields` replace those of a valid one."""
    valid: Mapping[str, Any] = {
        "cluster_id": "cluster",
        "voter_id": 7,
        "voter_directory_id": DIRECTORY,
        "listeners": [Listener(name="controller", host="h", port=1)],
    }
    answers = [wire.ask(AddRaftVoterRequest(**{**valid, **fields}), each) for each in (0, 1)]
    (error,) = {(answer.error_code, answer.error_message) for answer in answers}
    return error


def test_a_voter_of_another_cluster_is_refused(wire: TestCluster) -> None:
    error = (
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        'The given id "x" doesn\'t match the cluster id "cluster"',
    )
    assert add(wire, cluster_id="x", voter_id=-1) == error
    answer = wire.ask(RemoveRaftVoterRequest(cluster_id="x"), 0)
    assert (answer.error_code, answer.error_message) == error


@pytest.mark.parametrize("fields", [{"voter_id": -1}, {"voter_directory_id": ZERO_UUID}])
def test_an_incomplete_voter_is_invalid(wire: TestCluster, fields: dict[str, Any]) -> None:
    assert add(wire, **fields, listeners=[]) == (
        ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter",
    )  # fmt: skip
    valid: dict[str, Any] = {"cluster_id": None, "voter_id": 7, "voter_directory_id": DIRECTORY}
    answer = wire.ask(RemoveRaftVoterRequest(**{**valid, **fields}), 0)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter",
    )  # fmt: skip


def test_a_voter_needs_an_endpoint_for_controllers(wire: TestCluster) -> None:
    text = (
        "Add voter request didn't include the endpoint (Endpoints(endpoints={{{}}})) for the "
        "default listener ListenerName(CONTROLLER)"
    )
    assert add(wire, listeners=[]) == (ErrorCode.INVALID_REQUEST, text.format(""))
    others = [Listener(name="b", host="127.0.0.1", port=1), Listener(name="a", host="h", port=2)]
    endpoints = "ListenerName(A)=h/<unresolved>:2, ListenerName(B)=127.0.0.1/<unresolved>:1"
    assert add(wire, listeners=others) == (ErrorCode.INVALID_REQUEST, text.format(endpoints))


@pytest.mark.parametrize("length", [8, 5_000])
def test_the_first_of_too_many_endpoints_are_named(wire: TestCluster, length: int) -> None:
    endpoints = [Listener(name=f"{n:0{length}}", host="h", port=n) for n in range(3_000)]
    code, text = add(wire, listeners=endpoints)
    assert code == ErrorCode.INVALID_REQUEST
    assert text is not None
    assert f"ListenerName({0:0{length}})=h/<unresolved>:0" in text
    assert len(text) < 17 * (length + 40)


def test_the_id_of_the_voter_is_a_duplicate(wire: TestCluster) -> None:
    code, text = add(wire, cluster_id=None, voter_id=1)
    assert code == ErrorCode.DUPLICATE_VOTER
    assert text == (
        f"The voter id for ReplicaKey(id=1, directoryId={DIRECTORY_TEXT}) is already part of the "
        f"set of voters [{voter_text(wire)}]."
    )


def test_a_voter_that_cannot_be_reached_is_not_added(wire: TestCluster) -> None:
    aborted = "Aborted add voter operation for"
    unreachable = f"{aborted} since API_VERSIONS returned an error BROKER_NOT_AVAILABLE"
    assert add(wire) == (ErrorCode.REQUEST_TIMED_OUT, unreachable)
    wire.cluster.nodes[1].set_endpoint("CONTROLLER", "h", 1)
    lagging = f"ReplicaKey(id=7, directoryId={DIRECTORY_TEXT}) since it is lagging behind"
    assert add(wire) == (ErrorCode.REQUEST_TIMED_OUT, f"{aborted} {lagging}")


@pytest.mark.parametrize(("voter_id", "directory"), [(1, DIRECTORY), (7, DIRECTORY), (1, None)])
def test_no_voter_can_be_removed(wire: TestCluster, voter_id: int, directory: bytes | None) -> None:
    voter = f"ReplicaKey(id={voter_id}, directoryId={DIRECTORY_TEXT})"
    if directory is None:
        voter = voter_text(wire)
        answer = wire.ask(of((METADATA, [0])), 2)
        directory = answer.topics[0].partitions[0].current_voters[0].replica_directory_id
    request = RemoveRaftVoterRequest(
        cluster_id="cluster", voter_id=voter_id, voter_directory_id=directory
    )
    answer = wire.ask(request, 0)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.VOTER_NOT_FOUND,
        f"Cannot remove voter {voter} from the set of voters [{voter_text(wire)}]",
    )


def test_fixed_voters_cannot_be_changed(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, config={"controller.quorum.voters": "1@localhost:9093"})
    text = "Cluster doesn't support {} voter because the kraft.version feature is 0"
    assert add(wire, voter_id=1) == (ErrorCode.UNSUPPORTED_VERSION, text.format("adding"))
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=1, voter_directory_id=DIRECTORY)
    answer = wire.ask(request, 0)
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.UNSUPPORTED_VERSION, text.format("removing"),
    )  # fmt: skip
    wire.end()


def unregister(wire: TestCluster, controller_id: int) -> tuple[int, str | None]:
    answer = wire.ask(UnregisterControllerRequest(controller_id=controller_id), 0)
    return answer.error_code, answer.error_message


def test_the_active_controller_and_unknown_ones_are_not_unregistered(wire: TestCluster) -> None:
    image = wire.cluster.metadata.image
    levels = {**image.features, METADATA_VERSION: 33}
    wire.cluster.metadata._image = image._replace(features=levels)
    assert unregister(wire, 1) == (
        ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.",
    )  # fmt: skip
    for controller_id in (2, 99, -1):
        assert unregister(wire, controller_id) == (
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {controller_id} is not currently registered.",
        )


def test_controllers_are_not_unregistered_at_an_earlier_metadata_version(
    wire: TestCluster,
) -> None:
    image = wire.cluster.metadata.image
    levels = {**image.features, METADATA_VERSION: 32}
    wire.cluster.metadata._image = image._replace(features=levels)
    assert unregister(wire, 2) == (
        ErrorCode.UNSUPPORTED_VERSION,
        "The current MetadataVersion is too old to support controller unregistration.",
    )
    assert unregister(wire, 1)[0] == ErrorCode.INVALID_REQUEST
