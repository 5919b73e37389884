"""Groups, read from the state of their coordinators."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from kafkalite.control.command_table import CommandError, running_cluster
from kafkalite.control.group_status import (
    DEAD,
    GroupMember,
    GroupOffset,
    GroupStatus,
    ListedGroup,
    TopicPartitions,
)
from kafkalite.control.internal_requests import answer_of
from kafkalite.control.turns import in_turns, sorted_in_turns
from kafkalite.groups import assigned_partitions
from kafkalite.groups.classic.membership import subscribed_topics
from kafkalite.groups.consumer.describe import describe_member as describe_consumer
from kafkalite.groups.consumer.group import topics_of
from kafkalite.groups.group import GroupType, OffsetAndMetadata
from kafkalite.groups.share.describe import describe_member as describe_share_member
from kafkalite.groups.share.simple_assignor import SIMPLE_ASSIGNOR
from kafkalite.groups.streams.describe import describe_member as describe_streams_member
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.similar_names import similar_names_hint
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kafkalite.cluster.cluster import Cluster
    from kafkalite.coordinator.active_shard import ActiveShard
    from kafkalite.groups.classic.group import ClassicGroup
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.group import Group
    from kafkalite.groups.shard import GroupShard
    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.groups.streams.group import StreamsGroup
    from kafkalite.metadata.image import MetadataImage
    from kafkalite.protocol._generated.messages.streams_group_describe import (
        StreamsGroupDescribeResponse,
    )
    from kafkalite.server.broker import Broker

_CONSUMER: Final = 1
"""The type of a member that uses the consumer protocol, in ConsumerGroupDescribe."""
_NO_EPOCH: Final = -1
_OFFSETS_PER_TURN: Final = 500
_UNKNOWN: Final = -1


class UnknownGroupError(CommandError):
    """There is no group with this id."""


class FoundGroup(NamedTuple):
    """A group and the shard of its coordinator."""

    group: Group
    shard: ActiveShard[GroupShard]

    @property
    def members(self) -> Mapping[str, object]:
        """The members by id."""
        return _KINDS[self.group.group_type].members(self.group)


def find_group(cluster: Cluster, group_id: str) -> FoundGroup:
    """Return a group.

    Raises UnknownGroupError with similar names, and CommandError if no node coordinates the group.
    """
    found = group_if_exists(cluster, group_id)
    if found is not None:
        return found
    shards = cluster.groups.shards()
    known = (each.group.group_id for shard in shards for each in _groups_of(shard))
    raise UnknownGroupError(
        f"there is no group {group_id[:249]!r}{similar_names_hint(group_id, known)}"
    )


def group_if_exists(cluster: Cluster, group_id: str) -> FoundGroup | None:
    """Return a group, None if it does not exist, without a search for similar names.

    Raises CommandError if no node coordinates the group.
    """
    if OFFSETS_TOPIC not in cluster.metadata.image.topics:
        return None
    groups = cluster.groups
    try:
        shard = groups.shard_for(group_id)
    except KafkaError as error:
        raise CommandError(
            f"group {group_id[:249]!r} has no coordinator: no node leads partition "
            f"{groups.partition_for(group_id)} of {OFFSETS_TOPIC}, or it cannot be read"
        ) from error
    group = shard.machine.group(group_id)
    return None if group is None else FoundGroup(group, shard)


def _groups_of(shard: ActiveShard[GroupShard]) -> Iterator[FoundGroup]:
    """Yield the groups that a shard has now."""
    return (FoundGroup(each, shard) for each in tuple(shard.machine.directory.groups.values()))


async def list_groups(broker: Broker) -> list[ListedGroup]:
    """Return all groups by id."""
    cluster = running_cluster(broker)
    await _end_sessions(cluster)
    listed = [
        _listed(each)
        for shard in cluster.groups.shards()
        async for each in in_turns(_groups_of(shard))
    ]
    return [each async for each in sorted_in_turns(listed, attrgetter("group_id"))]


def _listed(found: FoundGroup) -> ListedGroup:
    group = found.group
    return ListedGroup(
        group_id=group.group_id,
        type=group.group_type.value,
        protocol_type=group.protocol_type,
        state=group.state_name(),
        coordinator=found.shard.leader_id,
        members=len(found.members),
    )


async def describe_group(broker: Broker, group_id: str) -> GroupStatus:
    """Return a group with its members and offsets; raises the errors of `find_group`.

    A group with few members and offsets is described at one moment.
    """
    cluster = running_cluster(broker)
    await _end_sessions(cluster)
    found = find_group(cluster, group_id)
    group, shard = found
    kind = _KINDS[group.group_type]
    state, epoch, assignment_epoch = group.state_name(), *kind.epochs(group)
    protocol = kind.protocol(group, shard.machine)
    image = cluster.metadata.image
    # Members may join and leave while those of a large group are described.
    members = [
        kind.describe(group, each, image)
        async for each in in_turns(tuple(found.members))
        if each in found.members
    ]
    if group.group_type is GroupType.SHARE:
        offsets = await _share_offsets(broker, group_id, shard.leader_id)
    else:
        offsets = await _committed_offsets(cluster, shard.machine, group_id, members)
    return GroupStatus(
        group_id=group_id,
        type=group.group_type.value,
        protocol_type=group.protocol_type,
        protocol=protocol,
        state=state,
        epoch=epoch,
        assignment_epoch=assignment_epoch,
        coordinator=shard.leader_id,
        members=tuple(sorted(members, key=attrgetter("member_id"))),
        offsets=tuple(offsets),
    )


def status_of_past(group: Group, machine: GroupShard, image: MetadataImage) -> GroupStatus:
    """Return a group of a machine that no node serves, without ends of partitions and lags."""
    kind = _KINDS[group.group_type]
    offsets = [
        _offset(None, topic, index, committed, None)
        for topic, by_index in sorted(machine.offsets.of_group(group.group_id).items())
        for index, committed in sorted(by_index.items())
    ]
    epoch, assignment_epoch = kind.epochs(group)
    return GroupStatus(
        group_id=group.group_id,
        type=group.group_type.value,
        protocol_type=group.protocol_type,
        protocol=kind.protocol(group, machine),
        state=group.state_name(),
        epoch=epoch,
        assignment_epoch=assignment_epoch,
        coordinator=None,
        members=tuple(kind.describe(group, each, image) for each in sorted(kind.members(group))),
        offsets=tuple(offsets),
    )


def epoch_and_members(group: Group) -> tuple[int, int]:
    """Return the epoch of a group, the generation of a classic one, and the number of members."""
    kind = _KINDS[group.group_type]
    return kind.epochs(group)[0], len(kind.members(group))


def state_of(cluster: Cluster, group_id: str) -> tuple[str, int]:
    """Return the state of a group and the number of its members.

    A group that does not exist is Dead. Raises CommandError if no node coordinates the group.
    """
    found = group_if_exists(cluster, group_id)
    return (DEAD, 0) if found is None else (found.group.state_name(), len(found.members))


async def _end_sessions(cluster: Cluster) -> None:
    """Let sessions end whose time is over, as requests about groups do."""
    is_done = asyncio.Event()
    if cluster.clock.after_due_calls(is_done.set) is not None:
        await is_done.wait()


# Members


def _classic_member(group: ClassicGroup, member_id: str, image: MetadataImage) -> GroupMember:
    del image
    member = group.soft.members[member_id]
    is_consumer = group.protocol_type == "consumer"
    assigned = assigned_partitions.of_classic_member(member.assignment if is_consumer else b"")
    subscribed: frozenset[str] = frozenset()
    if is_consumer and member.protocols:
        with suppress(ValueError):
            subscribed = subscribed_topics(member.protocols[0][1])
    return GroupMember(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        protocol=GroupType.CLASSIC.value,
        epoch=group.soft.generation_id,
        subscription=tuple(sorted(subscribed)),
        assignment=_partitions(assigned),
    )


def _consumer_member(group: ConsumerGroup, member_id: str, image: MetadataImage) -> GroupMember:
    member = describe_consumer(group, member_id, image)
    is_classic = member.member_type != _CONSUMER
    return GroupMember(
        member_id=member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        protocol=(GroupType.CLASSIC if is_classic else GroupType.CONSUMER).value,
        epoch=member.member_epoch,
        subscription=tuple(sorted(topics_of(group.members[member_id], group.resolved_regexes))),
        assignment=_partitions(assigned_partitions.of_member(member.assignment)),
    )


def _share_member(group: ShareGroup, member_id: str, image: MetadataImage) -> GroupMember:
    member = describe_share_member(group, member_id, image)
    return GroupMember(
        member_id=member_id,
        instance_id=None,
        client_id=member.client_id,
        host=member.client_host,
        protocol=GroupType.SHARE.value,
        epoch=member.member_epoch,
        subscription=tuple(member.subscribed_topic_names),
        assignment=_partitions(assigned_partitions.of_member(member.assignment)),
    )


def _streams_member(group: StreamsGroup, member_id: str, image: MetadataImage) -> GroupMember:
    member = describe_streams_member(group, member_id)
    subtopologies = {} if group.topology is None else group.topology.subtopologies
    inputs = {key: each.inputs() for key, each in subtopologies.items()}
    assigned = assigned_partitions.of_tasks(member.assignment.active_tasks, inputs)
    counts = {each: len(image.topics[each].partitions) for each in assigned if each in image.topics}
    existing = {
        topic: [each for each in indexes if each < counts.get(topic, 0)]
        for topic, indexes in assigned.items()
    }
    return GroupMember(
        member_id=member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        protocol=GroupType.STREAMS.value,
        epoch=member.member_epoch,
        subscription=tuple(sorted({topic for each in inputs.values() for topic in each})),
        assignment=_partitions(existing),
        active_tasks=_tasks(member.assignment.active_tasks),
        standby_tasks=_tasks(member.assignment.standby_tasks),
        warmup_tasks=_tasks(member.assignment.warmup_tasks),
    )


def _tasks(tasks: Iterable[StreamsGroupDescribeResponse.TaskIds]) -> tuple[str, ...]:
    """Return tasks as Kafka Streams names them: subtopology and partition."""
    return tuple(f"{each.subtopology_id}_{index}" for each in tasks for index in each.partitions)


def _partitions(by_topic: Mapping[str, Iterable[int]]) -> tuple[TopicPartitions, ...]:
    found = (TopicPartitions(topic, tuple(sorted(indexes))) for topic, indexes in by_topic.items())
    return tuple(sorted((each for each in found if each.partitions), key=attrgetter("topic")))


class _Kind(NamedTuple):
    """How groups of one type are read."""

    members: Callable[[Any], Mapping[str, object]]
    epochs: Callable[[Any], tuple[int, int | None]]
    """Returns the epoch of a group and of its target assignment."""
    protocol: Callable[[Any, GroupShard], str]
    describe: Callable[[Any, str, MetadataImage], GroupMember]


def _modern(
    protocol: Callable[[Any, GroupShard], str],
    describe: Callable[[Any, str, MetadataImage], GroupMember],
) -> _Kind:
    return _Kind(attrgetter("members"), attrgetter("epoch", "target_epoch"), protocol, describe)


_KINDS: Final[Mapping[GroupType, _Kind]] = {
    GroupType.CLASSIC: _Kind(
        attrgetter("soft.members"),
        lambda group: (group.soft.generation_id, None),
        lambda group, _: group.soft.protocol_name or "",
        _classic_member,
    ),
    GroupType.CONSUMER: _modern(
        lambda group, machine: machine.consumer.assignor_of(group), _consumer_member
    ),
    GroupType.SHARE: _modern(lambda _, __: SIMPLE_ASSIGNOR, _share_member),
    GroupType.STREAMS: _modern(
        lambda group, machine: machine.streams.assignor_of(group), _streams_member
    ),
}


# Offsets


async def _committed_offsets(
    cluster: Cluster, machine: GroupShard, group_id: str, members: Iterable[GroupMember]
) -> list[GroupOffset]:
    """Return the committed offsets, and the assigned partitions without one."""
    owners: dict[str, dict[int, str]] = {}
    assigned = (
        (each.topic, partition, member.member_id)
        for member in members
        for each in member.assignment
        for partition in each.partitions
    )
    async for topic, partition, member_id in in_turns(assigned):
        owners.setdefault(topic, {})[partition] = member_id
    stored = machine.offsets.of_group(group_id)
    topics = tuple({*stored, *owners})
    offsets: list[GroupOffset] = []
    async for topic in sorted_in_turns(topics, str):
        committed, owners_by_index = stored.get(topic, {}), owners.get(topic, {})
        async for index in sorted_in_turns(tuple({*committed, *owners_by_index}), int):
            offset, owner = committed.get(index), owners_by_index.get(index)
            offsets.append(_offset(cluster, topic, index, offset, owner))
            if len(offsets) % _OFFSETS_PER_TURN == 0:
                await asyncio.sleep(0)
    return offsets


def _offset(
    cluster: Cluster | None,
    topic: str,
    partition: int,
    committed: OffsetAndMetadata | None,
    member_id: str | None,
) -> GroupOffset:
    end_offset = None if cluster is None else _end_offset(cluster, topic, partition)
    if committed is None:
        return GroupOffset(topic, partition, None, None, "", None, end_offset, None, member_id)
    epoch = committed.leader_epoch
    return GroupOffset(
        topic=topic,
        partition=partition,
        offset=committed.offset,
        leader_epoch=None if epoch == _NO_EPOCH else epoch,
        metadata=committed.metadata,
        committed_ms=committed.commit_timestamp_ms,
        end_offset=end_offset,
        # An offset of -1 is no position for Kafka's tools.
        lag=None if end_offset is None or committed.offset < 0 else end_offset - committed.offset,
        member_id=member_id,
    )


def _end_offset(cluster: Cluster, topic: str, index: int) -> int | None:
    """Return the high watermark, which ListOffsets returns; None without a leader."""
    image = cluster.metadata.image.topics.get(topic)
    hosted = cluster.partitions.topic(topic)
    if image is None or hosted is None or not 0 <= index < len(image.partitions):
        return None
    if image.partitions[index].leader < 0:
        return None
    try:
        partition = hosted.partition(index)
    except KafkaError:
        return None
    return None if partition is None else partition.high_watermark


async def _share_offsets(broker: Broker, group_id: str, node_id: int) -> list[GroupOffset]:
    """Return the start offsets of a share group as DescribeShareGroupOffsets does."""
    cluster = running_cluster(broker)
    request = DescribeShareGroupOffsetsRequest(
        groups=[
            DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
                group_id=group_id, topics=None
            )
        ]
    )
    (described,) = (await answer_of(broker, request, cluster.nodes[node_id])).groups
    offsets: list[GroupOffset] = []
    rows = [
        (topic.topic_name, each)
        for topic in described.topics
        for each in topic.partitions
        if each.error_code == ErrorCode.NONE
    ]
    async for topic, each in sorted_in_turns(rows, lambda row: (row[0], row[1].partition_index)):
        is_known = each.start_offset != _UNKNOWN
        offsets.append(
            GroupOffset(
                topic=topic,
                partition=each.partition_index,
                offset=each.start_offset if is_known else None,
                leader_epoch=each.leader_epoch if is_known else None,
                metadata="",
                committed_ms=None,
                end_offset=_end_offset(cluster, topic, each.partition_index),
                lag=None if each.lag == _UNKNOWN else each.lag,
                member_id=None,
            )
        )
    return offsets
