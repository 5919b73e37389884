"""Admission: whether a heartbeat comes from a member, at an epoch it may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.member import JOIN_EPOCH, ShareAssignment, ShareMember
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.group import Group, GroupId, MemberId

_NOBODY = ShareMember()


class Admitted(NamedTuple):
    """A member as it stood before its heartbeat."""

    stored: ShareMember
    current: ShareAssignment
    is_new: bool


def find_group(groups: Mapping[GroupId, Group], group_id: GroupId) -> ShareGroup:
    """Return a share group; KafkaError(GROUP_ID_NOT_FOUND) when there is none of that type."""
    group = groups.get(group_id)
    if isinstance(group, ShareGroup):
        return group
    if group is None:
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Share group {group_id} not found.",
            {"rule": "group-exists"},
        )
    raise KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group_id} is not a share group.",
        {"rule": "group-type", "group_type": group.group_type.value},
    )


def find_or_found_group(
    groups: Mapping[GroupId, Group], group_id: GroupId, *, is_founding: bool
) -> ShareGroup:
    """Return a share group, a new one for a first member; no other group makes room for it."""
    if is_founding and group_id not in groups:
        return ShareGroup(group_id)
    return find_group(groups, group_id)


def check_room(group: ShareGroup, member_id: MemberId, max_size: int) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) for one member too many."""
    if len(group.members) >= max_size and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {max_size} members.",
            {"rule": "max-size", "member_id": member_id, "max_size": max_size},
        )


def admit(group: ShareGroup, member_id: MemberId, member_epoch: int) -> Admitted:
    """Return the member as it stands; KafkaError when it is none, or its epoch is not its own.

    The epoch before the last is accepted as well: the answer that brought the last may be lost.
    """
    stored = group.members.get(member_id)
    current = group.current_of(member_id)
    if member_epoch == JOIN_EPOCH:
        return Admitted(stored or _NOBODY, current, stored is None)
    if stored is None:
        raise unknown_member(group, member_id)
    if member_epoch not in (current.member_epoch, current.previous_member_epoch) or (
        member_epoch > current.member_epoch
    ):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member is at epoch {current.member_epoch}, not {member_epoch}; it has to give "
            "up all its partitions and join again.",
            {
                "rule": "member-epoch",
                "member_id": member_id,
                "received_epoch": member_epoch,
                "member_epoch": current.member_epoch,
                "previous_member_epoch": current.previous_member_epoch,
            },
        )
    return Admitted(stored, current, is_new=False)


def unknown_member(group: ShareGroup, member_id: MemberId) -> KafkaError:
    """Return the refusal of somebody who is not a member."""
    return KafkaError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} is not a member of group {group.group_id}.",
        {"rule": "known-member", "member_id": member_id},
    )
