"""Admission: checks of a heartbeat's member id, instance id and member epoch.

Another member id may take over an instance id, with its tasks, only after the previous member has
left temporarily. Kafka before 4.4 has no static members in streams groups: requests with an
instance id are refused earlier.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.groups.group import GroupType
from kafkalite.groups.modern.admission import (
    check_epoch,
    check_holds_instance,
    find_group_of_heartbeat,
    find_member,
    group_full_error,
    unreleased_instance_error,
)
from kafkalite.groups.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH
from kafkalite.groups.streams import streams_group_records as records
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.member import MemberMetadata
from kafkalite.groups.streams.tasks import NO_OWNED_TASKS, NO_TASKS, Tasks
from kafkalite.ports.named_tuples import NamedTuple

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
    return find_group_of_heartbeat(directory, group_id, StreamsGroup), ()


class AdmittedMember(NamedTuple):
    """A member's state before its heartbeat, and records to write for its admission."""

    stored: MemberMetadata
    current: CurrentTasks
    replaces: MemberId | None = None
    """The member id that it replaces, if any."""
    records: tuple[Record, ...] = ()


def check_max_size(
    group: StreamsGroup,
    request: StreamsGroupHeartbeatRequest,
    max_size: int,
    *,
    admits_rejoins: bool,
) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) for a join to a full group.

    With `admits_rejoins`, members of the group and successors of static members may join.
    """
    if len(group.members) < max_size:
        return
    is_known = request.member_id in group.members or request.instance_id in group.static_members
    if not (admits_rejoins and is_known):
        raise group_full_error(group, request.member_id, max_size)


def admit(
    group: StreamsGroup, request: StreamsGroupHeartbeatRequest, reported: Tasks | None
) -> AdmittedMember:
    """Return the member's state; raises KafkaError for a wrong id, instance id or epoch."""
    member_id, instance_id = request.member_id, request.instance_id
    is_join = request.member_epoch == JOIN_EPOCH
    if is_join and instance_id is not None and instance_id in group.static_members:
        return _take_over(group, member_id, instance_id)
    current = group.current_of(member_id)
    if is_join:
        return AdmittedMember(group.members.get(member_id, MemberMetadata()), current)
    if instance_id is not None:
        check_holds_instance(group.static_members, member_id, instance_id)
    stored = find_member(group, member_id)
    check_epoch(
        GroupType.STREAMS,
        member_id,
        request.member_epoch,
        current,
        lambda: reported is not None and reported.are_subset_of(current.assigned),
    )
    return AdmittedMember(stored, current)


def _take_over(group: StreamsGroup, member_id: MemberId, instance_id: str) -> AdmittedMember:
    """Replace the member of an instance id, which must have left temporarily, by another id."""
    holder = group.static_members[instance_id]
    held = group.current_of(holder)
    if held.member_epoch != STATIC_LEAVE_EPOCH:
        raise unreleased_instance_error(member_id, instance_id, holder, held.member_epoch)
    group_id, stored = group.group_id, group.members[holder]
    current = replace(held, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
    return AdmittedMember(
        stored,
        current,
        replaces=holder,
        records=(
            *records.member_tombstones(group_id, holder),
            records.member_metadata_record(group_id, member_id, stored),
            records.target_tasks_record(group_id, member_id, group.target.get(holder, NO_TASKS)),
            records.current_tasks_record(group_id, member_id, current),
        ),
    )


def left_temporarily_record(group: StreamsGroup, member_id: MemberId) -> Record:
    """Return the record of a static member that left temporarily; it keeps its tasks.

    The assignment epochs become 0, so that its successor owns the tasks from its first epoch.
    """
    current = group.current_of(member_id)
    active = {name: dict.fromkeys(epochs, 0) for name, epochs in current.assigned.active.items()}
    revocation = current.revocation.after_temporary_leave(
        current.member_epoch, revoked=bool(current.pending_revocation.active)
    )
    return records.current_tasks_record(
        group.group_id,
        member_id,
        replace(
            current,
            member_epoch=STATIC_LEAVE_EPOCH,
            assigned=replace(current.assigned, active=active),
            pending_revocation=NO_OWNED_TASKS,
            revocation=revocation,
        ),
    )


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
