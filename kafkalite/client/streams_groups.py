"""Streams groups: their topology, and the tasks of their members (KIP-1071)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.client.coordinator_requests import GROUP, ask_coordinator
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import UnknownNameError, raise_refusal
from kafkalite.client.groups import find_group
from kafkalite.groups.group import GroupType
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.client.client import KafkaClient
    from kafkalite.protocol._generated.messages.streams_group_describe import (
        StreamsGroupDescribeResponse,
    )

_VERSIONS: Final = Versions(0, 1)
NOT_STORED: Final = 1
"""The status of the description of a topology that the broker does not have."""

TaskIds = tuple[str, tuple[int, ...]]
"""The id of a subtopology, and partitions."""


class Tasks(NamedTuple):
    """The tasks of a member."""

    active: tuple[TaskIds, ...]
    standby: tuple[TaskIds, ...]
    warmup: tuple[TaskIds, ...]

    @classmethod
    def of(cls, row: Any) -> Tasks:  # noqa: ANN401 - of the response
        """Return the tasks in an assignment of the response."""
        return cls(
            *(
                tuple((each.subtopology_id, tuple(each.partitions)) for each in tasks)
                for tasks in (row.active_tasks, row.standby_tasks, row.warmup_tasks)
            )
        )


class StreamsMember(NamedTuple):
    """A member of a streams group."""

    member_id: str
    epoch: int
    topology_epoch: int
    process_id: str
    client_id: str
    is_classic: bool
    tasks: Tasks
    target: Tasks


class StreamsGroup(NamedTuple):
    """A streams group, its topology and its members."""

    group_id: str
    state: str
    epoch: int
    assignment_epoch: int
    assignor: str
    coordinator: int
    topology_epoch: int
    inputs: Mapping[str, tuple[str, ...]]
    """Subtopology → the topics that it reads, internal ones too."""
    internal_topics: tuple[str, ...]
    """Topics of changelogs and of repartitions, sorted."""
    members: tuple[StreamsMember, ...]
    description: StreamsGroupDescribeResponse.TopologyDescription | None
    """The description of the topology (KIP-1331), if it was requested and the broker has it."""
    topology_status: int
    """The status of the description of the topology; 0 if it was not requested."""

    @property
    def input_topics(self) -> tuple[str, ...]:
        """The topics that the application reads and does not write itself, sorted."""
        found = {topic for topics in self.inputs.values() for topic in topics}
        return tuple(sorted(found - set(self.internal_topics)))

    @property
    def read_partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that active tasks read, sorted."""
        return tuple(
            sorted(
                {
                    TopicPartition(topic, index)
                    for member in self.members
                    for subtopology, indexes in member.tasks.active
                    for topic in self.inputs.get(subtopology, ())
                    for index in indexes
                }
            )
        )


async def describe_streams_group(
    client: KafkaClient, group_id: str, *, with_topology: bool = False
) -> StreamsGroup:
    """Return a streams group; raises UnknownNameError, BrokerError or TimedOutError.

    `with_topology` requests the status of the description of the topology.
    """
    listed = await find_group(client, group_id)
    if listed.type != GroupType.STREAMS.value:
        raise UnknownNameError("streams group", group_id)
    request = StreamsGroupDescribeRequest(
        group_ids=[group_id], include_topology_description=with_topology
    )
    response = await ask_coordinator(
        client, group_id, GROUP, request, _VERSIONS, find_error=_error_of
    )
    (found,) = response.groups
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise UnknownNameError("streams group", group_id)
    raise_refusal(found, f"group {group_id!r}")
    subtopologies = (found.topology.subtopologies or ()) if found.topology is not None else ()
    return StreamsGroup(
        group_id=group_id,
        state=found.group_state,
        epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor=getattr(found, "assignor_name", None) or "",
        coordinator=listed.coordinator,
        topology_epoch=0 if found.topology is None else found.topology.epoch,
        inputs={
            each.subtopology_id: (
                *each.source_topics,
                *(topic.name for topic in each.repartition_source_topics),
            )
            for each in subtopologies
        },
        internal_topics=_internal_topics(subtopologies),
        members=tuple(sorted(map(_member, found.members))),
        description=getattr(found, "topology_description", None),
        topology_status=getattr(found, "topology_description_status", 0),
    )


def _internal_topics(subtopologies: Iterable[Any]) -> tuple[str, ...]:
    return tuple(
        sorted(
            {
                topic.name
                for each in subtopologies
                for topic in (*each.state_changelog_topics, *each.repartition_source_topics)
            }
        )
    )


def _member(row: Any) -> StreamsMember:  # noqa: ANN401 - of the response
    return StreamsMember(
        row.member_id,
        row.member_epoch,
        row.topology_epoch,
        row.process_id,
        row.client_id,
        row.is_classic,
        Tasks.of(row.assignment),
        Tasks.of(row.target_assignment),
    )


def _error_of(response: Any) -> ErrorCode:  # noqa: ANN401 - a StreamsGroupDescribeResponse
    """Return a retriable error of the only group."""
    code = ErrorCode(response.groups[0].error_code)
    return code if code.retriable else ErrorCode.NONE
