"""Groups of a cluster, of all types: list, describe and delete them, and move their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.brokers import ask_each_broker
from kafkalite.client.coordinator_requests import GROUP, administration_retries, ask_coordinator
from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import (
    BrokerError,
    ClientError,
    UnknownNameError,
    raise_refusal,
    refusal,
)
from kafkalite.client.group_offsets import (
    FETCH_VERSIONS,
    GroupOffsets,
    fetched_group,
    offset_fetch_request,
)
from kafkalite.client.metadata import Metadata
from kafkalite.client.offsets import end_offsets
from kafkalite.groups import assigned_partitions
from kafkalite.groups.group import GroupType
from kafkalite.ports.clock import AdjustableClock
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.delete_groups import DeleteGroupsRequest
from kafkalite.protocol._generated.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
)
from kafkalite.protocol._generated.messages.leave_group import LeaveGroupRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.offset_delete import OffsetDeleteRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol.message import Message

NO_OFFSET: Final = -1
_LIST_VERSIONS: Final = Versions(0, 5)
_CLASSIC_VERSIONS: Final = Versions(0, 6)
_CONSUMER_VERSIONS: Final = Versions(0, 1)
_SHARE_VERSIONS: Final = Versions(1, 1)
_STREAMS_VERSIONS: Final = Versions(0, 1)
_DELETE_VERSIONS: Final = Versions(0, 3)
_LEAVE_VERSIONS: Final = Versions(3, 5)
"""Versions with several members."""
_OFFSET_DELETE_VERSIONS: Final = Versions(0, 0)
_SHARE_OFFSETS_VERSIONS: Final = Versions(0, 1)
_ALTER_SHARE_VERSIONS: Final = Versions(0, 0)
_DELETE_SHARE_VERSIONS: Final = Versions(0, 0)
INACTIVE_STATES: Final = ("Empty", "Dead", "")
"""States of a group without members; one that does not exist has an empty state."""


class GroupListing(NamedTuple):
    """A group in a list."""

    group_id: str
    type: str
    """`classic`, `consumer`, `share` or `streams`; before Kafka 3.8 always `classic`."""
    protocol_type: str
    state: str
    """The state; empty before Kafka 2.6."""
    coordinator: int
    """The node that coordinates the group."""


class GroupMemberDescription(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    """The address as Kafka shows it: `/127.0.0.1`."""
    epoch: int | None
    """The epoch of the member; None in a classic group."""
    assignment: tuple[TopicPartition, ...]
    """The partitions; in a streams group, the inputs of active tasks."""
    target: tuple[TopicPartition, ...] | None = None
    """The partitions that a member of a consumer group will have; None in other groups."""


class GroupDescription(NamedTuple):
    """A group and its members."""

    group_id: str
    type: str
    protocol_type: str
    protocol: str
    """The assignor; empty if there is none."""
    state: str
    epoch: int | None
    """The epoch of the group; None for a classic group."""
    coordinator: int
    members: tuple[GroupMemberDescription, ...]
    assignment_epoch: int | None = None
    """The epoch of the target assignment; None for a classic group."""


class GroupPartition(NamedTuple):
    """A partition that a group reads, with the member that has it."""

    partition: TopicPartition
    offset: int | None
    """The committed offset; in a share group the start offset. None without one."""
    end_offset: int | None
    """The high watermark; None without a leader."""
    lag: int | None
    member: GroupMemberDescription | None
    leader_epoch: int | None = None
    """The leader epoch that is committed with the offset; None without one."""


async def list_groups(client: KafkaClient) -> list[GroupListing]:
    """Return the groups of all coordinators by id; raises BrokerError."""
    found: list[GroupListing] = []
    responses = await ask_each_broker(client, ListGroupsRequest(), _LIST_VERSIONS)
    for node_id, response in responses.items():
        raise_refusal(response, f"groups of node {node_id}")
        found += [
            GroupListing(
                each.group_id,
                each.group_type.lower() or GroupType.CLASSIC.value,
                each.protocol_type,
                each.group_state,
                node_id,
            )
            for each in response.groups
        ]
    return sorted(found)


async def find_group(client: KafkaClient, group_id: str) -> GroupListing:
    """Return a group of a list; raises UnknownNameError or BrokerError."""
    known = {each.group_id: each for each in await list_groups(client)}
    if group_id not in known:
        raise UnknownNameError("group", group_id, known)
    return known[group_id]


async def describe_group(client: KafkaClient, group_id: str) -> GroupDescription:
    """Return a group with its members; raises UnknownNameError, BrokerError or TimedOutError."""
    listed = await find_group(client, group_id)
    kind = GroupType(listed.type)
    request, versions = _describe_request(kind, group_id)
    response = await _ask(client, group_id, request, versions)
    (found,) = response.groups
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise UnknownNameError("group", group_id)
    raise_refusal(found, f"group {group_id!r}")
    is_classic = kind is GroupType.CLASSIC
    members = _MEMBERS[kind](found)
    return GroupDescription(
        group_id=group_id,
        type=kind.value,
        protocol_type=listed.protocol_type,
        protocol=found.protocol_data if is_classic else found.assignor_name or "",
        state=found.group_state,
        epoch=None if is_classic else found.group_epoch,
        coordinator=listed.coordinator,
        members=tuple(sorted(members, key=lambda each: each.member_id)),
        assignment_epoch=None if is_classic else found.assignment_epoch,
    )


def _describe_request(kind: GroupType, group_id: str) -> tuple[Message, Versions]:
    match kind:
        case GroupType.CLASSIC:
            return DescribeGroupsRequest(groups=[group_id]), _CLASSIC_VERSIONS
        case GroupType.CONSUMER:
            return ConsumerGroupDescribeRequest(group_ids=[group_id]), _CONSUMER_VERSIONS
        case GroupType.SHARE:
            return ShareGroupDescribeRequest(group_ids=[group_id]), _SHARE_VERSIONS
        case GroupType.STREAMS:
            return StreamsGroupDescribeRequest(group_ids=[group_id]), _STREAMS_VERSIONS


def _classic_members(group: Any) -> list[GroupMemberDescription]:  # noqa: ANN401 - of many versions
    return [
        GroupMemberDescription(
            row.member_id,
            row.group_instance_id,
            row.client_id,
            row.client_host,
            None,
            _sorted(assigned_partitions.of_classic_member(bytes(row.member_assignment))),
        )
        for row in group.members
    ]


def _assigned_members(group: Any) -> list[GroupMemberDescription]:  # noqa: ANN401 - two classes
    """Return the members of a consumer group or of a share group."""
    return [
        GroupMemberDescription(
            row.member_id,
            getattr(row, "instance_id", None),
            row.client_id,
            row.client_host,
            row.member_epoch,
            _sorted(assigned_partitions.of_member(row.assignment)),
            _sorted(assigned_partitions.of_member(row.target_assignment))
            if hasattr(row, "target_assignment")
            else None,
        )
        for row in group.members
    ]


def _streams_members(group: Any) -> list[GroupMemberDescription]:  # noqa: ANN401 - of many versions
    topology = group.topology
    inputs = {
        each.subtopology_id: [
            *each.source_topics,
            *(topic.name for topic in each.repartition_source_topics),
        ]
        for each in (topology.subtopologies or () if topology is not None else ())
    }
    return [
        GroupMemberDescription(
            row.member_id,
            row.instance_id,
            row.client_id,
            row.client_host,
            row.member_epoch,
            _sorted(assigned_partitions.of_tasks(row.assignment.active_tasks, inputs)),
        )
        for row in group.members
    ]


_MEMBERS: Final = {
    GroupType.CLASSIC: _classic_members,
    GroupType.CONSUMER: _assigned_members,
    GroupType.SHARE: _assigned_members,
    GroupType.STREAMS: _streams_members,
}


def _sorted(by_topic: Mapping[str, Iterable[int]]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(topic, each) for topic, rows in by_topic.items() for each in rows)
    )


# Offsets


async def group_partitions(client: KafkaClient, group: GroupDescription) -> list[GroupPartition]:
    """Return the partitions of a group by topic and index, with offsets and lag.

    They are the assigned partitions, and those with a committed offset. Raises BrokerError.
    """
    members = {partition: each for each in group.members for partition in each.assignment}
    starts: dict[TopicPartition, _ShareOffset] = {}
    offsets: dict[TopicPartition, int | None]
    epochs: dict[TopicPartition, int]
    if group.type == GroupType.SHARE.value:
        starts = await _share_offsets(client, group.group_id)
        offsets = {each: row.offset for each, row in starts.items()}
        epochs = {each: row.leader_epoch for each, row in starts.items()}
    else:
        committed = await committed_positions(client, group.group_id)
        offsets = {each: at.offset for each, at in committed.items()}
        epochs = {each: at.leader_epoch for each, at in committed.items()}
    partitions = sorted(members.keys() | offsets.keys())
    ends = await end_offsets(client, partitions)
    return [
        GroupPartition(
            each,
            offsets.get(each),
            ends.get(each),
            starts[each].lag if each in starts else _lag(offsets.get(each), ends.get(each)),
            members.get(each),
            _known_epoch(epochs.get(each, NO_OFFSET)),
        )
        for each in partitions
    ]


def _lag(offset: int | None, end: int | None) -> int | None:
    return None if offset is None or end is None else end - offset


def _known_epoch(epoch: int) -> int | None:
    return None if epoch < 0 else epoch


async def committed_offsets(client: KafkaClient, group_id: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group that is not a share group; raises BrokerError."""
    positions = await committed_positions(client, group_id)
    return {partition: at.offset for partition, at in positions.items()}


async def committed_positions(
    client: KafkaClient, group_id: str
) -> dict[TopicPartition, OffsetAndEpochs]:
    """Return the committed offsets of a group, with their leader epochs; raises BrokerError."""
    commits = await commits_of_group(client, group_id)
    return {
        partition: OffsetAndEpochs(each.offset, each.leader_epoch)
        for partition, each in commits.items()
    }


class Commit(NamedTuple):
    """A committed offset, and what was committed with it."""

    offset: int
    leader_epoch: int
    metadata: str


async def commits_of_group(client: KafkaClient, group_id: str) -> dict[TopicPartition, Commit]:
    """Return the commits of a group that is not a share group; raises BrokerError."""
    request = offset_fetch_request(group_id, None)
    response = await _ask(client, group_id, request, FETCH_VERSIONS)
    found = fetched_group(response)
    raise_refusal(found, f"offsets of group {group_id!r}")
    return {
        TopicPartition(topic.name, row.partition_index): Commit(
            row.committed_offset, row.committed_leader_epoch, row.metadata or ""
        )
        for topic in found.topics
        for row in topic.partitions
        if row.committed_offset != NO_OFFSET
    }


class _ShareOffset(NamedTuple):
    """The start offset of a share group in a partition; None before its first delivery."""

    offset: int | None
    lag: int | None
    leader_epoch: int


async def _share_offsets(client: KafkaClient, group_id: str) -> dict[TopicPartition, _ShareOffset]:
    row = DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(
        group_id=group_id, topics=None
    )
    request = DescribeShareGroupOffsetsRequest(groups=[row])
    response = await _ask(client, group_id, request, _SHARE_OFFSETS_VERSIONS)
    (found,) = response.groups
    raise_refusal(found, f"offsets of group {group_id!r}")
    return {
        TopicPartition(topic.topic_name, each.partition_index): _ShareOffset(
            each.start_offset if each.start_offset >= 0 else None,
            each.lag if each.lag >= 0 else None,
            each.leader_epoch,
        )
        for topic in found.topics
        for each in topic.partitions
        if not each.error_code
    }


async def set_offsets(
    client: KafkaClient, group: GroupListing, offsets: Mapping[TopicPartition, int]
) -> None:
    """Set the offsets of a group without members.

    They are the committed offsets, or the start offsets of a share group. Raises ClientError if
    the group has members, BrokerError or TimedOutError.
    """
    if group.state not in INACTIVE_STATES:
        raise ClientError(
            f"group {group.group_id!r} has members, its state is {group.state}: stop them before "
            "its offsets are changed"
        )
    if not offsets:
        return
    if group.type == GroupType.SHARE.value:
        await _set_share_offsets(client, group.group_id, offsets)
        return
    committed = GroupOffsets(client, Metadata(client, AdjustableClock()), group.group_id)
    await committed.commit(
        {each: OffsetAndEpochs(offset) for each, offset in offsets.items()},
        administration_retries(),
    )


async def _set_share_offsets(
    client: KafkaClient, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    row = AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition
    topics: dict[str, list[Any]] = {}
    for (topic, index), offset in offsets.items():
        topics.setdefault(topic, []).append(row(partition_index=index, start_offset=offset))
    request = AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic, partitions=rows
            )
            for topic, rows in topics.items()
        ],
    )
    response = await _ask(client, group_id, request, _ALTER_SHARE_VERSIONS)
    raise_refusal(response, f"group {group_id!r}")
    for found in response.responses:
        for each in found.partitions:
            raise_refusal(
                each, f"cannot set the offset of {found.topic_name}-{each.partition_index}"
            )


async def delete_offsets(
    client: KafkaClient, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Delete committed offsets, and return the error of each partition; raises BrokerError."""
    row = OffsetDeleteRequest.OffsetDeleteRequestPartition
    topics: dict[str, list[Any]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(row(partition_index=index))
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(name=name, partitions=rows)
            for name, rows in topics.items()
        ],
    )
    response = await _ask(client, group_id, request, _OFFSET_DELETE_VERSIONS)
    raise_refusal(response, f"group {group_id!r}")
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


async def delete_share_offsets(
    client: KafkaClient, group_id: str, topics: Iterable[str]
) -> dict[str, ErrorCode]:
    """Delete the state of a share group in topics, and return the error of each; BrokerError."""
    row = DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic
    request = DeleteShareGroupOffsetsRequest(
        group_id=group_id, topics=[row(topic_name=each) for each in topics]
    )
    response = await _ask(client, group_id, request, _DELETE_SHARE_VERSIONS)
    raise_refusal(response, f"group {group_id!r}")
    return {each.topic_name: ErrorCode(each.error_code) for each in response.responses}


async def delete_groups(
    client: KafkaClient, group_ids: Sequence[str]
) -> dict[str, BrokerError | None]:
    """Delete groups, and return the error of each; None for one that is deleted."""
    results: dict[str, BrokerError | None] = {}
    for group_id in group_ids:
        request = DeleteGroupsRequest(groups_names=[group_id])
        response = await _ask(client, group_id, request, _DELETE_VERSIONS)
        row = response.results[0]
        results[group_id] = refusal(row, f"cannot delete group {group_id!r}")
    return results


async def remove_members(client: KafkaClient, group_id: str, member_ids: Sequence[str]) -> None:
    """Remove members from a classic or a consumer group; raises BrokerError."""
    row = LeaveGroupRequest.MemberIdentity
    request = LeaveGroupRequest(
        group_id=group_id, members=[row(member_id=each) for each in member_ids]
    )
    response = await _ask(client, group_id, request, _LEAVE_VERSIONS)
    raise_refusal(response, f"group {group_id!r}")
    for each in response.members:
        raise_refusal(each, f"cannot remove member {each.member_id!r}")


async def _ask(client: KafkaClient, group_id: str, request: Message, versions: Versions) -> Any:  # noqa: ANN401 - any response class
    """Return the response of the coordinator, after retries while it is loading or moves."""
    return await ask_coordinator(
        client, group_id, GROUP, request, versions, find_error=_retriable_error
    )


def _retriable_error(response: Any) -> ErrorCode:  # noqa: ANN401 - any response class
    """Return a retriable error of the response or of its only group."""
    rows = [response]
    for name in ("groups", "results"):
        rows += getattr(response, name, None) or ()
    codes = [ErrorCode(getattr(row, "error_code", 0)) for row in rows]
    return next((code for code in codes if code.retriable), ErrorCode.NONE)
