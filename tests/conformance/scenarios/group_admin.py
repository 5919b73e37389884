"""Administration of groups: list, describe, delete offsets, delete groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.scenarios.commits import DELETE_UNNAMED, commit, fetch
from tests.conformance.scenarios.consumer_groups import joined_consumer
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster


def groups_are_described_in_every_version(cluster: ScenarioCluster) -> None:
    group, member, _generation = stable_group(cluster, cluster.name)
    asked = [cluster.name, f"{cluster.name}-missing"]
    for version in range(7):
        cluster.ask(DescribeGroupsRequest(groups=asked), version)
    authorised = DescribeGroupsRequest(groups=asked, include_authorized_operations=True)
    for version in (3, 5, 6):
        cluster.ask(authorised, version)
    cluster.ask(group.leave(member), 5)
    cluster.ask(DescribeGroupsRequest(groups=asked[:1]), 6)
    cluster.probe(DELETE_UNNAMED, 2)
    cluster.ask(DescribeGroupsRequest(groups=[""]), 6)
    cluster.ask(DescribeGroupsRequest(groups=[]), 5)


def a_group_is_described_while_it_rebalances(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    refused = cluster.ask(group.join(), 9)
    joined = cluster.ask(group.join(refused.member_id), 9)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)
    other = cluster.ask(group.join(), 9, on="second")
    cluster.send(group.join(other.member_id), 9, on="second")
    cluster.call_until(
        group.heartbeat(joined.member_id, joined.generation_id),
        4,
        lambda found: found.error_code != 0,
    )
    described = DescribeGroupsRequest(groups=[cluster.name])
    response = cluster.connection("main").call(described, 5)
    cluster.record("state", response.groups[0].group_state)
    cluster.record("members", len(response.groups[0].members))


def groups_of_the_other_protocol_are_not_described(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    stable_group(cluster, f"{cluster.name}-classic")
    joined_consumer(cluster, f"{cluster.name}-consumer", cluster.name)
    asked = [f"{cluster.name}-classic", f"{cluster.name}-consumer"]
    for version in (5, 6):
        cluster.ask(DescribeGroupsRequest(groups=asked), version)
    for version in (0, 1):
        cluster.ask(ConsumerGroupDescribeRequest(group_ids=asked), version)
        missing = [f"{cluster.name}-missing", ""]
        cluster.ask(ConsumerGroupDescribeRequest(group_ids=missing), version)
    authorised = ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=True)
    cluster.ask(authorised, 1)


def groups_are_listed_in_every_version(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    group, member, _generation = stable_group(cluster, f"{cluster.name}-stable")
    stable_group(cluster, f"{cluster.name}-other")
    cluster.ask(group.leave(member), 5)
    joined_consumer(cluster, f"{cluster.name}-consumer", cluster.name)
    wait_for_group_coordinator(cluster, f"{cluster.name}-simple")
    cluster.ask(commit(f"{cluster.name}-simple", cluster.name, 0), 8)

    def listed(version: int, states: list[str], types: list[str]) -> None:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        response = cluster.connection("main").call(request, version)
        rows = [_row(row) for row in response.groups if row.group_id.startswith(cluster.name)]
        asked = f"v{version} {states} {types}"
        cluster.record(asked, [int(response.error_code), *sorted(rows)])

    for version in range(6):
        listed(version, [], [])
    for states in (["Stable"], ["stable", "EMPTY"], ["Nonsense"], ["Dead"], [""]):
        listed(4, states, [])
        listed(5, states, [])
    for types in (["classic"], ["Consumer"], ["consumer", "classic"], ["share"], ["nonsense"]):
        listed(5, [], types)
    listed(5, ["Empty"], ["classic"])


def _row(row: Any) -> str:  # noqa: ANN401 - any response class
    return f"{row.group_id} {row.protocol_type!r} {row.group_state!r} {row.group_type!r}"


def groups_are_deleted_in_every_version(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in range(3):
        name = f"{cluster.name}-{version}"
        group, member, _generation = stable_group(cluster, name)
        asked = DeleteGroupsRequest(groups_names=[name, f"{name}-missing"])
        cluster.ask(asked, version)
        cluster.ask(group.leave(member), 5)
        cluster.ask(commit(name, cluster.name, 0), 8)
        cluster.ask(asked, version)
        cluster.ask(fetch(name, cluster.name, 0), 8)
        cluster.ask(DescribeGroupsRequest(groups=[name]), 6)
    cluster.probe(DELETE_UNNAMED, 2)
    cluster.ask(DELETE_UNNAMED, 2)
    cluster.ask(commit("", cluster.name, 0), 8)
    cluster.ask(DELETE_UNNAMED, 2)
    cluster.ask(DeleteGroupsRequest(groups_names=[]), 2)


def _forget(group: str, topic: str, *partitions: int) -> OffsetDeleteRequest:
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    named = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=topic, partitions=[row(partition_index=index) for index in partitions]
    )
    return OffsetDeleteRequest(group_id=group, topics=[named])


def offsets_are_deleted_by_request(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0, 1), 8)
    cluster.ask(_forget(cluster.name, cluster.name, 0, 7), 0)
    cluster.ask(fetch(cluster.name, cluster.name, 0, 1), 8)
    cluster.ask(_forget(cluster.name, f"{cluster.name}-missing", 0), 0)
    cluster.ask(_forget(f"{cluster.name}-missing", cluster.name, 0), 0)
    cluster.ask(_forget("", cluster.name, 0), 0)


def offsets_in_use_are_not_deleted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    stable_group(cluster, f"{cluster.name}-classic", cluster.name)
    joined_consumer(cluster, f"{cluster.name}-consumer", cluster.name)
    for kind in ("classic", "consumer"):
        cluster.ask(_forget(f"{cluster.name}-{kind}", cluster.name, 0), 0)


SCENARIOS = (
    groups_are_described_in_every_version,
    a_group_is_described_while_it_rebalances,
    groups_of_the_other_protocol_are_not_described,
    groups_are_listed_in_every_version,
    groups_are_deleted_in_every_version,
    offsets_are_deleted_by_request,
    offsets_in_use_are_not_deleted,
)
