"""Admission: whether a heartbeat comes from a member, at an epoch it may have.

Kafka 4.3 knows no static members of streams groups: a request with an instance id is refused before
it comes here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.group import GroupType
from kafkalite.groups.streams.commits import check_member
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.member import JOIN_EPOCH
from kafkalite.groups.streams.tasks import Tasks
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, Record
    from kafkalite.groups.streams.member import CurrentTasks
    from kafkalite.groups.streams.tasks import TaskIds
    from kafkalite.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest


def find_group(directory: GroupDirectory, group_id: GroupId) -> StreamsGroup:
    """Return a streams group; KafkaError(GROUP_ID_NOT_FOUND) when there is none of that type."""
    group = directory.groups.get(group_id)
    if isinstance(group, StreamsGroup):
        return group
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Streams group {group_id} not found."
        if group is None
        else f"Group {group_id} is not a streams group.",
    )


def find_or_found_group(
    directory: GroupDirectory, group_id: GroupId, *, is_joining: bool
) -> tuple[StreamsGroup, tuple[Record, ...]]:
    """Return the group a heartbeat is for, a new one for a first member.

    An empty classic group in the way makes room: the records say so.
    """
    if is_joining:
        group = directory.groups.get(group_id)
        if group is None:
            return StreamsGroup(group_id, directory), ()
        if group.group_type is GroupType.CLASSIC and group.is_empty():
            return StreamsGroup(group_id, directory), tuple(group.tombstones())
    return find_group(directory, group_id), ()


def check_room(group: StreamsGroup, max_size: int) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) when nobody may join, not even a member anew."""
    if len(group.members) >= max_size:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {max_size} members.",
            {"members": len(group.members), "max_size": max_size},
        )


def admit(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, reported: Tasks | None
) -> CurrentTasks:
    """Return what a member has; KafkaError when it is none, or not at the epoch it says."""
    if request.member_epoch == JOIN_EPOCH:
        return group.current_of(request.member_id)
    check_member(group, request.member_id)
    current = group.current_of(request.member_id)
    check_epoch(request.member_epoch, current, reported)
    return current


def check_epoch(received: int, current: CurrentTasks, reported: Tasks | None) -> None:
    """Raise KafkaError(FENCED_MEMBER_EPOCH) unless a member may be at the epoch it sent.

    It may be one step behind, when the answer that told it of the step was lost: then it can own
    nothing that the step took from it.
    """
    expected = current.member_epoch
    if received == expected:
        return
    if (
        received == current.previous_member_epoch
        and received < expected
        and reported is not None
        and reported.are_within(current.assigned)
    ):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member is at epoch {expected}, not {received}; it has to give up all its tasks and "
        "join again.",
        {
            "rule": "member-epoch",
            "epoch": received,
            "member_epoch": expected,
            "previous_member_epoch": current.previous_member_epoch,
        },
    )


def reported_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks a member says it owns; None when it does not say."""
    if request.active_tasks is None:
        return None
    return Tasks(
        active=_reported(request.active_tasks),
        standby=_reported(request.standby_tasks or ()),
        warmup=_reported(request.warmup_tasks or ()),
    )


def _reported(tasks: Iterable[StreamsGroupHeartbeatRequest.TaskIds]) -> TaskIds:
    reported: dict[str, set[int]] = {}
    for each in tasks:
        reported.setdefault(each.subtopology_id, set()).update(each.partitions)
    return reported
