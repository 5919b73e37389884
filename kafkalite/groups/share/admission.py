"""Admission: checks of a heartbeat's member id and member epoch."""

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
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.member import ShareAssignment, ShareMember
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId

_NEW_MEMBER = ShareMember()


class AdmittedMember(NamedTuple):
    """A member's state before its heartbeat."""

    stored: ShareMember
    current: ShareAssignment
    is_new: bool


def find_or_create_group(
    directory: GroupDirectory, group_id: GroupId, *, is_joining: bool
) -> ShareGroup:
    """Return a share group, new for the first member; it replaces no group of another type."""
    if is_joining and group_id not in directory.groups:
        return ShareGroup(group_id, directory)
    return find_group_of_heartbeat(directory, group_id, ShareGroup)


def check_max_size(group: ShareGroup, member_id: MemberId, max_size: int) -> None:
    """Raise KafkaError(GROUP_MAX_SIZE_REACHED) if a new member exceeds the maximum size."""
    if len(group.members) >= max_size and member_id not in group.members:
        raise group_full_error(group, member_id, max_size)


def admit(group: ShareGroup, member_id: MemberId, member_epoch: int) -> AdmittedMember:
    """Return the member's state; raises KafkaError for an unknown member or a wrong epoch.

    The previous epoch is accepted as well: the response with the current one may have been lost.
    """
    current = group.current_of(member_id)
    if member_epoch == JOIN_EPOCH:
        stored = group.members.get(member_id)
        return AdmittedMember(stored or _NEW_MEMBER, current, stored is None)
    stored = find_member(group, member_id)
    check_epoch(GroupType.SHARE, member_id, member_epoch, current, _is_within_assignment)
    return AdmittedMember(stored, current, is_new=False)


def _is_within_assignment() -> bool:
    return True
