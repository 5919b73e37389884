"""What members of classic groups are refused, and why: sentences for people, facts for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import Event
from kafkalite.groups.moments import time_of_day
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.groups.classic.membership import Membership
    from kafkalite.groups.group import GroupId, MemberId


def refused(
    code: ErrorCode, action: str, member_id: MemberId, why: str, facts: Mapping[str, object]
) -> KafkaError:
    """Return the refusal of what a member wanted to do, such as "heartbeat"."""
    who = f"of {member_id}" if member_id else "without a member id"
    told = {**facts, "action": action, "member_id": member_id}
    return KafkaError(code, f"{action} {who} refused: {why}", told)


def unknown_member(soft: Membership, action: str, member_id: MemberId) -> KafkaError:
    """Return the refusal of somebody who is not in the group."""
    why = (
        f"it is none of the {len(soft.members)} member(s) of the group, which is {soft.state.value}"
    )
    facts = {"rule": "member-id", "state": soft.state.value, "members": len(soft.members)}
    return refused(ErrorCode.UNKNOWN_MEMBER_ID, action, member_id, why, facts)


def unknown_instance(action: str, member_id: MemberId, instance_id: str) -> KafkaError:
    """Return the refusal of a static member whose instance is not in the group."""
    why = f"no member of the group has the instance id {instance_id}"
    facts = {"rule": "group-instance-id", "group_instance_id": instance_id}
    return refused(ErrorCode.UNKNOWN_MEMBER_ID, action, member_id, why, facts)


def fenced_instance(
    action: str, member_id: MemberId, instance_id: str, owner: MemberId
) -> KafkaError:
    """Return the refusal of a static member whose place another process has taken (KIP-345)."""
    why = f"the instance {instance_id} is {owner} now"
    facts = {"rule": "group-instance-id", "group_instance_id": instance_id, "owner": owner}
    return refused(ErrorCode.FENCED_INSTANCE_ID, action, member_id, why, facts)


def other_generation(
    soft: Membership, action: str, member_id: MemberId, claimed: int
) -> KafkaError:
    """Return the refusal of a member that speaks of another generation than the group's."""
    known = soft.generation_id
    since = "" if soft.state_timestamp_ms is None else time_of_day(soft.state_timestamp_ms)
    why = (
        f"it is at generation {claimed}, the group at {known}, {soft.state.value} since {since} "
        "(rule generation)"
    )
    facts = {
        "rule": "generation",
        "generation": claimed,
        "group_generation": known,
        "state": soft.state.value,
        "since_ms": soft.state_timestamp_ms,
    }
    return refused(ErrorCode.ILLEGAL_GENERATION, action, member_id, why, facts)


def in_rebalance(soft: Membership, action: str, member_id: MemberId) -> KafkaError:
    """Return the refusal of what has to wait until the generation that begins has assignments."""
    since = "" if soft.state_timestamp_ms is None else time_of_day(soft.state_timestamp_ms)
    why = f"the group is in {soft.state.value} since {since} (rule rebalance)"
    facts = {
        "rule": "rebalance",
        "group_generation": soft.generation_id,
        "state": soft.state.value,
        "since_ms": soft.state_timestamp_ms,
    }
    return refused(ErrorCode.REBALANCE_IN_PROGRESS, action, member_id, why, facts)


def non_empty(soft: Membership, action: str) -> KafkaError:
    """Return the refusal of what an administrator may only do to a group without members."""
    state, count = soft.state.value, len(soft.members)
    facts = {"rule": "empty-group", "action": action, "state": state, "members": count}
    why = f"the group is {state} and has {count} member(s) of type {soft.protocol_type!r}"
    return KafkaError(ErrorCode.NON_EMPTY_GROUP, f"{action} refused: {why}", facts)


def check_protocol(member_id: MemberId, claimed: str | None, known: str | None) -> None:
    """Refuse a SyncGroup for another protocol than the group's; old clients do not name any."""
    if claimed is not None and known is not None and claimed != known:
        why = f"it is for the protocol {claimed}, the group speaks {known}"
        facts = {"rule": "protocol", "protocol": claimed, "group_protocol": known}
        raise refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "sync", member_id, why, facts)


def refusal_event(group_id: GroupId, error: KafkaError, **facts: object) -> Event:
    """Return what tells of a refusal that its client gets as a response, not as an error."""
    kind = "fenced" if error.code is ErrorCode.FENCED_INSTANCE_ID else "refused"
    told = {"error": error.code.name, **facts, **(error.facts or {})}
    text = error.message or error.code.message
    return Event(group_id, kind, f"{text} ({error.code.name})", told)
