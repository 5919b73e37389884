"""Committed offsets: stored, fetched and refused, in every version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.setup import UNKNOWN_ID, create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_BATCHED = 8
_BY_ID = 10
_NO_MEMBER = ""
_OFFSET = 5


def commit(
    group: str,
    topic: str,
    *partitions: int,
    member_id: str = _NO_MEMBER,
    epoch: int = -1,
    instance: str | None = None,
    topic_id: bytes = bytes(16),
    metadata: str | None = "note",
    offset: int = _OFFSET,
    leader_epoch: int = -1,
) -> OffsetCommitRequest:
    """Ask to commit the same offset for partitions of one topic."""
    row = OffsetCommitRequest.OffsetCommitRequestPartition
    named = OffsetCommitRequest.OffsetCommitRequestTopic(
        name=topic,
        topic_id=topic_id,
        partitions=[
            row(
                partition_index=index,
                committed_offset=offset + index,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
            for index in partitions
        ],
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance,
        topics=[named],
    )


def fetch(
    group: str,
    topic: str,
    *partitions: int,
    topic_id: bytes = bytes(16),
    member_id: str | None = None,
    epoch: int = -1,
) -> OffsetFetchRequest:
    """Make an OffsetFetch that fills the fields of every version."""
    old = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=list(partitions))
    new = OffsetFetchRequest.OffsetFetchRequestTopics(
        name=topic, topic_id=topic_id, partition_indexes=list(partitions)
    )
    batched = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=group, member_id=member_id, member_epoch=epoch, topics=[new]
    )
    return OffsetFetchRequest(group_id=group, topics=[old], groups=[batched])


def fetch_all(*groups: str) -> OffsetFetchRequest:
    """Ask for everything that groups have committed."""
    row = OffsetFetchRequest.OffsetFetchRequestGroup
    return OffsetFetchRequest(
        group_id=groups[0],
        topics=None,
        groups=[row(group_id=group, topics=None) for group in groups],
    )


def offsets_are_committed_and_fetched_in_every_version(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, partitions=2)
    for version in range(2, 11):
        group = f"{cluster.name}-{version}"
        wait_for_group_coordinator(cluster, group)
        cluster.ask(commit(group, cluster.name, 0, 1, topic_id=topic_id, leader_epoch=0), version)
        cluster.ask(fetch(group, cluster.name, 0, 1, 7, topic_id=topic_id), version)
    for version in (1, *range(2, 11)):
        cluster.ask(fetch(f"{cluster.name}-9", cluster.name, 1, topic_id=topic_id), version)


DELETE_UNNAMED: Final = DeleteGroupsRequest(groups_names=[""])
"""Deletes the group that scenarios share, because it has no name."""


def all_offsets_of_a_group_are_fetched(cluster: ScenarioCluster) -> None:
    first, second = f"{cluster.name}-a", f"{cluster.name}-b"
    create_topic(cluster, first)
    create_topic(cluster, second)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, first, 0), 8)
    cluster.ask(commit(cluster.name, second, 0), 8)
    for version in range(2, 11):
        cluster.ask(fetch_all(cluster.name), version)
    many = fetch_all(cluster.name, f"{cluster.name}-missing", "")
    cluster.probe(DELETE_UNNAMED, 2)
    for version in (8, 9, 10):
        cluster.ask(many, version)


def offsets_of_unknown_groups_are_none(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for version in range(1, 11):
        request = fetch(cluster.name, cluster.name, 0, topic_id=topic_id)
        cluster.ask(request, version)
    for version in (1, 7, 8, 9):
        cluster.ask(fetch("", cluster.name, 0), version)


def stable_offsets_can_be_required(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, cluster.name, 0), 8)
    for version in (7, 8, 9):
        request = fetch(cluster.name, cluster.name, 0)
        request.require_stable = True
        cluster.ask(request, version)


def commits_to_unknown_partitions_are_refused(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for version in (2, 8, 9):
        cluster.ask(commit(cluster.name, f"{cluster.name}-missing", 0), version)
        cluster.ask(commit(cluster.name, cluster.name, 0, 7), version)
        cluster.ask(commit("", cluster.name, 0), version)
        cluster.ask(commit(cluster.name, "in valid", 0), version)
    cluster.ask(commit(cluster.name, "", 0, topic_id=UNKNOWN_ID), _BY_ID)
    cluster.ask(commit(cluster.name, "", 0), _BY_ID)
    cluster.ask(commit(cluster.name, "", 7, topic_id=topic_id), _BY_ID)
    cluster.ask(fetch(cluster.name, "", 0, topic_id=UNKNOWN_ID), _BY_ID)


def topics_of_unknown_ids_are_answered_last(cluster: ScenarioCluster) -> None:
    first, second = f"{cluster.name}-a", f"{cluster.name}-b"
    ids = [
        create_topic(cluster, first),
        UNKNOWN_ID,
        create_topic(cluster, second),
        UNKNOWN_ID[::-1],
    ]
    wait_for_group_coordinator(cluster, cluster.name)
    cluster.ask(commit(cluster.name, first, 0), 8)
    row = OffsetFetchRequest.OffsetFetchRequestTopics
    orders = ([1, 0, 3, 2], [0, 1, 2, 3], [1, 3], [1, 2])
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=cluster.name,
                topics=[row(topic_id=ids[index], partition_indexes=[0]) for index in order],
            )
            for order in orders
        ]
    )
    answer = cluster.ask(request, _BY_ID)
    for group in answer.groups:
        cluster.record("topics in order", [ids.index(topic.topic_id) for topic in group.topics])


def commit_metadata_has_a_limit(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    for size in (4096, 4097):
        cluster.ask(commit(cluster.name, cluster.name, 0, metadata="m" * size), 8)
    cluster.ask(commit(cluster.name, cluster.name, 0, metadata=None), 8)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)
    cluster.ask(commit(cluster.name, cluster.name, 0, offset=-3), 8)
    cluster.ask(fetch(cluster.name, cluster.name, 0), 8)


def commits_of_members_are_checked(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    _group, member, generation = stable_group(cluster, cluster.name)

    def committed(member_id: str, epoch: int, version: int, instance: str | None = None) -> None:
        request = commit(
            cluster.name,
            cluster.name,
            0,
            member_id=member_id,
            epoch=epoch,
            instance=instance,
            topic_id=topic_id,
        )
        cluster.ask(request, version)

    for version in (2, 7, 8, 9, 10):
        committed(member, generation, version)
        committed(member, generation + 1, version)
        committed(member, -1, version)
        committed("unknown", generation, version)
        committed(_NO_MEMBER, -1, version)
        committed(_NO_MEMBER, generation, version)
    committed(member, generation, 7, instance="no-such-instance")


def commits_to_unknown_groups_are_checked(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    for version in (2, 7, 8, 9, 10):
        group = f"{cluster.name}-{version}"
        wait_for_group_coordinator(cluster, group)
        for member, epoch in (("member", 1), ("member", -1), ("", 1), ("", 0)):
            request = commit(
                group, cluster.name, 0, member_id=member, epoch=epoch, topic_id=topic_id
            )
            cluster.ask(request, version)


def commits_during_a_rebalance_are_checked(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    group, member, generation = stable_group(cluster, cluster.name)
    refused = cluster.ask(group.join(), 9, on="second")
    cluster.send(group.join(refused.member_id), 9, on="second")
    cluster.call_until(group.heartbeat(member, generation), 4, lambda found: found.error_code != 0)
    named = {"member_id": member, "epoch": generation}
    for version in (2, 8):
        cluster.ask(commit(cluster.name, cluster.name, 0, **named), version)  # type: ignore[arg-type]
    joined = cluster.ask(group.join(member), 9)
    cluster.receive("second", title="the join of the second")
    after = commit(cluster.name, cluster.name, 0, member_id=member, epoch=joined.generation_id)
    for version in (2, 8):
        cluster.ask(after, version)


def static_members_commit_by_their_instance(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    wait_for_group_coordinator(cluster, cluster.name)
    group = Classic(cluster.name)
    joined = cluster.ask(group.join(instance="i-1"), 9)
    member, generation = joined.member_id, joined.generation_id
    cluster.ask(group.sync(member, generation, member, instance="i-1"), 5)
    for member_id in (member, "wrong"):
        request = commit(
            cluster.name, cluster.name, 0, member_id=member_id, epoch=generation, instance="i-1"
        )
        for version in (7, 9):
            cluster.ask(request, version)


SCENARIOS = (
    offsets_are_committed_and_fetched_in_every_version,
    all_offsets_of_a_group_are_fetched,
    offsets_of_unknown_groups_are_none,
    stable_offsets_can_be_required,
    commits_to_unknown_partitions_are_refused,
    topics_of_unknown_ids_are_answered_last,
    commit_metadata_has_a_limit,
    commits_of_members_are_checked,
    commits_to_unknown_groups_are_checked,
    commits_during_a_rebalance_are_checked,
    static_members_commit_by_their_instance,
)
