"""What befalls a consumer group, as events for whoever asks why: who came and went, who moved it.

Nothing here is on the way of a steady heartbeat or of a commit: these have nothing to tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event
from kafkalite.groups.events import Going

if TYPE_CHECKING:
    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.group import MemberId


SLOW: Final = Going("fenced", "it did not give its partitions up within its rebalance timeout")
LATE: Final = Going("expired", "it did not join or sync within its rebalance timeout")


def taken_out(reason: str | None) -> Going:
    """Return how a member goes that a LeaveGroup names: its own or an administrator's."""
    quoted = f" ({reason[:MOST_QUOTED]})" if reason else ""
    return Going("left", f"a LeaveGroup took it out{quoted}")


def joined(
    group: ConsumerGroup, member_id: MemberId, member: MemberMetadata, replaces: MemberId | None
) -> Event:
    """Tell of a member that joins, for the first time or anew, or in the place of another."""
    facts = {
        "member_id": member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "consumer" if member.classic is None else "classic",
        "topics": sorted(member.topic_names),
        "regex": member.topic_regex or None,
        "members": len(group.members) + (replaces is None and member_id not in group.members),
    }
    if replaces is not None:
        text = f"member {member_id} came back as instance {member.instance_id}"
        if replaces != member_id:
            text += f", in the place of member {replaces}"
        return Event(group.group_id, "rejoined", text, {**facts, "replaces": replaces})
    if member_id in group.members:
        text = f"member {member_id} joined again"
        return Event(group.group_id, "rejoined", text, facts)
    return Event(group.group_id, "joined", f"member {member_id} joined", facts)


def gone(group: ConsumerGroup, member_id: MemberId, going: Going) -> Event:
    """Tell of a member that goes for good, and how many partitions it leaves behind."""
    member, current = group.members[member_id], group.current_of(member_id)
    held = (*current.assigned.values(), *current.pending_revocation.values())
    return Event(
        group.group_id,
        going.kind,
        f"member {member_id} is gone: {going.how}",
        {
            "member_id": member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "member_epoch": current.member_epoch,
            "partitions": sum(map(len, held)),
        },
    )


def away(group: ConsumerGroup, member_id: MemberId) -> Event:
    """Tell of a static member that goes and means to come back."""
    instance_id = group.members[member_id].instance_id
    return Event(
        group.group_id,
        "left",
        f"member {member_id} is away: instance {instance_id} means to come back",
        {
            "member_id": member_id,
            "instance_id": instance_id,
            "member_epoch": group.current_of(member_id).member_epoch,
        },
    )


MOST_QUOTED: Final = 200
"""Characters of a client's reason that an event quotes."""
