"""Admission: checks of a heartbeat's member id, instance id and member epoch.

A static member is identified by its instance id. Another member id may take over an instance id,
with its assignment, only after the previous member has left temporarily. Members that use the
classic protocol cannot leave temporarily and are replaced at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.consumer import consumer_group_records as records
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import CurrentAssignment, MemberMetadata
from kafkalite.groups.group import GroupType
from kafkalite.groups.migration.upgrade import UpgradedGroup, upgrade_group
from kafkalite.groups.modern.admission import (
    check_epoch,
    check_holds_instance,
    find_group_of_heartbeat,
    find_member,
    group_full_error,
    unreleased_instance_error,
)
from kafkalite.groups.modern.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH

if TYPE_CHECKING:
    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.reconcile import ReportedPartitions
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record

_NEW_MEMBER = MemberMetadata()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The sender of a heartbeat, with its epoch and its reported partitions."""

    member_id: MemberId
    instance_id: str | None
    member_epoch: int
    reported: ReportedPartitions | None
    """The partitions that it reports to own; None if it reports none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedMember:
    """A member's state before its heartbeat, and records to write for its admission."""

    stored: MemberMetadata
    current: CurrentAssignment
    replaces: MemberId | None = None
    """The member id that it replaces, if any; it may be the same id."""
    records: tuple[Record, ...] = ()


def find_or_create_group(
    directory: GroupDirectory, group_id: GroupId, *, is_joining: bool
) -> UpgradedGroup:
    """Return the group of a heartbeat, or a new group if the first member joins.

    An empty classic group with this id is replaced, and one with members is upgraded.
    """
    group = directory.groups.get(group_id)
    if is_joining:
        if group is None:
            return UpgradedGroup(ConsumerGroup(group_id, directory))
        if isinstance(group, ClassicGroup):
            if group.is_empty():
                return UpgradedGroup(ConsumerGroup(group_id, directory), group.tombstones())
            return upgrade_group(group, directory)
    return UpgradedGroup(find_group_of_heartbeat(directory, group_id, ConsumerGroup))


def check_max_size(
    group: ConsumerGroup, member: Identity, max_size: int, *, admits_static_members: bool
) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) if a new member exceeds the maximum size.

    With `admits_static_members`, a member that replaces the one of its instance id is not new.
    """
    if (
        len(group.members) >= max_size
        and member.member_id not in group.members
        and not (admits_static_members and member.instance_id in group.static_members)
    ):
        raise group_full_error(group, member.member_id, max_size)


def admit(group: ConsumerGroup, member: Identity) -> AdmittedMember:
    """Return the member's state; raises KafkaError for a wrong id, instance id or epoch."""
    if member.instance_id is not None:
        return _admit_static(group, member, member.instance_id)
    current = group.current_of(member.member_id)
    if member.member_epoch == JOIN_EPOCH:
        stored = group.members.get(member.member_id, _NEW_MEMBER)
        return AdmittedMember(stored=stored, current=current)
    stored = find_member(group, member.member_id)
    _check_epoch(member, current)
    return AdmittedMember(stored=stored, current=current)


def _admit_static(group: ConsumerGroup, member: Identity, instance_id: str) -> AdmittedMember:
    holder = group.static_members.get(instance_id)
    if member.member_epoch != JOIN_EPOCH:
        check_holds_instance(group.static_members, member.member_id, instance_id)
        current = group.current_of(member.member_id)
        _check_epoch(member, current)
        return AdmittedMember(stored=group.members[member.member_id], current=current)
    if holder is None:
        return AdmittedMember(
            stored=group.members.get(member.member_id, _NEW_MEMBER),
            current=group.current_of(member.member_id),
        )
    if (
        group.members[holder].classic is None
        and group.current_of(holder).member_epoch != STATIC_LEAVE_EPOCH
    ):
        raise unreleased_instance_error(
            member.member_id, instance_id, holder, group.current_of(holder).member_epoch
        )
    return take_over(group, holder, member.member_id)


def take_over(group: ConsumerGroup, holder: MemberId, member_id: MemberId) -> AdmittedMember:
    """Replace the previous member of an instance id by another member id."""
    stored = group.members[holder]
    held_before = group.current_of(holder)
    current = replace(
        held_before,
        member_epoch=JOIN_EPOCH,
        previous_member_epoch=JOIN_EPOCH,
        is_join_confirmed=False,
        revocation=held_before.revocation
        if held_before.member_epoch == STATIC_LEAVE_EPOCH
        else held_before.revocation.after_temporary_leave(held_before.member_epoch, revoked=False),
    )
    return AdmittedMember(
        stored=stored,
        current=current,
        replaces=holder,
        records=(
            *records.member_tombstones(group.group_id, holder),
            records.member_metadata_record(group.group_id, member_id, stored),
            records.target_assignment_record(
                group.group_id, member_id, group.target.get(holder, {})
            ),
            records.current_assignment_record(group.group_id, member_id, current),
        ),
    )


def _check_epoch(member: Identity, current: CurrentAssignment) -> None:
    check_epoch(
        GroupType.CONSUMER,
        member.member_id,
        member.member_epoch,
        current,
        lambda: _is_within(member.reported, current.assigned),
    )


def _is_within(reported: ReportedPartitions | None, assigned: OwnedPartitions) -> bool:
    return reported is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in reported.items()
    )


def find_leaving_member(
    group: ConsumerGroup, member_id: MemberId, instance_id: str | None
) -> MemberId:
    """Return the member id of a LeaveGroup entry; it may name only the instance id."""
    if instance_id is None:
        find_member(group, member_id)
        return member_id
    check_holds_instance(
        group.static_members, member_id or group.static_members.get(instance_id, ""), instance_id
    )
    return group.static_members[instance_id]
