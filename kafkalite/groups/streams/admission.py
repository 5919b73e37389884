"""Admission: checks of a heartbeat's member id and member epoch.

Streams groups have no static members in Kafka 4.3: requests with an instance id are refused
earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.group import GroupType
from kafkalite.groups.modern.admission import (
    check_epoch,
    find_group_of_heartbeat,
    find_member,
    group_full_error,
)
from kafkalite.groups.modern.member import JOIN_EPOCH
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.streams.member import CurrentTasks
    from kafkalite.groups.streams.tasks import TaskIds
    from kafkalite.protocol._generated.messages.streams_group_heartbeat import (
        StreamsGroupHeartbeatRequest,
    )


def find_or_create_group(
    directory: GroupDirectory, group_id: GroupId, *, is_joining: bool
) -> tuple[StreamsGroup, tuple[Record, ...]]:
    """Return the group of a heartbeat, which is new if its first member joins.

    A new group replaces an empty classic group with the same id. The result then includes the
    tombstones of the classic group.
    """
    group = directory.groups.get(group_id)
    if is_joining:
        if group is None:
            return StreamsGroup(group_id, directory), ()
        if group.group_type is GroupType.CLASSIC and group.is_empty():
            return StreamsGroup(group_id, directory), tuple(group.tombstones())
    return find_group_of_heartbeat(directory.groups, group_id, StreamsGroup), ()


def check_max_size(group: StreamsGroup, member_id: MemberId, max_size: int) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) for any join to a full group, even a rejoin."""
    if len(group.members) >= max_size:
        raise group_full_error(group, member_id, max_size)


def admit(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, reported: Tasks | None
) -> CurrentTasks:
    """Return a member's tasks; raises KafkaError for an unknown member or a wrong epoch."""
    member_id = request.member_id
    current = group.current_of(member_id)
    if request.member_epoch != JOIN_EPOCH:
        find_member(group, member_id)
        check_epoch(
            GroupType.STREAMS,
            member_id,
            request.member_epoch,
            current,
            lambda: reported is not None and reported.are_subset_of(current.assigned),
        )
    return current


def reported_tasks(request: StreamsGroupHeartbeatRequest) -> Tasks | None:
    """Return the tasks that a member reports as owned; None if it reports none."""
    if request.active_tasks is None:
        return None
    return Tasks(
        active=_to_task_ids(request.active_tasks),
        standby=_to_task_ids(request.standby_tasks or ()),
        warmup=_to_task_ids(request.warmup_tasks or ()),
    )


def _to_task_ids(tasks: Iterable[StreamsGroupHeartbeatRequest.TaskIds]) -> TaskIds:
    reported: dict[str, set[int]] = {}
    for each in tasks:
        reported.setdefault(each.subtopology_id, set()).update(each.partitions)
    return reported
