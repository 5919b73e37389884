"""StreamsGroupHeartbeat and StreamsGroupDescribe: validation of fields, and responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.groups.streams import APIS
from kafkalite.cluster.pace import AUTO_CREATION_MS
from kafkalite.groups.streams.status import StatusCode
from kafkalite.metadata.creation import MAX_PARTITIONS_PER_REQUEST, NewTopic
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, auto_created_topic
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from kafkalite.protocol._generated.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.cluster.groups import GroupCluster
from tests.scenarios.streams_coordinator import Request, internal, reading, tasks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

HEARTBEAT, DESCRIBE, UPDATE_DESCRIPTION = APIS


def request(**named: Any) -> StreamsGroupHeartbeatRequest:  # noqa: ANN401
    """Return a heartbeat that joins, with these fields changed."""
    join: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 1_000,
        "topology": Request.Topology(subtopologies=[reading("in")]),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
    }
    join.update(named)
    return StreamsGroupHeartbeatRequest(**join)


def wire(config: Mapping[str, str] | None = None, as_version: str | None = None) -> GroupCluster:
    """Return a broker with a topic `in` of three partitions."""
    made = GroupCluster(config=config, as_version=as_version)
    made.create("in", 3)
    made.create("__consumer_offsets", 2)
    return made


def heartbeat(to: GroupCluster, **named: Any) -> StreamsGroupHeartbeatResponse:  # noqa: ANN401
    response = to.ask(request(**named), 0)
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    return response


def describe(to: GroupCluster, *groups: str) -> StreamsGroupDescribeResponse:
    response = to.ask(
        StreamsGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=True), 0
    )
    assert isinstance(response, StreamsGroupDescribeResponse)
    return response


def topology(*subtopologies: Request.Subtopology) -> Request.Topology:
    return Request.Topology(subtopologies=list(subtopologies))


@pytest.mark.parametrize(
    "named",
    [
        {"member_id": " "},
        {"rack_id": " "},
        {"standby_tasks": tasks({"0": [0]})},
        {"member_epoch": 5},
        {"member_epoch": 5, "topology": None, "active_tasks": None},
    ],
)
def test_invalid_fields_are_refused_as_invalid_request(named: dict[str, Any]) -> None:
    broker = wire()
    response = heartbeat(broker, **named)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.error_message
    assert describe(broker, "g").groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "named", [{"instance_id": "i"}, {"task_offsets": []}, {"task_end_offsets": []}]
)
def test_static_members_and_offsets_need_kafka_4_4(named: dict[str, Any]) -> None:
    assert heartbeat(wire(as_version="4.3"), **named).error_code == ErrorCode.INVALID_REQUEST
    assert heartbeat(wire(), **named).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "wrong",
    [
        topology(reading("in", repartition_sink_topics=["no good"])),
        topology(reading("in", state_changelog_topics=[internal("")])),
        topology(reading("in", repartition_source_topics=[internal("a" * 250)])),
    ],
)
def test_topologies_with_invalid_topic_names_are_refused(wrong: Request.Topology) -> None:
    broker = wire()
    response = heartbeat(broker, topology=wrong)
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert describe(broker, "g").groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_member_joins_and_is_described() -> None:
    broker = wire()
    joined = heartbeat(broker)
    assert (joined.error_code, joined.member_id, joined.member_epoch) == (0, "m", 2)
    (group,) = describe(broker, "g").groups
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert group.authorized_operations == 0b1101_0100_1000


@pytest.mark.parametrize(
    ("topics", "configs", "are_created"),
    [
        (MAX_PARTITIONS_PER_REQUEST // 4, {}, True),
        (MAX_PARTITIONS_PER_REQUEST // 4 + 1, {}, False),
        (MAX_PARTITIONS_PER_REQUEST // 4, {"cleanup.policy": "compact"}, False),
        (MAX_PARTITIONS_PER_REQUEST // 3 + 1, {}, False),
    ],
)
def test_too_many_internal_topics_are_not_created(
    topics: int,
    configs: dict[str, str],
    are_created: bool,  # noqa: FBT001
) -> None:
    """One request creates up to 10,000 topics, partitions and settings; each topic has three."""
    broker = wire()
    stores = [internal(f"store-{number}", configs=configs) for number in range(topics)]
    joined = heartbeat(broker, topology=topology(reading("in", state_changelog_topics=stores)))
    assert joined.status is not None
    (status,) = joined.status
    assert status.status_code == StatusCode.MISSING_INTERNAL_TOPICS
    reason = "created: store-0 (Excessively large number of partitions per request.)"
    assert (reason in status.status_detail) is not are_created
    assert ("store-0" in broker.metadata.image.topics) is are_created


def test_internal_topics_are_created_with_the_requested_settings() -> None:
    broker = wire()
    store = internal("store", replicas=1, configs={"cleanup.policy": "compact"})
    topology_of_store = topology(reading("in", state_changelog_topics=[store]))
    joined = heartbeat(broker, topology=topology_of_store)
    assert joined.status is not None
    assert [status.status_code for status in joined.status] == [3]
    image = broker.metadata.image
    assert len(image.topics["store"].partitions) == 3
    assert image.topic_config("store") == {"cleanup.policy": "compact"}
    broker.clock.advance(1_000)
    later = heartbeat(broker, member_epoch=2, topology=None)
    assert (later.status, later.member_epoch) == ([], 3)
    assert later.active_tasks is not None
    assert later.active_tasks[0].partitions == [0, 1, 2]


def test_failed_creation_of_internal_topics_is_reported_with_the_reason() -> None:
    broker = wire()
    store = internal("store", configs={"nonsense": "x"})
    joined = heartbeat(broker, topology=topology(reading("in", state_changelog_topics=[store])))
    assert joined.status is not None
    (status,) = joined.status
    assert status.status_code == 3
    assert "store (" in status.status_detail
    (event,) = [each for each in broker.history.about("g") if each.kind == "topics"]
    assert event.text.startswith("internal topics could not be created: store (")
    assert "store" not in broker.metadata.image.topics


def test_internal_topics_are_created_late_with_the_pace_of_kafka(tmp_path: Path) -> None:
    broker = TestCluster(tmp_path, is_paced=True)
    broker.cluster.metadata.create_topics(
        [auto_created_topic(OFFSETS_TOPIC, broker.config), NewTopic(name="in", partitions=3)]
    )

    def beat(**named: Any) -> StreamsGroupHeartbeatResponse:  # noqa: ANN401 - any field
        response = broker.ask(request(**named), 0)
        assert isinstance(response, StreamsGroupHeartbeatResponse)
        return response

    stores = [internal("store"), internal("other")]
    joined = beat(topology=topology(reading("in", state_changelog_topics=stores)))
    assert joined.status is not None
    assert [status.status_code for status in joined.status] == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert "could not be created" not in joined.status[0].status_detail
    image = broker.cluster.metadata.image
    assert "store" not in image.topics
    broker.create("other", 3)
    broker.clock.advance(int(AUTO_CREATION_MS[-1]) + 1)
    assert len(broker.cluster.metadata.image.topics["store"].partitions) == 3
    events = [each for each in broker.cluster.history.about("g") if each.kind == "topics"]
    assert [event.text for event in events] == ["internal topics created: store"]
    broker.clock.advance(1_000)
    assert beat(member_epoch=2, topology=None).status == []
    broker.end()


def test_topics_that_cannot_be_created_late_are_reported_at_once(tmp_path: Path) -> None:
    broker = TestCluster(tmp_path, is_paced=True)
    broker.cluster.metadata.create_topics(
        [auto_created_topic(OFFSETS_TOPIC, broker.config), NewTopic(name="in", partitions=3)]
    )
    store = internal("store", configs={"nonsense": "x"})
    joined = broker.ask(
        request(topology=topology(reading("in", state_changelog_topics=[store]))), 0
    )
    (status,) = joined.status
    assert "could not be created: store (" in status.status_detail
    broker.end()


@pytest.mark.parametrize(
    "config",
    [{"group.coordinator.rebalance.protocols": "classic,consumer"}, {"streams.version": "0"}],
)
def test_streams_apis_return_unsupported_version_if_the_protocol_is_disabled(
    config: dict[str, str],
) -> None:
    broker = wire(config)
    assert heartbeat(broker).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert describe(broker, "g").groups[0].error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_longest_possible_member_id_is_accepted() -> None:
    broker = wire()
    before = heartbeat(broker)
    long = heartbeat(broker, member_id="m" * 32_767, member_epoch=7, topology=None)
    assert long.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat(broker, member_epoch=2, topology=None).member_epoch == before.member_epoch


PLUGIN = {
    "group.streams.topology.description.plugin.class": (
        "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
    )
}


def update(**named: Any) -> StreamsGroupTopologyDescriptionUpdateRequest:  # noqa: ANN401
    sent = StreamsGroupTopologyDescriptionUpdateRequest
    node = sent.TopologyDescriptionNode(name="source", node_type=1, source_topics=["in"])
    subtopology = sent.TopologyDescriptionSubtopology(subtopology_id="0", nodes=[node])
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": "m",
        "topology_epoch": 0,
        "topology_description": sent.TopologyDescription(subtopologies=[subtopology]),
    }
    return sent(**{**fields, **named})


def description_status(to: GroupCluster, version: int = 1) -> int:
    response = to.ask(
        StreamsGroupDescribeRequest(group_ids=["g"], include_topology_description=True), version
    )
    status: int = response.groups[0].topology_description_status
    return status


def test_without_a_plugin_descriptions_are_neither_requested_nor_stored() -> None:
    broker = wire()
    assert broker.ask(request(), 1).topology_description_required is False
    answer = broker.ask(update(), 0)
    assert (answer.error_code, bool(answer.error_message)) == (ErrorCode.UNSUPPORTED_VERSION, True)
    assert description_status(broker) == 1


def test_a_plugin_stores_the_description_that_members_are_asked_for() -> None:
    broker = wire(PLUGIN)
    assert broker.ask(request(), 0).topology_description_required is False
    assert broker.ask(request(), 1).topology_description_required is True
    # Members are asked again after a delay of about 30 seconds.
    beat = steady()
    assert broker.ask(beat, 1).topology_description_required is False
    broker.clock.advance(36_000)
    assert broker.ask(beat, 1).topology_description_required is True
    assert description_status(broker) == 1
    assert broker.ask(update(), 0).error_code == ErrorCode.NONE
    broker.clock.advance(40_000)
    assert broker.ask(request(), 1).topology_description_required is False
    assert description_status(broker) == 3
    (event,) = [each for each in broker.history.about("g") if each.kind == "topology"]
    assert event.text == "member m described the topology of epoch 0"
    response = broker.ask(StreamsGroupDescribeRequest(group_ids=["g"]), 1)
    (group,) = response.groups
    assert (group.topology_description_status, group.topology_description) == (0, None)
    assert group.assignor_name == "sticky"


def steady(**named: Any) -> Request:  # noqa: ANN401
    """Return a heartbeat of a member after it has joined."""
    fields: dict[str, Any] = {"member_epoch": 2, "topology": None, "active_tasks": None,
                              "standby_tasks": None, "warmup_tasks": None}  # fmt: skip
    return request(**{**fields, **named})


def test_the_first_heartbeat_of_a_group_begins_the_delay_of_requests() -> None:
    broker = wire(PLUGIN)
    assert broker.ask(request(), 1).topology_description_required is True
    assert broker.ask(steady(), 1).topology_description_required is False
    broker.clock.advance(36_000)
    assert broker.ask(steady(), 1).topology_description_required is True


def test_a_new_group_with_the_same_id_is_asked_after_the_delay_only() -> None:
    broker = wire(PLUGIN)
    assert broker.ask(request(), 1).topology_description_required is True
    assert broker.ask(steady(member_epoch=-1), 1).error_code == ErrorCode.NONE
    deleted = broker.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    assert [result.error_code for result in deleted.results] == [ErrorCode.NONE]
    assert broker.ask(request(), 1).topology_description_required is False
    broker.clock.advance(36_000)
    assert broker.ask(steady(), 1).topology_description_required is True


@pytest.mark.parametrize(
    ("named", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": "other"}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"topology_epoch": 1}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_descriptions_are_refused(named: dict[str, Any], code: ErrorCode) -> None:
    broker = wire(PLUGIN)
    broker.ask(request(), 1)
    assert broker.ask(update(**named), 0).error_code == code
    assert description_status(broker) == 1


def test_missing_tags_are_in_the_history_once_for_each_change() -> None:
    broker = wire({"group.streams.rack.aware.assignment.tags": "zone"})

    def tags_events() -> int:
        return sum(each.times for each in broker.history.about("g") if each.kind == "tags")

    broker.ask(request(), 1)
    assert tags_events() == 1
    for _ in range(2):
        broker.ask(steady(), 1)
    assert tags_events() == 1
    zone = [Request.KeyValue(key="zone", value="x")]
    codes = [status.status_code for status in broker.ask(steady(client_tags=zone), 1).status]
    assert StatusCode.MISSING_CLIENT_TAGS not in codes
    broker.ask(steady(client_tags=[]), 1)
    assert tags_events() == 2


def test_a_client_without_required_tags_gets_a_status_since_version_1() -> None:
    broker = wire({"group.streams.rack.aware.assignment.tags": "zone,area"})
    tags = [Request.KeyValue(key="zone", value="x")]
    assert broker.ask(request(client_tags=tags), 0).status == []
    (status,) = broker.ask(request(client_tags=tags), 1).status
    assert status.status_code == StatusCode.MISSING_CLIENT_TAGS
    assert "area" in status.status_detail
    assert "zone" not in status.status_detail
    (event,) = [each for each in broker.history.about("g") if each.kind == "tags"]
    assert event.text == "member m has no client tags area, which the group requires"


@pytest.mark.parametrize(
    ("as_version", "version", "expected"),
    [("4.4", 1, (60_000, 10_000, 0)), ("4.4", 0, (60_000, -1, 0)), ("4.3", 0, (0, -1, 0))],
)
def test_members_get_the_settings_of_offsets(
    as_version: str, version: int, expected: tuple[int, int, int]
) -> None:
    answer = wire(as_version=as_version).ask(request(), version)
    assert expected == (
        answer.task_offset_interval_ms,
        answer.acceptable_recovery_lag,
        answer.acceptable_recovery_lag_legacy,
    )


def test_the_recovery_lag_has_64_bits() -> None:
    broker = wire({"group.streams.acceptable.recovery.lag": "5000000000"})
    assert broker.ask(request(), 1).acceptable_recovery_lag == 5_000_000_000


def test_refusals_have_the_shape_of_their_api() -> None:
    refused = HEARTBEAT.refuse(request(), ErrorCode.FENCED_MEMBER_EPOCH, "why")
    assert (refused.error_code, refused.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, "why")
    both = DESCRIBE.refuse(
        StreamsGroupDescribeRequest(group_ids=["a", "b"]), ErrorCode.UNSUPPORTED_VERSION, None
    )
    assert [group.error_code for group in both.groups] == [ErrorCode.UNSUPPORTED_VERSION] * 2
