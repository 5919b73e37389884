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
    from tests.conformance.world import World


def groups_are_described_in_every_version(world: World) -> None:
    group, member, _generation = stable_group(world, world.name)
    asked = [world.name, f"{world.name}-missing"]
    for version in range(7):
        world.ask(DescribeGroupsRequest(groups=asked), version)
    authorised = DescribeGroupsRequest(groups=asked, include_authorized_operations=True)
    for version in (3, 5, 6):
        world.ask(authorised, version)
    world.ask(group.leave(member), 5)
    world.ask(DescribeGroupsRequest(groups=asked[:1]), 6)
    world.probe(DELETE_UNNAMED, 2)
    world.ask(DescribeGroupsRequest(groups=[""]), 6)
    world.ask(DescribeGroupsRequest(groups=[]), 5)


def a_group_is_described_while_it_rebalances(world: World) -> None:
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    refused = world.ask(group.join(), 9)
    joined = world.ask(group.join(refused.member_id), 9)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 5)
    other = world.ask(group.join(), 9, on="second")
    world.send(group.join(other.member_id), 9, on="second")
    world.call_until(
        group.heartbeat(joined.member_id, joined.generation_id),
        4,
        lambda found: found.error_code != 0,
    )
    described = DescribeGroupsRequest(groups=[world.name])
    response = world.connection("main").call(described, 5)
    world.record("state", response.groups[0].group_state)
    world.record("members", len(response.groups[0].members))


def groups_of_the_other_protocol_are_not_described(world: World) -> None:
    create_topic(world, world.name)
    stable_group(world, f"{world.name}-classic")
    joined_consumer(world, f"{world.name}-consumer", world.name)
    asked = [f"{world.name}-classic", f"{world.name}-consumer"]
    for version in (5, 6):
        world.ask(DescribeGroupsRequest(groups=asked), version)
    for version in (0, 1):
        world.ask(ConsumerGroupDescribeRequest(group_ids=asked), version)
        missing = [f"{world.name}-missing", ""]
        world.ask(ConsumerGroupDescribeRequest(group_ids=missing), version)
    authorised = ConsumerGroupDescribeRequest(group_ids=asked, include_authorized_operations=True)
    world.ask(authorised, 1)


def groups_are_listed_in_every_version(world: World) -> None:
    create_topic(world, world.name)
    group, member, _generation = stable_group(world, f"{world.name}-stable")
    stable_group(world, f"{world.name}-other")
    world.ask(group.leave(member), 5)
    joined_consumer(world, f"{world.name}-consumer", world.name)
    wait_for_group_coordinator(world, f"{world.name}-simple")
    world.ask(commit(f"{world.name}-simple", world.name, 0), 8)

    def listed(version: int, states: list[str], types: list[str]) -> None:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        response = world.connection("main").call(request, version)
        rows = [_row(row) for row in response.groups if row.group_id.startswith(world.name)]
        asked = f"v{version} {states} {types}"
        world.record(asked, [int(response.error_code), *sorted(rows)])

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


def groups_are_deleted_in_every_version(world: World) -> None:
    create_topic(world, world.name)
    for version in range(3):
        name = f"{world.name}-{version}"
        group, member, _generation = stable_group(world, name)
        asked = DeleteGroupsRequest(groups_names=[name, f"{name}-missing"])
        world.ask(asked, version)
        world.ask(group.leave(member), 5)
        world.ask(commit(name, world.name, 0), 8)
        world.ask(asked, version)
        world.ask(fetch(name, world.name, 0), 8)
        world.ask(DescribeGroupsRequest(groups=[name]), 6)
    world.probe(DELETE_UNNAMED, 2)
    world.ask(DELETE_UNNAMED, 2)
    world.ask(commit("", world.name, 0), 8)
    world.ask(DELETE_UNNAMED, 2)
    world.ask(DeleteGroupsRequest(groups_names=[]), 2)


def _forget(group: str, topic: str, *partitions: int) -> OffsetDeleteRequest:
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    named = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=topic, partitions=[row(partition_index=index) for index in partitions]
    )
    return OffsetDeleteRequest(group_id=group, topics=[named])


def offsets_are_deleted_by_request(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    wait_for_group_coordinator(world, world.name)
    world.ask(commit(world.name, world.name, 0, 1), 8)
    world.ask(_forget(world.name, world.name, 0, 7), 0)
    world.ask(fetch(world.name, world.name, 0, 1), 8)
    world.ask(_forget(world.name, f"{world.name}-missing", 0), 0)
    world.ask(_forget(f"{world.name}-missing", world.name, 0), 0)
    world.ask(_forget("", world.name, 0), 0)


def offsets_in_use_are_not_deleted(world: World) -> None:
    create_topic(world, world.name)
    stable_group(world, f"{world.name}-classic", world.name)
    joined_consumer(world, f"{world.name}-consumer", world.name)
    for kind in ("classic", "consumer"):
        world.ask(_forget(f"{world.name}-{kind}", world.name, 0), 0)


SCENARIOS = (
    groups_are_described_in_every_version,
    a_group_is_described_while_it_rebalances,
    groups_of_the_other_protocol_are_not_described,
    groups_are_listed_in_every_version,
    groups_are_deleted_in_every_version,
    offsets_are_deleted_by_request,
    offsets_in_use_are_not_deleted,
)
