"""Offsets of share groups: describe, alter, delete, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from tests.conformance.scenarios.group_records import note_records
from tests.conformance.scenarios.share_groups import (
    LEAVE,
    V1,
    Sharers,
    described,
    emptied,
    new_share_group,
    sharing,
    wait_for_coordinator_to_know,
)
from tests.conformance.setup import create_topic, fill, wait_for_group_coordinator

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.conformance.scenario_cluster import ScenarioCluster

_DescribedGroup = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
_DescribedTopic = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
_Topic = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic
_Partition = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
_DeletedTopic = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic


def described_offsets(
    cluster: ScenarioCluster,
    *groups: str,
    topics: Mapping[str, Sequence[int]] | None = None,
    version: int = 1,
) -> None:
    """Make a request to describe a group's offsets, of these topics or of all."""
    rows = (
        None
        if topics is None
        else [
            _DescribedTopic(topic_name=name, partitions=list(indexes))
            for name, indexes in topics.items()
        ]
    )
    request = DescribeShareGroupOffsetsRequest(
        groups=[_DescribedGroup(group_id=group, topics=rows) for group in groups]
    )
    cluster.ask(request, version)


def all_share_offsets(group: str) -> DescribeShareGroupOffsetsRequest:
    """Make a request to describe all offsets of a group."""
    row = _DescribedGroup(group_id=group, topics=None)
    return DescribeShareGroupOffsetsRequest(groups=[row])


def altered(group: str, offsets: Mapping[str, Mapping[int, int]]) -> AlterShareGroupOffsetsRequest:
    """Make a request to alter a group's offsets: topic → partition → offset."""
    return AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            _Topic(
                topic_name=name,
                partitions=[
                    _Partition(partition_index=index, start_offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in offsets.items()
        ],
    )


def deleted(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    """Make a request to delete a group's offsets."""
    return DeleteShareGroupOffsetsRequest(
        group_id=group, topics=[_DeletedTopic(topic_name=name) for name in topics]
    )


def share_offsets_are_described(cluster: ScenarioCluster) -> None:
    missing = f"{cluster.name}-missing"
    wait_for_group_coordinator(cluster, missing)
    described_offsets(cluster, missing)
    group, _ = sharing(cluster, partitions=2)
    for version in (0, 1):
        described_offsets(cluster, group.group, version=version)
        described_offsets(
            cluster,
            group.group,
            topics={group.topic: [0, 1], f"{cluster.name}-none": [0, 3]},
            version=version,
        )
    described_offsets(cluster, group.group, topics={group.topic: []})
    described_offsets(cluster, group.group, topics={})
    described_offsets(cluster, missing, topics={group.topic: [0]})
    described_offsets(cluster, "", topics={group.topic: [0]})
    described_offsets(cluster, group.group, missing)


def share_offsets_are_altered(cluster: ScenarioCluster) -> None:
    group = emptied(cluster)
    fill(cluster, group.topic, b"a", b"b", b"c", partition=1)
    cluster.ask(altered(group.group, {group.topic: {0: 0, 1: 2}}), 0)
    described_offsets(cluster, group.group)
    described(cluster, group.group)
    cluster.ask(altered(group.group, {group.topic: {1: 1}}), 0)
    described_offsets(cluster, group.group, topics={group.topic: [0, 1]})
    cluster.ask(group.join("a"), V1)
    described_offsets(cluster, group.group)


def share_offsets_are_altered_before_there_is_a_group(cluster: ScenarioCluster) -> None:
    group = new_share_group(cluster, partitions=2)
    fill(cluster, group.topic, b"a", b"b")
    cluster.ask(altered(group.group, {group.topic: {0: 1}}), 0)
    described(cluster, group.group)
    # Kafka answers before the group has recorded the completion.
    cluster.call_until(
        all_share_offsets(group.group), 1, lambda response: bool(response.groups[0].topics)
    )
    joined = cluster.ask(group.join("a"), V1)
    group.given(cluster, "a", joined.member_epoch)
    described_offsets(cluster, group.group)


def alterations_of_share_offsets_are_checked(cluster: ScenarioCluster) -> None:
    group, _ = sharing(cluster, partitions=2)
    cluster.ask(altered(group.group, {group.topic: {0: 0}}), 0)
    cluster.ask(altered("", {group.topic: {0: 0}}), 0)
    cluster.ask(group.beat("a", LEAVE), V1)
    nowhere = f"{cluster.name}-none"
    requests: tuple[dict[str, dict[int, int]], ...] = (
        {},
        {group.topic: {}},
        {group.topic: {7: 0}},
        {group.topic: {-1: 0}},
        {group.topic: {0: -1}},
        {group.topic: {1: -7}},
        {nowhere: {0: 0, 1: 1}},
        {group.topic: {0: 5, 9: 0}, nowhere: {0: 0}},
    )
    for offsets in requests:
        cluster.ask(altered(group.group, offsets), 0)
    described_offsets(cluster, group.group)
    unborn = f"{cluster.name}-unborn"
    wait_for_group_coordinator(cluster, unborn)
    cluster.ask(altered(unborn, {nowhere: {0: 0}}), 0)
    described(cluster, unborn)


def share_offsets_are_deleted(cluster: ScenarioCluster) -> None:
    group = emptied(cluster)
    other = f"{cluster.name}-other"
    create_topic(cluster, other)
    cluster.ask(deleted(group.group, group.topic, other, f"{cluster.name}-none"), 0)
    described_offsets(cluster, group.group)
    described_offsets(cluster, group.group, topics={group.topic: [0, 1]})
    cluster.ask(deleted(group.group, group.topic), 0)
    cluster.ask(deleted(group.group), 0)
    joined = cluster.ask(group.join("a"), V1)
    group.given(cluster, "a", joined.member_epoch)
    described_offsets(cluster, group.group)


def deletions_of_share_offsets_are_checked(cluster: ScenarioCluster) -> None:
    group, _ = sharing(cluster, partitions=1)
    cluster.ask(deleted(group.group, group.topic), 0)
    cluster.ask(deleted("", group.topic), 0)
    missing = f"{cluster.name}-missing"
    wait_for_group_coordinator(cluster, missing)
    cluster.ask(deleted(missing, group.topic), 0)
    idle = f"{cluster.name}-idle"
    wait_for_group_coordinator(cluster, idle)
    waiting = Sharers(idle, f"{cluster.name}-none", bytes(16))
    cluster.ask(waiting.join("a"), V1)
    cluster.ask(waiting.beat("a", LEAVE), V1)
    cluster.ask(deleted(idle, group.topic, waiting.topic), 0)


def share_groups_are_recorded(cluster: ScenarioCluster) -> None:
    """Every kind of record, from the first member to the end of the group."""
    group, epoch = sharing(cluster, partitions=1)
    second = cluster.ask(group.join("b"), V1)
    cluster.ask(group.beat("a", epoch), V1)
    cluster.ask(group.beat("b", second.member_epoch, rack_id="rack-1"), V1)
    other = f"{cluster.name}-other"
    create_topic(cluster, other, 2)
    wait_for_coordinator_to_know(cluster, group.group, other)
    both = [group.topic, other]
    changed = cluster.ask(group.beat("b", second.member_epoch, subscribed_topic_names=both), V1)
    group.reach(cluster, changed.member_epoch + 1, b=changed.member_epoch, a=second.member_epoch)
    note_records(cluster, group.group)
    for member in "ab":
        cluster.ask(group.beat(member, LEAVE), V1)
    cluster.ask(altered(group.group, {group.topic: {0: 0}, other: {1: 0}}), 0)
    cluster.call_until(
        all_share_offsets(group.group),
        1,
        lambda response: any(
            partition.start_offset == 0
            for topic in response.groups[0].topics
            for partition in topic.partitions
        ),
    )
    cluster.ask(deleted(group.group, other), 0)
    cluster.ask(DeleteGroupsRequest(groups_names=[group.group]), 2)
    note_records(cluster, group.group)


SCENARIOS = (
    share_groups_are_recorded,
    share_offsets_are_described,
    share_offsets_are_altered,
    share_offsets_are_altered_before_there_is_a_group,
    alterations_of_share_offsets_are_checked,
    share_offsets_are_deleted,
    deletions_of_share_offsets_are_checked,
)
