"""FindCoordinator in all versions, and creation of the internal topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.pace import DISCOVERY_MS, READY_MS
from kafkalite.coordinator.runtime import partition_of
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.uuids import uuid_to_text
from tests.cluster.cluster import TestCluster
from tests.cluster.groups import GroupCluster
from tests.cluster.share_groups import ShareGroupCluster

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("version", range(4))
def test_a_single_key_is_answered_at_the_top_level(version: int) -> None:
    wire = GroupCluster()
    found = wire.ask(FindCoordinatorRequest(key="g"), version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "localhost", 9001)
    assert found.error_message in (None, "", "NONE")


@pytest.mark.parametrize("version", range(4, 7))
def test_several_keys_have_individual_results(version: int) -> None:
    wire = GroupCluster()
    found = wire.ask(FindCoordinatorRequest(coordinator_keys=["g", "h", ""]), version)
    assert [(each.key, each.error_code, each.node_id) for each in found.coordinators] == [
        ("g", 0, 1),
        ("h", 0, 1),
        ("", 0, 1),
    ]
    assert {each.error_message for each in found.coordinators} == {""}


def test_the_first_request_creates_the_offsets_topic_as_kafka_does() -> None:
    wire = GroupCluster(config={"offsets.topic.num.partitions": "7"})
    assert OFFSETS_TOPIC not in wire.metadata.image.topics
    wire.ask(FindCoordinatorRequest(key="g"), 3)
    image = wire.metadata.image
    assert len(image.topics[OFFSETS_TOPIC].partitions) == 7
    assert image.topics[OFFSETS_TOPIC].is_internal
    assert image.topic_config(OFFSETS_TOPIC) == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    assert len(wire.logs) == 7


def test_only_the_leader_of_the_groups_partition_is_its_coordinator() -> None:
    wire = GroupCluster(nodes=3)
    groups = [f"group-{number}" for number in range(20)]
    found = wire.ask(FindCoordinatorRequest(coordinator_keys=groups), 4)
    image = wire.metadata.image.topics[OFFSETS_TOPIC]
    for coordinator in found.coordinators:
        leader = image.partitions[partition_of(coordinator.key, 50)].leader
        assert coordinator.node_id == leader
        assert coordinator.port == 9000 + leader
        beat = HeartbeatRequest(group_id=coordinator.key, generation_id=1, member_id="m")
        for node in (1, 2, 3):
            code = wire.ask(beat, 4, node).error_code
            expected = ErrorCode.UNKNOWN_MEMBER_ID if node == leader else ErrorCode.NOT_COORDINATOR
            assert code == expected
    assert len({coordinator.node_id for coordinator in found.coordinators}) == 3


def test_no_node_is_coordinator_before_the_offsets_topic_exists() -> None:
    wire = GroupCluster()
    answer = wire.ask(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_the_offsets_topic_is_created_when_the_full_disk_has_space_again() -> None:
    wire = GroupCluster()
    wire.metadata_log.next_error = OSError(28, "no room")
    codes = [wire.ask(FindCoordinatorRequest(key="g"), 3).error_code for _ in range(2)]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]


def test_an_offsets_topic_without_enough_brokers_is_reported() -> None:
    wire = GroupCluster(config={"offsets.topic.replication.factor": "3"})
    found = wire.ask(FindCoordinatorRequest(key="g"), 3)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "3" in found.error_message
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


@pytest.mark.parametrize("version", range(1, 7))
def test_the_coordinator_of_a_transactional_id_leads_its_partition(version: int) -> None:
    wire = GroupCluster(nodes=3)
    assert TRANSACTION_STATE_TOPIC not in wire.metadata.image.topics
    found = wire.ask(FindCoordinatorRequest(key="t", key_type=1, coordinator_keys=["t"]), version)
    image = wire.metadata.image
    topic = image.topics[TRANSACTION_STATE_TOPIC]
    leader = topic.partitions[partition_of("t", 50)].leader
    answers = found.coordinators or [found]
    assert [(each.error_code, each.node_id, each.port) for each in answers] == [
        (0, leader, 9000 + leader)
    ]
    assert topic.is_internal
    assert image.topic_config(TRANSACTION_STATE_TOPIC)["cleanup.policy"] == "compact"
    assert OFFSETS_TOPIC not in image.topics


def test_a_transaction_topic_without_enough_brokers_is_reported() -> None:
    wire = GroupCluster(config={"transaction.state.log.replication.factor": "3"})
    found = wire.ask(FindCoordinatorRequest(key="t", key_type=1), 3)
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


@pytest.mark.parametrize("kind", [3, 7])
def test_an_unknown_key_type_is_refused_as_invalid_request(kind: int) -> None:
    wire = GroupCluster()
    found = wire.ask(FindCoordinatorRequest(key="k", key_type=kind), 3)
    assert found.error_code == ErrorCode.INVALID_REQUEST
    found = wire.ask(FindCoordinatorRequest(coordinator_keys=["k"], key_type=kind), 6)
    (coordinator,) = found.coordinators
    assert coordinator.error_code == ErrorCode.INVALID_REQUEST
    assert coordinator.error_message


def test_the_coordinator_of_a_share_partition_leads_its_state_partition(tmp_path: Path) -> None:
    wire = ShareGroupCluster(tmp_path, nodes=2)
    text = uuid_to_text(bytes(range(16)))
    keys = [f"g:{text}:0", f"a:b:{text}:12"]
    found = wire.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6)
    (leader,) = {p.leader for p in wire.cluster.metadata.image.topics[SHARE_STATE_TOPIC].partitions}
    assert [(each.key, each.error_code, each.node_id) for each in found.coordinators] == [
        (key, ErrorCode.NONE, leader) for key in keys
    ]
    wire.end()


@pytest.mark.parametrize(
    "key", ["", "g", "g:0", "g:id:0", "g:{id}", "g:{id}:x", ":{id}:0", "\0 :{id}:0"]
)
def test_a_share_partition_is_named_by_group_topic_id_and_index(key: str) -> None:
    key = key.replace("{id}", uuid_to_text(bytes(range(16))))
    asked = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    (found,) = GroupCluster().ask(asked, 6).coordinators
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert not found.error_message


@pytest.mark.parametrize("version", range(1, 6))
def test_earlier_versions_refuse_share_partitions(version: int) -> None:
    key = f"g:{uuid_to_text(bytes(range(16)))}:0"
    asked = FindCoordinatorRequest(key_type=2, key=key, coordinator_keys=[key])
    found = GroupCluster().ask(asked, version)
    codes = [row.error_code for row in found.coordinators] or [found.error_code]
    assert codes == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(("kind", "topic"), [(0, OFFSETS_TOPIC), (1, TRANSACTION_STATE_TOPIC)])
def test_coordinators_are_found_late_with_the_pace_of_kafka(
    tmp_path: Path, kind: int, topic: str
) -> None:
    """As in Kafka, they are not available while the internal topic is being created."""
    wire = TestCluster(tmp_path, is_paced=True)
    request = FindCoordinatorRequest(coordinator_keys=["g", "h"], key_type=kind)
    for _ in range(2):
        found = wire.ask(request, 6).coordinators
        assert [each.error_code for each in found] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    wire.clock.advance(int(DISCOVERY_MS[topic][0]) - 1)
    assert topic not in wire.cluster.metadata.image.topics
    wire.clock.advance(int(DISCOVERY_MS[topic][-1]) + 2)
    found = wire.ask(request, 6).coordinators
    assert [(each.error_code, each.node_id) for each in found] == [(ErrorCode.NONE, 1)] * 2
    # As in Kafka, the coordinator does not know at once that it is one.
    coordinator = wire.cluster.groups if kind == 0 else wire.cluster.transactions
    with pytest.raises(KafkaError) as refused:
        coordinator.locate("g", 1)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    wire.clock.advance(int(READY_MS[topic][-1]) + 1)
    assert coordinator.locate("g", 1).leader_id == 1
    wire.end()


def test_a_topic_that_cannot_be_created_late_is_tried_again(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, config={"offsets.topic.replication.factor": "3"}, is_paced=True)
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    for _ in range(2):
        (found,) = wire.ask(request, 6).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        wire.clock.advance(int(DISCOVERY_MS[OFFSETS_TOPIC][-1]) + 2)
        assert OFFSETS_TOPIC not in wire.cluster.metadata.image.topics
    wire.end()
