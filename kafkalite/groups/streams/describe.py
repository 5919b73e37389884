"""What StreamsGroupDescribe tells of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.configured import ConfiguredSubtopology
    from kafkalite.groups.streams.group import StreamsGroup
    from kafkalite.groups.streams.tasks import EpochsOfTasks, HeldTasks, TaskIds, Tasks
    from kafkalite.groups.streams.topology import InternalTopic, SubtopologySpec

Described = StreamsGroupDescribeResponse


def describe_group(group: StreamsGroup) -> Described.DescribedGroup:
    """Describe a group, its topology and its members.

    Internal topics have their numbers of partitions once the topology's topics are in order.
    """
    return Described.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name(),
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member_id) for member_id in sorted(group.members)],
    )


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


def _member(group: StreamsGroup, member_id: MemberId) -> Described.Member:
    member, current = group.members[member_id], group.current_of(member_id)
    target = group.target.get(member_id)
    endpoint = member.user_endpoint
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
        assignment=_assignment(current.assigned),
        target_assignment=Described.Assignment() if target is None else _assignment(target),
    )


def _assignment(tasks: Tasks | HeldTasks) -> Described.Assignment:
    return Described.Assignment(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )


def _task_ids(tasks: TaskIds | EpochsOfTasks) -> list[Described.TaskIds]:
    return [
        Described.TaskIds(subtopology_id=name, partitions=sorted(partitions))
        for name, partitions in sorted(tasks.items())
    ]
