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
    from tests.conformance.scenario_cluster import ScenarioCluster

_JOIN, _SYNC, _LEAVE = 9, 5, 5
_NOTE = 4096


def metadata_is_measured_like_in_java(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for note in (
        "ü" * _NOTE,
        "ü" * (_NOTE + 1),
        "\N{PARTY POPPER}" * (_NOTE // 2),
        "\N{PARTY POPPER}" * (_NOTE // 2) + "x",
        "\0" * _NOTE,
    ):
        cluster.ask(commit(cluster.name, cluster.name, 0, metadata=note), 8)
        cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def too_long_metadata_refuses_only_its_partition(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=3)
    wait_for_group_coordinator(cluster, cluster.name)
    request = commit(cluster.name, cluster.name, 0, 1, 2)
    request.topics[0].partitions[1].committed_metadata = "x" * (_NOTE + 1)
    for version in (2, 8, 9):
        cluster.ask(request, version)
    cluster.ask(fetch(cluster.name, cluster.name, 0, 1, 2), 8)


def a_commit_may_be_too_large(cluster: ScenarioCluster) -> None:
    """Commit more than fits into one batch, with metadata within the limit."""
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    request = commit(cluster.name, cluster.name, *[0] * 300, metadata="x" * _NOTE, offset=77)
    for version in (2, 8, 9):
        cluster.ask(request, version)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def duplicate_partitions_are_accepted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    wait_for_group_coordinator(cluster, cluster.name)
    request = commit(cluster.name, cluster.name, 0, 1, 0)
    for step, row in enumerate(request.topics[0].partitions):
        row.committed_offset = 10 + step
    cluster.ask(request, 8)
    cluster.ask(fetch(cluster.name, cluster.name, 0, 0, 1, 0), 8)
    twice = commit(cluster.name, cluster.name, 0)
    twice.topics.append(twice.topics[0])
    cluster.ask(twice, 8)
    cluster.ask(OffsetCommitRequest(group_id=cluster.name, topics=[]), 8)


def any_offset_number_is_accepted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for offset in (-1, -(1 << 63), (1 << 63) - 1, 0):
        for leader_epoch in (-1, -7, (1 << 31) - 1):
            request = commit(
                cluster.name, cluster.name, 0, offset=offset, leader_epoch=leader_epoch
            )
            cluster.ask(request, 8)
            cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def retention_times_of_early_versions(cluster: ScenarioCluster) -> None:
    """Versions 2 to 4 have a retention time; their offsets are fetched like any other."""
    create_topic(cluster, cluster.name)
    for version in range(2, 7):
        group = f"{cluster.name}-{version}"
        wait_for_group_coordinator(cluster, group)
        request = commit(group, cluster.name, 0)
        for retention_ms in (-1, 3_600_000, 30 * 86_400_000):
            request.retention_time_ms = retention_ms
            cluster.ask(request, version)
            cluster.ask(fetch(group, cluster.name, 0), 7)


def groups_are_fetched_in_every_way(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    row = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = OffsetFetchRequest.OffsetFetchRequestTopics
    everything = row(group_id=cluster.name, topics=None)
    nothing = row(group_id=cluster.name, topics=[])
    no_partitions = row(group_id=cluster.name, topics=[topic(name=cluster.name)])
    strange = row(
        group_id=cluster.name,
        topics=[
            topic(name="no such topic", partition_indexes=[0, -1]),
            topic(name="", partition_indexes=[0]),
            topic(name=cluster.name, partition_indexes=[-1, 7, 1 << 30]),
        ],
    )
    for version in (8, 9):
        cluster.ask(OffsetFetchRequest(groups=[]), version)
        cluster.ask(OffsetFetchRequest(groups=[everything]), version)
        cluster.ask(OffsetFetchRequest(groups=[nothing]), version)
        cluster.ask(OffsetFetchRequest(groups=[no_partitions]), version)
        cluster.ask(OffsetFetchRequest(groups=[strange]), version)
        cluster.ask(OffsetFetchRequest(groups=[nothing, nothing]), version)
        cluster.ask(OffsetFetchRequest(groups=[everything], require_stable=True), version)
    cluster.ask(OffsetFetchRequest(group_id=cluster.name, topics=None), 2)
    cluster.ask(OffsetFetchRequest(group_id=cluster.name, topics=[]), 1)
    cluster.ask(OffsetFetchRequest(group_id=cluster.name, topics=[]), 5)


def offsets_remain_after_the_last_member(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    group, member, generation = stable_group(cluster, cluster.name, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0, member_id=member, epoch=generation), 9)
    cluster.ask(group.leave(member), _LEAVE)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)
    cluster.ask(commit(cluster.name, cluster.name, 0, offset=9), 9)
    cluster.ask(commit(cluster.name, cluster.name, 0, member_id="unknown", offset=11), 9)
    cluster.ask(commit(cluster.name, cluster.name, 0, instance="i", offset=12), 9)
    cluster.ask(commit(cluster.name, cluster.name, 0, member_id=member, epoch=generation), 9)
    cluster.ask(commit(cluster.name, cluster.name, 0, member_id=member, epoch=generation + 1), 9)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def pending_members_cannot_commit(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    refused = cluster.ask(group.join(), _JOIN)
    cluster.ask(commit(cluster.name, cluster.name, 0, member_id=refused.member_id, epoch=0), 9)
    cluster.ask(commit(cluster.name, cluster.name, 0, member_id=refused.member_id), 9)
    cluster.ask(commit(cluster.name, cluster.name, 0), 9)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def offsets_of_deleted_topics_are_deleted(cluster: ScenarioCluster) -> None:
    remaining_topic, gone = f"{cluster.name}-remaining", f"{cluster.name}-gone"
    create_topic(cluster, remaining_topic)
    create_topic(cluster, gone)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, remaining_topic, 0), 8)
    cluster.ask(commit(cluster.name, gone, 0), 8)
    cluster.ask(DeleteTopicsRequest(topic_names=[gone], timeout_ms=10_000), 5)
    cluster.call_until(fetch_all(cluster.name), 8, lambda found: len(found.groups[0].topics) == 1)
    cluster.ask(fetch(cluster.name, gone, 0), 8)
    create_topic(cluster, gone)
    cluster.ask(fetch(cluster.name, gone, 0), 8)
    cluster.ask(commit(cluster.name, gone, 0, offset=1), 8)
    cluster.ask(fetch(cluster.name, gone, 0), 8)


def a_simple_group_can_be_deleted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)
    twice = [cluster.name, cluster.name, f"{cluster.name}-missing", cluster.name]
    cluster.ask(DeleteGroupsRequest(groups_names=twice), 2)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)
    cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 6)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def groups_of_every_kind_are_deleted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    stable_group(cluster, f"{cluster.name}-classic", cluster.name)
    joined_consumer(cluster, f"{cluster.name}-consumer", cluster.name)
    wait_for_group_coordinator(cluster, f"{cluster.name}-left")
    joined_consumer(cluster, f"{cluster.name}-left", cluster.name)
    cluster.ask(commit(f"{cluster.name}-left", cluster.name, 0, member_id="member-a", epoch=2), 9)
    leave = ConsumerGroupHeartbeatRequest(
        group_id=f"{cluster.name}-left",
        member_id="member-a",
        member_epoch=-1,
        subscribed_topic_names=None,
        topic_partitions=None,
    )
    cluster.ask(leave, 1)
    kinds = [f"{cluster.name}-{kind}" for kind in ("classic", "consumer", "left", "missing")]
    cluster.ask(DeleteGroupsRequest(groups_names=kinds), 2)
    cluster.ask(fetch(f"{cluster.name}-left", cluster.name, 0), 8)
    cluster.ask(DeleteGroupsRequest(groups_names=kinds), 2)


def filters_are_parsed_like_in_java(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    stable_group(cluster, f"{cluster.name}-stable")
    wait_for_group_coordinator(cluster, f"{cluster.name}-simple")
    cluster.ask(commit(f"{cluster.name}-simple", cluster.name, 0), 8)
    empties = [[" stable "], ["\tEMPTY\n"], ["Stable", "nonsense"], [""], ["PREPARINGREBALANCE"]]
    kinds = [[" classic"], ["CLASSIC", "nonsense"], [""], ["unknown"], ["Classic", "classic"]]
    for states, types in [*((states, []) for states in empties), *(([], kind) for kind in kinds)]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        response = cluster.connection("main").call(request, 5)
        rows = sorted(row.group_id for row in response.groups if cluster.name in row.group_id)
        cluster.record(f"{states} {types}", [int(response.error_code), *rows])


def a_deletion_may_be_too_large(cluster: ScenarioCluster) -> None:
    """Delete more offsets of a group with a long name than fit into one batch."""
    create_topic(cluster, cluster.name, partitions=40)
    group = cluster.name + "x" * 30_000
    wait_for_group_coordinator(cluster, group)
    halves = (range(20), range(20, 40))
    for half in halves:
        cluster.ask(commit(group, cluster.name, *half), 8)
    cluster.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition

    def forget(*partitions: int) -> OffsetDeleteRequest:
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic(
            name=cluster.name, partitions=[row(partition_index=index) for index in partitions]
        )
        return OffsetDeleteRequest(group_id=group, topics=[topic])

    cluster.ask(forget(*range(40)), 0)
    cluster.ask(fetch(group, cluster.name, 0, 39), 8)
    cluster.ask(forget(*halves[0]), 0)
    cluster.ask(DeleteGroupsRequest(groups_names=[group]), 2)
    cluster.ask(fetch(group, cluster.name, 0, 39), 8)


def offsets_are_deleted_in_part(cluster: ScenarioCluster) -> None:
    mine, other = f"{cluster.name}-mine", f"{cluster.name}-other"
    create_topic(cluster, mine, partitions=2)
    create_topic(cluster, other)
    group, member, generation = stable_group(cluster, cluster.name, mine)
    for topic in (mine, other):
        cluster.ask(commit(cluster.name, topic, 0, member_id=member, epoch=generation), 8)
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    named = OffsetDeleteRequest.OffsetDeleteRequestTopic
    request = OffsetDeleteRequest(
        group_id=cluster.name,
        topics=[
            named(name=mine, partitions=[row(partition_index=index) for index in (0, 1, 7)]),
            named(name=other, partitions=[row(partition_index=index) for index in (0, -1)]),
            named(name="no such topic", partitions=[row(partition_index=0)]),
        ],
    )
    cluster.ask(request, 0)
    cluster.ask(fetch(cluster.name, mine, 0), 8)
    cluster.ask(fetch(cluster.name, other, 0), 8)
    cluster.ask(group.leave(member), _LEAVE)
    cluster.ask(request, 0)
    cluster.ask(fetch(cluster.name, mine, 0), 8)
    cluster.ask(OffsetDeleteRequest(group_id=cluster.name, topics=[]), 0)
    cluster.ask(OffsetDeleteRequest(group_id=f"{cluster.name}-missing", topics=[]), 0)


def groups_change_their_protocol_type(cluster: ScenarioCluster) -> None:
    """Let an Empty group take the protocol type of the next member."""
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    for kind in ("connect", "consumer", "anything"):
        joined = new_member(cluster, group, kind=kind)
        generation = joined.generation_id
        cluster.ask(group.sync(joined.member_id, generation, joined.member_id, kind=kind), _SYNC)
        cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)
        cluster.ask(group.leave(joined.member_id), _LEAVE)
        cluster.ask(DescribeGroupsRequest(groups=[cluster.name]), 5)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def retention_cannot_be_changed_while_the_broker_runs(cluster: ScenarioCluster) -> None:
    for key, value in (
        ("offsets.retention.minutes", "60"),
        ("offsets.retention.check.interval.ms", "1000"),
        ("group.initial.rebalance.delay.ms", "1000"),
        ("group.max.size", "7"),
        ("group.min.session.timeout.ms", "7"),
    ):
        cluster.ask(alter(BROKER, "1", (key, SET, value)), 1)
        cluster.ask(alter(BROKER, "", (key, SET, value)), 1)


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
