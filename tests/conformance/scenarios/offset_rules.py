"""Details of committed offsets: sizes, duplicates, retention, deleted topics and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from tests.conformance.scenarios.classic_groups import Classic, new_member, stable_group
from tests.conformance.scenarios.commits import commit, fetch, fetch_all
from tests.conformance.scenarios.configs import BROKER, SET, alter
from tests.conformance.scenarios.consumer_groups import joined_consumer
from tests.conformance.setup import create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from tests.conformance.world import World

_JOIN, _SYNC, _LEAVE = 9, 5, 5
_NOTE = 4096


def metadata_is_measured_like_in_java(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    for note in (
        "ü" * _NOTE,
        "ü" * (_NOTE + 1),
        "\N{PARTY POPPER}" * (_NOTE // 2),
        "\N{PARTY POPPER}" * (_NOTE // 2) + "x",
        "\0" * _NOTE,
    ):
        world.ask(commit(world.name, world.name, 0, metadata=note), 8)
        world.ask(fetch(world.name, world.name, 0), 8)


def too_long_metadata_refuses_only_its_partition(world: World) -> None:
    create_topic(world, world.name, partitions=3)
    wait_for_group_coordinator(world, world.name)
    request = commit(world.name, world.name, 0, 1, 2)
    request.topics[0].partitions[1].committed_metadata = "x" * (_NOTE + 1)
    for version in (2, 8, 9):
        world.ask(request, version)
    world.ask(fetch(world.name, world.name, 0, 1, 2), 8)


def a_commit_may_be_too_large(world: World) -> None:
    """Commit more than fits into one batch, with metadata within the limit."""
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    world.ask(commit(world.name, world.name, 0), 8)
    request = commit(world.name, world.name, *[0] * 300, metadata="x" * _NOTE, offset=77)
    for version in (2, 8, 9):
        world.ask(request, version)
    world.ask(fetch(world.name, world.name, 0), 8)


def duplicate_partitions_are_accepted(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    wait_for_group_coordinator(world, world.name)
    request = commit(world.name, world.name, 0, 1, 0)
    for step, row in enumerate(request.topics[0].partitions):
        row.committed_offset = 10 + step
    world.ask(request, 8)
    world.ask(fetch(world.name, world.name, 0, 0, 1, 0), 8)
    twice = commit(world.name, world.name, 0)
    twice.topics.append(twice.topics[0])
    world.ask(twice, 8)
    world.ask(OffsetCommitRequest(group_id=world.name, topics=[]), 8)


def any_offset_number_is_accepted(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    for offset in (-1, -(1 << 63), (1 << 63) - 1, 0):
        for leader_epoch in (-1, -7, (1 << 31) - 1):
            request = commit(world.name, world.name, 0, offset=offset, leader_epoch=leader_epoch)
            world.ask(request, 8)
            world.ask(fetch(world.name, world.name, 0), 8)


def retention_times_of_early_versions(world: World) -> None:
    """Versions 2 to 4 have a retention time; their offsets are fetched like any other."""
    create_topic(world, world.name)
    for version in range(2, 7):
        group = f"{world.name}-{version}"
        wait_for_group_coordinator(world, group)
        request = commit(group, world.name, 0)
        for retention_ms in (-1, 3_600_000, 30 * 86_400_000):
            request.retention_time_ms = retention_ms
            world.ask(request, version)
            world.ask(fetch(group, world.name, 0), 7)


def groups_are_fetched_in_every_way(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    wait_for_group_coordinator(world, world.name)
    world.ask(commit(world.name, world.name, 0), 8)
    row = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = OffsetFetchRequest.OffsetFetchRequestTopics
    everything = row(group_id=world.name, topics=None)
    nothing = row(group_id=world.name, topics=[])
    no_partitions = row(group_id=world.name, topics=[topic(name=world.name)])
    strange = row(
        group_id=world.name,
        topics=[
            topic(name="no such topic", partition_indexes=[0, -1]),
            topic(name="", partition_indexes=[0]),
            topic(name=world.name, partition_indexes=[-1, 7, 1 << 30]),
        ],
    )
    for version in (8, 9):
        world.ask(OffsetFetchRequest(groups=[]), version)
        world.ask(OffsetFetchRequest(groups=[everything]), version)
        world.ask(OffsetFetchRequest(groups=[nothing]), version)
        world.ask(OffsetFetchRequest(groups=[no_partitions]), version)
        world.ask(OffsetFetchRequest(groups=[strange]), version)
        world.ask(OffsetFetchRequest(groups=[nothing, nothing]), version)
        world.ask(OffsetFetchRequest(groups=[everything], require_stable=True), version)
    world.ask(OffsetFetchRequest(group_id=world.name, topics=None), 2)
    world.ask(OffsetFetchRequest(group_id=world.name, topics=[]), 1)
    world.ask(OffsetFetchRequest(group_id=world.name, topics=[]), 5)


def offsets_remain_after_the_last_member(world: World) -> None:
    create_topic(world, world.name)
    group, member, generation = stable_group(world, world.name, world.name)
    world.ask(commit(world.name, world.name, 0, member_id=member, epoch=generation), 9)
    world.ask(group.leave(member), _LEAVE)
    world.ask(fetch(world.name, world.name, 0), 8)
    world.ask(commit(world.name, world.name, 0, offset=9), 9)
    world.ask(commit(world.name, world.name, 0, member_id="unknown", offset=11), 9)
    world.ask(commit(world.name, world.name, 0, instance="i", offset=12), 9)
    world.ask(commit(world.name, world.name, 0, member_id=member, epoch=generation), 9)
    world.ask(commit(world.name, world.name, 0, member_id=member, epoch=generation + 1), 9)
    world.ask(fetch(world.name, world.name, 0), 8)


def pending_members_cannot_commit(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    refused = world.ask(group.join(), _JOIN)
    world.ask(commit(world.name, world.name, 0, member_id=refused.member_id, epoch=0), 9)
    world.ask(commit(world.name, world.name, 0, member_id=refused.member_id), 9)
    world.ask(commit(world.name, world.name, 0), 9)
    world.ask(fetch(world.name, world.name, 0), 8)


def offsets_of_deleted_topics_are_deleted(world: World) -> None:
    remaining_topic, gone = f"{world.name}-remaining", f"{world.name}-gone"
    create_topic(world, remaining_topic)
    create_topic(world, gone)
    wait_for_group_coordinator(world, world.name)
    world.ask(commit(world.name, remaining_topic, 0), 8)
    world.ask(commit(world.name, gone, 0), 8)
    world.ask(DeleteTopicsRequest(topic_names=[gone], timeout_ms=10_000), 5)
    world.call_until(fetch_all(world.name), 8, lambda found: len(found.groups[0].topics) == 1)
    world.ask(fetch(world.name, gone, 0), 8)
    create_topic(world, gone)
    world.ask(fetch(world.name, gone, 0), 8)
    world.ask(commit(world.name, gone, 0, offset=1), 8)
    world.ask(fetch(world.name, gone, 0), 8)


def a_simple_group_can_be_deleted(world: World) -> None:
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    world.ask(commit(world.name, world.name, 0), 8)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)
    twice = [world.name, world.name, f"{world.name}-missing", world.name]
    world.ask(DeleteGroupsRequest(groups_names=twice), 2)
    world.ask(fetch(world.name, world.name, 0), 8)
    world.ask(DescribeGroupsRequest(groups=[world.name]), 6)
    world.ask(commit(world.name, world.name, 0), 8)
    world.ask(fetch(world.name, world.name, 0), 8)


def groups_of_every_kind_are_deleted(world: World) -> None:
    create_topic(world, world.name)
    stable_group(world, f"{world.name}-classic", world.name)
    joined_consumer(world, f"{world.name}-consumer", world.name)
    wait_for_group_coordinator(world, f"{world.name}-left")
    joined_consumer(world, f"{world.name}-left", world.name)
    world.ask(commit(f"{world.name}-left", world.name, 0, member_id="member-a", epoch=2), 9)
    leave = ConsumerGroupHeartbeatRequest(
        group_id=f"{world.name}-left",
        member_id="member-a",
        member_epoch=-1,
        subscribed_topic_names=None,
        topic_partitions=None,
    )
    world.ask(leave, 1)
    kinds = [f"{world.name}-{kind}" for kind in ("classic", "consumer", "left", "missing")]
    world.ask(DeleteGroupsRequest(groups_names=kinds), 2)
    world.ask(fetch(f"{world.name}-left", world.name, 0), 8)
    world.ask(DeleteGroupsRequest(groups_names=kinds), 2)


def filters_are_parsed_like_in_java(world: World) -> None:
    create_topic(world, world.name)
    stable_group(world, f"{world.name}-stable")
    wait_for_group_coordinator(world, f"{world.name}-simple")
    world.ask(commit(f"{world.name}-simple", world.name, 0), 8)
    empties = [[" stable "], ["\tEMPTY\n"], ["Stable", "nonsense"], [""], ["PREPARINGREBALANCE"]]
    kinds = [[" classic"], ["CLASSIC", "nonsense"], [""], ["unknown"], ["Classic", "classic"]]
    for states, types in [*((states, []) for states in empties), *(([], kind) for kind in kinds)]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        response = world.connection("main").call(request, 5)
        rows = sorted(row.group_id for row in response.groups if world.name in row.group_id)
        world.record(f"{states} {types}", [int(response.error_code), *rows])


def a_deletion_may_be_too_large(world: World) -> None:
    """Delete more offsets of a group with a long name than fit into one batch."""
    create_topic(world, world.name, partitions=40)
    group = world.name + "x" * 30_000
    wait_for_group_coordinator(world, group)
    halves = (range(20), range(20, 40))
    for half in halves:
        world.ask(commit(group, world.name, *half), 8)
    world.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition

    def forget(*partitions: int) -> OffsetDeleteRequest:
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
            name=world.name, partitions=[row(partition_index=index) for index in partitions]
        )
        return OffsetDeleteRequest(group_id=group, topics=[topic])

    world.ask(forget(*range(40)), 0)
    world.ask(fetch(group, world.name, 0, 39), 8)
    world.ask(forget(*halves[0]), 0)
    world.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    world.ask(fetch(group, world.name, 0, 39), 8)


def offsets_are_deleted_in_part(world: World) -> None:
    mine, other = f"{world.name}-mine", f"{world.name}-other"
    create_topic(world, mine, partitions=2)
    create_topic(world, other)
    group, member, generation = stable_group(world, world.name, mine)
    for topic in (mine, other):
        world.ask(commit(world.name, topic, 0, member_id=member, epoch=generation), 8)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    named = OffsetDeleteRequest.OffsetDeleteRequestTopic
    request = OffsetDeleteRequest(
        group_id=world.name,
        topics=[
            named(name=mine, partitions=[row(partition_index=index) for index in (0, 1, 7)]),
            named(name=other, partitions=[row(partition_index=index) for index in (0, -1)]),
            named(name="no such topic", partitions=[row(partition_index=0)]),
        ],
    )
    world.ask(request, 0)
    world.ask(fetch(world.name, mine, 0), 8)
    world.ask(fetch(world.name, other, 0), 8)
    world.ask(group.leave(member), _LEAVE)
    world.ask(request, 0)
    world.ask(fetch(world.name, mine, 0), 8)
    world.ask(OffsetDeleteRequest(group_id=world.name, topics=[]), 0)
    world.ask(OffsetDeleteRequest(group_id=f"{world.name}-missing", topics=[]), 0)


def groups_change_their_protocol_type(world: World) -> None:
    """Let an Empty group take the protocol type of the next member."""
    create_topic(world, world.name)
    wait_for_group_coordinator(world, world.name)
    group = Classic(world.name)
    world.ask(commit(world.name, world.name, 0), 8)
    for kind in ("connect", "consumer", "anything"):
        joined = new_member(world, group, kind=kind)
        generation = joined.generation_id
        world.ask(group.sync(joined.member_id, generation, joined.member_id, kind=kind), _SYNC)
        world.ask(DescribeGroupsRequest(groups=[world.name]), 5)
        world.ask(group.leave(joined.member_id), _LEAVE)
        world.ask(DescribeGroupsRequest(groups=[world.name]), 5)
    world.ask(fetch(world.name, world.name, 0), 8)


def retention_cannot_be_changed_while_the_broker_runs(world: World) -> None:
    for key, value in (
        ("offsets.retention.minutes", "60"),
        ("offsets.retention.check.interval.ms", "1000"),
        ("group.initial.rebalance.delay.ms", "1000"),
        ("group.max.size", "7"),
        ("group.min.session.timeout.ms", "7"),
    ):
        world.ask(alter(BROKER, "1", (key, SET, value)), 1)
        world.ask(alter(BROKER, "", (key, SET, value)), 1)


SCENARIOS = (
    metadata_is_measured_like_in_java,
    too_long_metadata_refuses_only_its_partition,
    a_commit_may_be_too_large,
    duplicate_partitions_are_accepted,
    any_offset_number_is_accepted,
    retention_times_of_early_versions,
    groups_are_fetched_in_every_way,
    offsets_remain_after_the_last_member,
    pending_members_cannot_commit,
    offsets_of_deleted_topics_are_deleted,
    a_simple_group_can_be_deleted,
    groups_of_every_kind_are_deleted,
    filters_are_parsed_like_in_java,
    a_deletion_may_be_too_large,
    offsets_are_deleted_in_part,
    groups_change_their_protocol_type,
    retention_cannot_be_changed_while_the_broker_runs,
)
