"""Admission: whether a heartbeat comes from who it says, at an epoch it may have.

Static members are known by their instance id: only after its last holder has said that it will be
back may another member id take it over, and it then takes over the assignment as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kafkalite.groups.consumer import records
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.member import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    CurrentAssignment,
    MemberMetadata,
)
from kafkalite.groups.group import GroupType
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.consumer.member import OwnedPartitions
    from kafkalite.groups.consumer.reconcile import Reported
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


def find_or_found_group(
    groups: Mapping[GroupId, Group], group_id: GroupId, *, is_joining: bool
) -> tuple[ConsumerGroup, tuple[Record, ...]]:
    """Return the group a heartbeat is for, a new one for a first member.

    An empty classic group in the way makes room: the records say so. One with members would have
    to be upgraded, which is refused as under `group.consumer.migration.policy=disabled`.
    """
    if is_joining:
        group = groups.get(group_id)
        if group is None:
            return ConsumerGroup(group_id), ()
        if group.group_type is GroupType.CLASSIC and group.is_empty():
            return ConsumerGroup(group_id), tuple(group.tombstones())
    return find_group(groups, group_id), ()


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
        )


def admit(group: ConsumerGroup, member: Identity) -> Admitted:
    """Return the member as it stands; KafkaError when it is not who it says, or not there yet."""
    if member.instance_id is not None:
        return _admit_static(group, member, member.instance_id)
    stored = group.members.get(member.member_id)
    if member.member_epoch == JOIN_EPOCH:
        return Admitted(stored=stored or _NOBODY, current=group.current_of(member.member_id))
    if stored is None:
        raise _unknown(group, member.member_id)
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
    if group.current_of(holder).member_epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance {instance_id} is still in use by member {holder}.",
        )
    return _take_over(group, holder, member.member_id)


def _take_over(group: ConsumerGroup, holder: MemberId, member_id: MemberId) -> Admitted:
    """Put a member in the place of one that went and said that it would be back."""
    stored = group.members[holder]
    current = replace(
        group.current_of(holder), member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
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
            ErrorCode.UNKNOWN_MEMBER_ID, f"Instance {instance_id} is not in the group."
        )
    if holder != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance {instance_id} is now held by member {holder}.",
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
    )


def _is_within(reported: Reported | None, assigned: OwnedPartitions) -> bool:
    return reported is not None and all(
        partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in reported.items()
    )


def member_or_refuse(group: ConsumerGroup, member_id: MemberId) -> MemberMetadata:
    """Return a member; KafkaError(UNKNOWN_MEMBER_ID) when it is not one."""
    stored = group.members.get(member_id)
    if stored is None:
        raise _unknown(group, member_id)
    return stored


def named_member(group: ConsumerGroup, member_id: MemberId, instance_id: str | None) -> MemberId:
    """Return whom an administrator means; a static member may be named by its instance alone."""
    if instance_id is None:
        member_or_refuse(group, member_id)
        return member_id
    check_holds_instance(group, member_id or group.static_members.get(instance_id, ""), instance_id)
    return group.static_members[instance_id]


def _unknown(group: ConsumerGroup, member_id: MemberId) -> KafkaError:
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )
