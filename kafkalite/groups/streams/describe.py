"""Descriptions of streams groups for StreamsGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.modern import describe as modern
from kafkalite.groups.streams.descriptions import NOT_STORED, PRESENT
from kafkalite.groups.streams.member import NO_TASK_OFFSETS
from kafkalite.groups.streams.tasks import to_structs
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.configured_topology import ConfiguredSubtopology
    from kafkalite.groups.streams.group import StreamsGroup
    from kafkalite.groups.streams.tasks import OwnedTasks, Tasks
    from kafkalite.groups.streams.topology import InternalTopic, SubtopologySpec

Described = StreamsGroupDescribeResponse


def describe_group(group: StreamsGroup, assignor: str) -> Described.DescribedGroup:
    """Describe a group, the assignor of its next assignment, its topology and its members.

    Internal topics have partition counts if all topics of the topology exist and are valid.
    """
    return modern.describe_group(
        Described.DescribedGroup,
        group,
        group.state_name(),
        lambda member_id: describe_member(group, member_id),
        topology=_topology(group),
        assignor_name=assignor,
    )


def attach_description(described: Described.DescribedGroup, group: StreamsGroup) -> None:
    """Add the description of the topology, or the status that it is not stored."""
    stored, topology = group.soft.description, group.topology
    described.topology_description_status = NOT_STORED
    if (
        stored is not None
        and topology is not None
        and stored.topology_epoch == group.descriptions.stored == topology.epoch
    ):
        described.topology_description = stored.description
        described.topology_description_status = PRESENT


def _topology(group: StreamsGroup) -> Described.Topology | None:
    if group.topology is None:
        return None
    subtopologies: Mapping[str, SubtopologySpec | ConfiguredSubtopology]
    subtopologies = group.topology.subtopologies
    configured = group.soft.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        subtopologies = configured.subtopologies
    return Described.Topology(
        epoch=group.topology.epoch,
        subtopologies=[
            Described.Subtopology(
                subtopology_id=name,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sinks),
                repartition_source_topics=_topics(each.repartition_sources),
                state_changelog_topics=_topics(each.changelogs),
            )
            for name, each in subtopologies.items()
        ],
    )


def _topics(topics: Iterable[InternalTopic]) -> list[Described.TopicInfo]:
    return [
        Described.TopicInfo(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[
                Described.KeyValue(key=key, value=value) for key, value in topic.configs
            ],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def describe_member(group: StreamsGroup, member_id: MemberId) -> Described.Member:
    """Describe a member with its tasks."""
    member, current = group.members[member_id], group.current_of(member_id)
    target = group.target.get(member_id)
    endpoint = member.user_endpoint
    offsets = group.soft.task_offsets.get(member_id, NO_TASK_OFFSETS)
    return Described.Member(
        member_id=member_id,
        member_epoch=current.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None
        if endpoint is None
        else Described.Endpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[
            Described.KeyValue(key=key, value=value)
            for key, value in sorted(member.client_tags.items())
        ],
        task_offsets=_task_offsets(offsets.offsets),
        task_end_offsets=_task_offsets(offsets.end_offsets),
        assignment=_assignment(current.assigned),
        target_assignment=Described.Assignment() if target is None else _assignment(target),
    )


def _assignment(tasks: Tasks | OwnedTasks) -> Described.Assignment:
    return Described.Assignment(
        active_tasks=to_structs(Described.TaskIds, tasks.active),
        standby_tasks=to_structs(Described.TaskIds, tasks.standby),
        warmup_tasks=to_structs(Described.TaskIds, tasks.warmup),
    )


def _task_offsets(offsets: Mapping[str, Mapping[int, int]]) -> list[Described.TaskOffset]:
    return [
        Described.TaskOffset(subtopology_id=name, partition=partition, offset=offset)
        for name, by_partition in sorted(offsets.items())
        for partition, offset in sorted(by_partition.items())
    ]
