"""Admission: whether a heartbeat comes from who it says, at an epoch it may have.

Static members are known by their instance id: only after its last holder has said that it will be
back may another member id take it over, and it then takes over the assignment as well. One that
speaks the classic protocol never says so, and is replaced by whoever comes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.groups.classic.group import ClassicGroup
from kafkalite.groups.consumer import records
from kafkalite.groups.consumer.explain import unknown_member
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    MemberMetadata,
)
from kafkalite.groups.migration.upgrade import Opened, upgraded
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.reconcile import Reported
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import Group, GroupId, MemberId, Record

_NOBODY = MemberMetadata()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who sends a heartbeat, and where it believes to be."""

    member_id: MemberId
    instance_id: str | None
    member_epoch: int
    reported: Reported | None
    """The partitions it says it owns; None when it did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A member as it stood before its heartbeat, and what is written to let it in."""

    stored: MemberMetadata
    current: CurrentAssignment
    replaces: MemberId | None = None
    """The member whose place it takes, if any; perhaps under the same id."""
    records: tuple[Record, ...] = ()


def find_group(groups: Mapping[GroupId, Group], group_id: GroupId) -> ConsumerGroup:
    """Return a consumer group; KafkaError(GROUP_ID_NOT_FOUND) when there is none of that type."""
    group = groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Consumer group {group_id} not found."
        if group is None
        else f"Group {group_id} is not a consumer group.",
    )


def find_or_open_group(directory: GroupDirectory, group_id: GroupId, *, is_joining: bool) -> Opened:
    """Return the group a heartbeat is for, a new one for a first member.

    An empty classic group in the way makes room, and one with members is upgraded.
    """
    group = directory.groups.get(group_id)
    if is_joining:
        if group is None:
            return Opened(ConsumerGroup(group_id, directory))
        if isinstance(group, ClassicGroup):
            if group.is_empty():
                return Opened(ConsumerGroup(group_id, directory), group.tombstones())
            return upgraded(group, directory)
    return Opened(find_group(directory.groups, group_id))


def check_room(group: ConsumerGroup, member: Identity, max_size: int) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) for one member too many."""
    if (
        len(group.members) >= max_size
        and member.member_id not in group.members
        and member.instance_id not in group.static_members
    ):
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
            {"member_id": member.member_id, "members": len(group.members), "max_size": max_size},
        )


def admit(group: ConsumerGroup, member: Identity) -> Admitted:
    """Return the member as it stands; KafkaError when it is not who it says, or not there yet."""
    if member.instance_id is not None:
        return _admit_static(group, member, member.instance_id)
    stored = group.members.get(member.member_id)
    if member.member_epoch == JOIN_EPOCH:
        return Admitted(stored=stored or _NOBODY, current=group.current_of(member.member_id))
    if stored is None:
        raise unknown_member(group, member.member_id)
    current = group.current_of(member.member_id)
    check_epoch(member, current)
    return Admitted(stored=stored, current=current)


def _admit_static(group: ConsumerGroup, member: Identity, instance_id: str) -> Admitted:
    holder = group.static_members.get(instance_id)
    if member.member_epoch != JOIN_EPOCH:
        check_holds_instance(group, member.member_id, instance_id)
        current = group.current_of(member.member_id)
        check_epoch(member, current)
        return Admitted(stored=group.members[member.member_id], current=current)
    if holder is None:
        return Admitted(
            stored=group.members.get(member.member_id, _NOBODY),
            current=group.current_of(member.member_id),
        )
    if (
        group.members[holder].classic is None
        and group.current_of(holder).member_epoch != STATIC_LEAVE_EPOCH
    ):
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance {instance_id} is still in use by member {holder}.",
            {
                "member_id": member.member_id,
                "instance_id": instance_id,
                "holder": holder,
                "holder_epoch": group.current_of(holder).member_epoch,
            },
        )
    return take_over(group, holder, member.member_id)


def take_over(group: ConsumerGroup, holder: MemberId, member_id: MemberId) -> Admitted:
    """Put a member in the place of the one that had its instance id until now."""
    stored = group.members[holder]
    held = group.current_of(holder)
    current = replace(
        held,
        member_epoch=JOIN_EPOCH,
        previous_member_epoch=JOIN_EPOCH,
        revocation=held.revocation
        if held.member_epoch == STATIC_LEAVE_EPOCH
        else held.revocation.left_for_a_while(held.member_epoch, gave_up=False),
    )
    return Admitted(
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


def check_holds_instance(group: ConsumerGroup, member_id: MemberId, instance_id: str) -> None:
    """Raise KafkaError unless the instance id is this member's: UNKNOWN_…, FENCED_INSTANCE_ID."""
    holder = group.static_members.get(instance_id)
    if holder is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Instance {instance_id} is not in the group.",
            {"member_id": member_id, "instance_id": instance_id},
        )
    if holder != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance {instance_id} is now held by member {holder}.",
            {"member_id": member_id, "instance_id": instance_id, "holder": holder},
        )


def check_epoch(member: Identity, current: CurrentAssignment) -> None:
    """Raise KafkaError(FENCED_MEMBER_EPOCH) unless a member may be at the epoch it sent.

    It may be one step behind, when the answer that told it of the step was lost: then it can own
    nothing that the step took from it.
    """
    received, expected = member.member_epoch, current.member_epoch
    if received == expected:
        return
    if (
        received == current.previous_member_epoch
        and received < expected
        and _is_within(member.reported, current.assigned)
    ):
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The member is at epoch {expected}, not {received}; it has to give up all its partitions "
        "and join again.",
        {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "epoch": received,
            "member_epoch": expected,
            "previous_member_epoch": current.previous_member_epoch,
        },
    )


def _is_within(reported: Reported | None, assigned: OwnedPartitions) -> bool:
    return reported is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in reported.items()
    )


def member_or_refuse(group: ConsumerGroup, member_id: MemberId) -> MemberMetadata:
    """Return a member; KafkaError(UNKNOWN_MEMBER_ID) when it is not one."""
    stored = group.members.get(member_id)
    if stored is None:
        raise unknown_member(group, member_id)
    return stored


def named_member(group: ConsumerGroup, member_id: MemberId, instance_id: str | None) -> MemberId:
    """Return whom an administrator means; a static member may be named by its instance alone."""
    if instance_id is None:
        member_or_refuse(group, member_id)
        return member_id
    check_holds_instance(group, member_id or group.static_members.get(instance_id, ""), instance_id)
    return group.static_members[instance_id]
