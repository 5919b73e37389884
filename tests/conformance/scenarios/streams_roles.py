"""Streams groups since Kafka 4.4: static members, offsets of tasks, tags, descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from tests.conformance.scenarios.commits import commit
from tests.conformance.scenarios.configs import GROUP, SET, alter, describe, settled
from tests.conformance.scenarios.group_records import note_records
from tests.conformance.scenarios.streams_groups import (
    LEAVE,
    LEAVE_FOR_A_WHILE,
    Request,
    Streams,
    internal,
    new_group,
    reading,
)
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.scenario_cluster import ScenarioCluster

_STANDBYS = "streams.num.standby.replicas"
_TAGS = "streams.rack.aware.assignment.tags"
_ASSIGNOR = "streams.assignor.name"
_RECOVERY_LAG = "streams.acceptable.recovery.lag"

Update = StreamsGroupTopologyDescriptionUpdateRequest


def _described(cluster: ScenarioCluster, group: str, version: int = 1, **fields: Any) -> None:  # noqa: ANN401
    cluster.ask(StreamsGroupDescribeRequest(group_ids=[group], **fields), version)


def _stateful_group(cluster: ScenarioCluster, partitions: int, standbys: int) -> Streams:
    """Create a group with a store and standby tasks."""
    for topic in ("topic", "store"):
        create_topic(cluster, f"{cluster.name}-{topic}", partitions)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(alter(GROUP, cluster.name, (_STANDBYS, SET, f"{standbys}")), 1)
    settled(cluster, _STANDBYS, f"{standbys}", kind=GROUP)
    stateful = reading(
        f"{cluster.name}-topic", state_changelog_topics=[internal(f"{cluster.name}-store")]
    )
    return Streams(cluster.name, (stateful,))


def _tags(**values: str) -> list[Request.KeyValue]:
    return [Request.KeyValue(key=key, value=value) for key, value in values.items()]


def static_streams_members_come_back(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    topic = f"{group.group}-topic"
    for instance, member in (("", "a"), ("i", "a")):
        cluster.ask(group.join(member, instance_id=instance), 1)
    # Later, Kafka 4.4.0 would take the tasks of the member from it although it refuses this join.
    cluster.ask(group.join("c", instance_id="i"), 1)
    cluster.ask(group.join("b"), 1)
    response = cluster.ask(group.heartbeat("a", 2, instance_id="i"), 1)
    owned = {"0": tuple(response.active_tasks[0].partitions)}
    cluster.ask(group.heartbeat("a", 2, owned, instance_id="i"), 1)
    cluster.ask(group.heartbeat("b", 3), 1)
    for member, instance in (("a", "other"), ("b", "i")):
        cluster.ask(group.heartbeat(member, 3, instance_id=instance), 1)
        cluster.ask(group.heartbeat(member, LEAVE, instance_id=instance), 1)
    cluster.ask(group.heartbeat("a", 3), 1)
    cluster.ask(group.heartbeat("b", 3), 1)
    cluster.ask(group.heartbeat("a", LEAVE_FOR_A_WHILE), 1)
    cluster.ask(group.heartbeat("a", LEAVE_FOR_A_WHILE, instance_id="i"), 1)
    _described(cluster, group.group)
    cluster.ask(group.heartbeat("a", 3, instance_id="i"), 1)
    cluster.ask(commit(group.group, topic, *owned["0"], member_id="a", epoch=3), 9)
    cluster.ask(group.join("c", instance_id="i", process_id="a"), 1)
    _described(cluster, group.group)
    cluster.ask(commit(group.group, topic, *owned["0"], member_id="c", epoch=3), 9)
    cluster.ask(group.heartbeat("a", 3, instance_id="i"), 1)
    cluster.ask(group.heartbeat("c", LEAVE_FOR_A_WHILE, instance_id="i"), 1)
    response = cluster.ask(group.join("d", instance_id="i", rack_id="new"), 1)
    cluster.ask(group.heartbeat("d", response.member_epoch, instance_id="i"), 1)
    cluster.ask(group.heartbeat("b", 3), 1)
    _described(cluster, group.group)
    cluster.ask(group.heartbeat("d", LEAVE, instance_id="i"), 1)
    cluster.ask(group.heartbeat("b", LEAVE), 1)
    _described(cluster, group.group)
    note_records(cluster, group.group)


def offsets_of_tasks_are_described(cluster: ScenarioCluster) -> None:
    group = _stateful_group(cluster, partitions=2, standbys=1)

    def offsets(*entries: tuple[int, int], name: str = "0") -> list[Request.TaskOffset]:
        return [
            Request.TaskOffset(subtopology_id=name, partition=partition, offset=offset)
            for partition, offset in entries
        ]

    cluster.ask(group.join("a", task_offsets=offsets((1, 7))), 1)
    _described(cluster, group.group)
    cluster.ask(group.heartbeat("a", 2, task_end_offsets=offsets((1, 9), (0, 3))), 1)
    cluster.ask(group.heartbeat("a", 2, task_offsets=offsets((1, 9), (1, 3))), 1)
    cluster.ask(group.heartbeat("a", 2, task_offsets=offsets((1, 9), (5, 3), name="x")), 1)
    cluster.ask(group.join("b", task_offsets=offsets((0, 100))), 1)
    _described(cluster, group.group)
    cluster.ask(group.heartbeat("a", LEAVE), 1)
    _described(cluster, group.group)


def a_task_changes_its_role_in_place(cluster: ScenarioCluster) -> None:
    group = _stateful_group(cluster, partitions=3, standbys=1)
    cluster.ask(group.join("a"), 1)
    cluster.ask(group.join("b"), 1)
    response = cluster.ask(group.heartbeat("a", 2), 1)
    active, standby = (
        {each.subtopology_id: tuple(each.partitions) for each in tasks or ()}
        for tasks in (response.active_tasks, response.standby_tasks)
    )
    cluster.ask(group.heartbeat("b", 3), 1)
    cluster.ask(group.heartbeat("a", 2, active, standby), 1)
    _described(cluster, group.group)
    cluster.ask(group.heartbeat("b", 3), 1)
    cluster.ask(group.heartbeat("a", LEAVE), 1)
    _described(cluster, group.group)
    cluster.ask(group.heartbeat("b", 3), 1)
    _described(cluster, group.group)
    warmup = [Request.TaskIds(subtopology_id="0", partitions=[1])]
    owned: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": warmup}
    cluster.ask(group.heartbeat("b", 4, **owned), 1)
    note_records(cluster, group.group)


def clients_lack_tags(cluster: ScenarioCluster) -> None:
    """Standby tasks with tags of zones, which the assignor of Kafka does not use."""
    group = _stateful_group(cluster, partitions=4, standbys=1)
    cluster.ask(group.join("a", client_tags=_tags(zone="x")), 1)
    cluster.ask(alter(GROUP, cluster.name, (_TAGS, SET, "zone,area")), 1)
    settled(cluster, _TAGS, "zone,area", kind=GROUP)
    cluster.ask(describe(GROUP, cluster.name, [_TAGS, _ASSIGNOR]), 4)
    for version in (0, 1):
        cluster.ask(group.heartbeat("a", 2 + version), version)
    cluster.ask(group.join("b", client_tags=_tags(zone="x", area="1")), 1)
    cluster.ask(group.join("c", client_tags=_tags(zone="y", area="2")), 1)
    cluster.ask(group.heartbeat("a", 3, client_tags=_tags(area="1", zone="z")), 1)
    _described(cluster, group.group)
    for value in ("zone,zone", "zone,,area", " , "):
        cluster.ask(alter(GROUP, cluster.name, (_TAGS, SET, value)), 1)
    note_records(cluster, group.group)


def the_recovery_lag_has_64_bits(cluster: ScenarioCluster) -> None:
    group = _stateful_group(cluster, partitions=1, standbys=0)
    cluster.ask(alter(GROUP, cluster.name, (_RECOVERY_LAG, SET, "5000000000")), 1)
    settled(cluster, _RECOVERY_LAG, "5000000000", kind=GROUP)
    for version in (0, 1):
        cluster.ask(group.join("a"), version)
    cluster.ask(alter(GROUP, cluster.name, (_RECOVERY_LAG, SET, "-1")), 1)


def the_assignor_is_selected(cluster: ScenarioCluster) -> None:
    group = new_group(cluster)
    for name in ("unknown", "Sticky", "sticky", ""):
        cluster.ask(alter(GROUP, cluster.name, (_ASSIGNOR, SET, name)), 1)
    cluster.ask(describe(GROUP, cluster.name, [_ASSIGNOR]), 4)
    cluster.ask(group.join("a"), 1)
    for version in (0, 1):
        _described(cluster, group.group, version)
    _described(cluster, f"{group.group}-missing")


def addresses_of_members_change(cluster: ScenarioCluster) -> None:
    """Endpoints, with topics of fewer partitions than there are tasks."""
    create_topic(cluster, f"{cluster.name}-topic", 3)
    create_topic(cluster, f"{cluster.name}-small", 1)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Streams(cluster.name, (reading(f"{cluster.name}-topic", f"{cluster.name}-small"),))

    def at(host: str) -> Request.Endpoint:
        return Request.Endpoint(host=host, port=4711)

    epoch: dict[str, Any] = {"endpoint_information_epoch": 0}
    cluster.ask(group.join("a", user_endpoint=at("here"), endpoint_information_epoch=-1), 1)
    cluster.ask(group.heartbeat("a", 2, **epoch), 1)
    cluster.ask(group.heartbeat("a", 2, user_endpoint=at("there"), **epoch), 1)
    cluster.ask(group.join("a", user_endpoint=at("there"), **epoch), 1)
    cluster.ask(group.join("b", user_endpoint=at("elsewhere"), **epoch), 1)
    response = cluster.ask(group.heartbeat("a", 3, **epoch), 1)
    if response.active_tasks:
        owned = {"0": tuple(response.active_tasks[0].partitions)}
        cluster.ask(group.heartbeat("a", response.member_epoch, owned, **epoch), 1)
    cluster.ask(group.join("a", **epoch), 1)
    cluster.ask(group.heartbeat("b", 5, endpoint_information_epoch=9), 1)
    _described(cluster, group.group)


def _node(name: str, node_type: int, **fields: Any) -> Update.TopologyDescriptionNode:  # noqa: ANN401
    return Update.TopologyDescriptionNode(name=name, node_type=node_type, **fields)


def update(
    group: str,
    member: str,
    epoch: int,
    nodes: Sequence[Update.TopologyDescriptionNode] = (),
    stores: Sequence[Update.TopologyDescriptionGlobalStore] = (),
) -> Update:
    subtopology = Update.TopologyDescriptionSubtopology(subtopology_id="0", nodes=list(nodes))
    return Update(
        group_id=group,
        member_id=member,
        topology_epoch=epoch,
        topology_description=Update.TopologyDescription(
            subtopologies=[subtopology], global_stores=list(stores)
        ),
    )


NODES = (
    _node("source", 1, source_topics=["t", "u", "t"], successors=["map", "map", "out"]),
    _node("map", 2, stores=["store"], source_topics=["ignored"], successors=["out"]),
    _node("out", 3, sink_topic="result", stores=["ignored"]),
    _node("dynamic", 3),
)
_STORE = Update.TopologyDescriptionGlobalStore(
    source=_node("global-source", 1, source_topics=["g"], successors=["global"]),
    processor=_node("global", 2, stores=["global-store"]),
)


def topologies_are_described(cluster: ScenarioCluster) -> None:
    """Send descriptions, valid and invalid, with and without a plugin that stores them."""
    group = new_group(cluster)
    name = group.group
    cluster.ask(group.join("a"), 0)
    cluster.ask(group.join("a"), 1)
    cluster.ask(group.heartbeat("a", 2), 1)
    _described(cluster, name, include_topology_description=True)
    wrong_store = Update.TopologyDescriptionGlobalStore(source=_STORE.source, processor=NODES[2])
    for request in (
        update(f"{name}-missing", "a", 0, NODES),
        update(name, "b", 0, NODES),
        update(name, "a", 1, NODES),
        update(name, "", 0, NODES),
        update(name, "a", 0, [_node("x", 4)]),
        update(name, "a", 0, NODES, [wrong_store]),
        update("", "a", 0, NODES),
    ):
        cluster.ask(request, 0)
    for _ in range(2):
        cluster.ask(update(name, "a", 0, NODES, [_STORE]), 0)
    _described(cluster, name)
    _described(cluster, name, include_topology_description=True)
    _described(cluster, f"{name}-missing", include_topology_description=True)
    cluster.ask(group.join("b"), 1)
    cluster.ask(DeleteGroupsRequest(groups_names=[name]), 2)
    cluster.ask(group.heartbeat("a", LEAVE), 1)
    cluster.ask(group.heartbeat("b", LEAVE), 1)
    _described(cluster, name, include_topology_description=True)
    cluster.ask(group.join("c"), 1)
    note_records(cluster, name)
    cluster.ask(group.heartbeat("c", LEAVE), 1)
    cluster.ask(DeleteGroupsRequest(groups_names=[name]), 2)
    _described(cluster, name, include_topology_description=True)
    cluster.ask(group.join("c"), 1)
    _described(cluster, name, include_topology_description=True)


def a_description_is_requested_once(cluster: ScenarioCluster) -> None:
    """Join as the first member of a group, which is deleted and created again."""
    group = new_group(cluster)
    cluster.ask(group.join("a"), 1)
    cluster.ask(group.heartbeat("a", 2), 1)
    cluster.ask(group.join("b"), 1)
    for member in ("a", "b"):
        cluster.ask(group.heartbeat(member, LEAVE), 1)
    cluster.ask(DeleteGroupsRequest(groups_names=[group.group]), 2)
    cluster.ask(group.join("c"), 1)
    cluster.ask(update(group.group, "c", 0, NODES), 0)
    cluster.ask(group.heartbeat("c", LEAVE), 1)
    cluster.ask(DeleteGroupsRequest(groups_names=[group.group]), 2)
    cluster.ask(group.join("a"), 1)


SCENARIOS = (
    static_streams_members_come_back,
    offsets_of_tasks_are_described,
    a_task_changes_its_role_in_place,
    clients_lack_tags,
    the_recovery_lag_has_64_bits,
    the_assignor_is_selected,
    addresses_of_members_change,
    topologies_are_described,
    a_description_is_requested_once,
)
