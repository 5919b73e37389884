"""Admission to modern groups: lookups of groups and members, and checks of member epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from kafkalite.groups.group import GroupType, group_not_found_error
from kafkalite.groups.modern.events import RESET
from kafkalite.groups.modern.group import ModernGroup
from kafkalite.groups.timestamps import time_of_day
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import Group, GroupId, MemberId

M = TypeVar("M")
G = TypeVar("G", bound=ModernGroup[Any, Any, Any])

_SMALLER_EPOCH: Final = {
    GroupType.CONSUMER: ErrorText.SMALLER_EPOCH,
    GroupType.SHARE: ErrorText.SMALLER_SHARE_EPOCH,
    GroupType.STREAMS: ErrorText.SMALLER_EPOCH,
}


class MemberEpochs(Protocol):
    """The epochs of a member."""

    @property
    def member_epoch(self) -> int:
        """The member epoch."""

    @property
    def previous_member_epoch(self) -> int:
        """The member epoch before the current one."""


def find_group(groups: Mapping[GroupId, Group], group_id: GroupId, group_class: type[G]) -> G:
    """Return a group; raises KafkaError(GROUP_ID_NOT_FOUND) if none of this type exists."""
    group = groups.get(group_id)
    if isinstance(group, group_class):
        return group
    facts: dict[str, object] = {"rule": "group-exists"}
    if group is not None:
        facts = {"rule": "group-type", "group_type": group.group_type.value}
    raise group_not_found_error(
        group_id, group_class.group_type, exists=group is not None, facts=facts
    )


def find_group_of_heartbeat(
    directory: GroupDirectory, group_id: GroupId, group_class: type[G]
) -> G:
    """Return the group of a heartbeat; only heartbeat errors name the expected group type.

    Members of a group that was reset get UNKNOWN_MEMBER_ID, as if their heartbeats had arrived
    between their removal and the deletion of the group, because clients then join again.
    """
    if group_id in directory.groups:
        return find_group(directory.groups, group_id, group_class)
    if group_id in directory.reset_groups:
        text = f"The members of group {group_id} were removed: {RESET.reason}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text, {"rule": RESET.kind})
    text = f"{group_class.group_type.value.capitalize()} group {group_id} not found."
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text, {"rule": "group-exists"})


def check_holds_instance(
    static_members: Mapping[str, MemberId], member_id: MemberId, instance_id: str
) -> None:
    """Raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID unless the member has this instance id.

    `static_members` has the members of the group by instance id.
    """
    holder = static_members.get(instance_id)
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


def unreleased_instance_error(
    member_id: MemberId, instance_id: str, holder: MemberId, holder_epoch: int
) -> KafkaError:
    """Return the error for a member that joins while another one holds its instance id."""
    return KafkaError(
        ErrorCode.UNRELEASED_INSTANCE_ID,
        f"Instance {instance_id} is still in use by member {holder}.",
        {
            "member_id": member_id,
            "instance_id": instance_id,
            "holder": holder,
            "holder_epoch": holder_epoch,
        },
    )


def group_full_error(
    group: ModernGroup[Any, Any, Any], member_id: MemberId, max_size: int
) -> KafkaError:
    """Return the error for a member that would exceed the maximum size."""
    kind = group.group_type.value
    return KafkaError(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The {kind} group has reached its maximum capacity of {max_size} members.",
        {
            "rule": "max-size",
            "member_id": member_id,
            "members": len(group.members),
            "max_size": max_size,
        },
    )


def find_member(group: ModernGroup[M, Any, Any], member_id: MemberId) -> M:
    """Return a member's metadata; raises KafkaError(UNKNOWN_MEMBER_ID) for an unknown member.

    The error explains how the member left, if that is still in the ownership history.
    """
    member = group.members.get(member_id)
    if member is not None:
        return member
    text = ErrorText.UNKNOWN_MEMBER.format(member_id=member_id, group_id=group.group_id)
    explanation = text
    facts: dict[str, object] = {
        "rule": "known-member",
        "member_id": member_id,
        "group_epoch": group.epoch,
    }
    if (departure := group.ownership().departure(member_id)) is not None:
        explanation = (
            f"{text.removesuffix('.')}: {departure.reason} at {time_of_day(departure.at_ms)}."
        )
        facts |= {"removal_reason": departure.reason, "removed_at_ms": departure.at_ms}
    raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text, facts, explanation)


def check_epoch(
    group_type: GroupType,
    member_id: MemberId,
    received_epoch: int,
    current: MemberEpochs,
    owns_no_more_than_assigned: Callable[[], bool],
) -> None:
    """Raise KafkaError(FENCED_MEMBER_EPOCH) unless the received epoch is valid.

    The response with the current epoch may have been lost. So the previous epoch is valid as well,
    if the member owns only partitions that are still assigned to it.
    """
    member_epoch, previous_epoch = current.member_epoch, current.previous_member_epoch
    if received_epoch == member_epoch:
        return
    if (
        received_epoch == previous_epoch
        and received_epoch < member_epoch
        and owns_no_more_than_assigned()
    ):
        return
    is_ahead = received_epoch > member_epoch
    text = ErrorText.GREATER_EPOCH if is_ahead else _SMALLER_EPOCH[group_type]
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        text.format(
            group_type=group_type.value,
            received_epoch=received_epoch,
            member_epoch=member_epoch,
            previous_member_epoch=previous_epoch,
        ),
        {
            "rule": "member-epoch",
            "member_id": member_id,
            "received_epoch": received_epoch,
            "member_epoch": member_epoch,
            "previous_member_epoch": previous_epoch,
        },
    )


def check_fetch_epoch(
    group: ModernGroup[Any, Any, Any],
    member_id: MemberId,
    received_epoch: int,
    code: ErrorCode = ErrorCode.STALE_MEMBER_EPOCH,
) -> None:
    """Raise KafkaError unless the epoch in an OffsetFetch is the member's current epoch.

    The offset-commit fencing rules do not apply here, as in Kafka.
    """
    current = group.current.get(member_id)
    member_epoch = 0 if current is None else current.member_epoch
    if received_epoch != member_epoch:
        raise KafkaError(
            code,
            f"fetch of offsets at epoch {received_epoch} refused: the member is at epoch "
            f"{member_epoch}",
            {
                "rule": "member-epoch",
                "member_id": member_id,
                "received_epoch": received_epoch,
                "member_epoch": member_epoch,
            },
        )
