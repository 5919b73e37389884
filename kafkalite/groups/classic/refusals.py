"""Errors of classic groups, with explanations and facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Event
from kafkalite.groups.timestamps import time_of_day
from kafkalite.ports.texts import count_text
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.classic.membership import Membership
    from kafkalite.groups.group import GroupId, MemberId


def classic_group_error(
    code: ErrorCode, action: str, member_id: MemberId, reason: str, facts: Mapping[str, object]
) -> KafkaError:
    """Return the error for a member's action, such as "heartbeat"."""
    member = f"of {member_id}" if member_id else "without a member id"
    all_facts = {**facts, "action": action, "member_id": member_id}
    return KafkaError(code, f"{action} {member} refused: {reason}", all_facts)


def unknown_member_error(soft: Membership, action: str, member_id: MemberId) -> KafkaError:
    """Return the error for a member that is not in the group."""
    reason = (
        f"it is not a member of the group, which is {soft.state.value} with "
        f"{count_text(len(soft.members), 'member')}"
    )
    facts = {"rule": "member-id", "state": soft.state.value, "members": len(soft.members)}
    return classic_group_error(ErrorCode.UNKNOWN_MEMBER_ID, action, member_id, reason, facts)


def unknown_instance_error(action: str, member_id: MemberId, instance_id: str) -> KafkaError:
    """Return the error for a static member whose instance id is not in the group."""
    reason = f"no member of the group has the instance id {instance_id}"
    facts = {"rule": "group-instance-id", "group_instance_id": instance_id}
    return classic_group_error(ErrorCode.UNKNOWN_MEMBER_ID, action, member_id, reason, facts)


def fenced_instance_error(
    action: str, member_id: MemberId, instance_id: str, owner: MemberId
) -> KafkaError:
    """Return the error for a static member whose instance id has a newer member (KIP-345)."""
    reason = f"instance {instance_id} now has member id {owner}"
    facts = {"rule": "group-instance-id", "group_instance_id": instance_id, "owner": owner}
    return classic_group_error(ErrorCode.FENCED_INSTANCE_ID, action, member_id, reason, facts)


def illegal_generation_error(
    soft: Membership, action: str, member_id: MemberId, received: int
) -> KafkaError:
    """Return the error for a request with another generation than the group's."""
    current = soft.generation_id
    reason = (
        f"its generation is {received}, the group's is {current}, {_state_text(soft)} "
        "(rule generation)"
    )
    facts = {
        "rule": "generation",
        "received_generation": received,
        "group_generation": current,
        "state": soft.state.value,
        "state_since_ms": soft.state_timestamp_ms,
    }
    return classic_group_error(ErrorCode.ILLEGAL_GENERATION, action, member_id, reason, facts)


def rebalance_in_progress_error(soft: Membership, action: str, member_id: MemberId) -> KafkaError:
    """Return the error for a request that must wait for the end of the rebalance."""
    reason = f"the group is {_state_text(soft)} (rule rebalance)"
    facts = {
        "rule": "rebalance",
        "group_generation": soft.generation_id,
        "state": soft.state.value,
        "state_since_ms": soft.state_timestamp_ms,
    }
    return classic_group_error(ErrorCode.REBALANCE_IN_PROGRESS, action, member_id, reason, facts)


def non_empty_group_error(soft: Membership, action: str) -> KafkaError:
    """Return the error for an action that needs a group without members."""
    state, count = soft.state.value, len(soft.members)
    facts = {"rule": "empty-group", "action": action, "state": state, "members": count}
    members = count_text(count, "member")
    reason = f"the group is {state} and has {members} of type {soft.protocol_type!r}"
    return KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{action} refused: {reason}", facts)


def _state_text(soft: Membership) -> str:
    """Return the state and the time of the last change of state, if it is known."""
    since_ms = soft.state_timestamp_ms
    return (
        soft.state.value
        if since_ms is None
        else f"{soft.state.value} since {time_of_day(since_ms)}"
    )


def check_protocol(member_id: MemberId, received: str | None, current: str | None) -> None:
    """Raise an error for a SyncGroup with another protocol than the group's, if it has one."""
    if received is not None and current is not None and received != current:
        reason = f"its protocol is {received}, the group's is {current}"
        facts = {"rule": "protocol", "received_protocol": received, "group_protocol": current}
        raise classic_group_error(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "sync", member_id, reason, facts
        )


def refusal_event(group_id: GroupId, error: KafkaError, **facts: object) -> Event:
    """Return the event of an error that the client gets in an ordinary response."""
    kind = "fenced" if error.code is ErrorCode.FENCED_INSTANCE_ID else "refused"
    all_facts = {"error": error.code.name, **facts, **(error.facts or {})}
    text = error.explanation or error.code.message
    return Event(group_id, kind, f"{text} ({error.code.name})", all_facts)
