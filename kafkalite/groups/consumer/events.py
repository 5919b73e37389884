"""Explain events of consumer groups: members that join, leave and are removed.

Steady heartbeats and accepted commits have no events.
"""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event
from kafkalite.groups.modern import events as modern
from kafkalite.groups.modern.events import Departure

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkalite.groups.consumer.group import ConsumerGroup
    from kafkalite.groups.consumer.member import MemberMetadata
    from kafkalite.groups.group import MemberId


REVOCATION_TIMED_OUT: Final = Departure(
    "fenced", "it did not revoke its partitions within its rebalance timeout"
)
JOIN_OR_SYNC_TIMED_OUT: Final = Departure(
    "expired", "it did not join or sync within its rebalance timeout"
)


_MAX_TOPICS_IN_FACTS: Final = 1_000
"""The maximum number of topics in the facts of one event, which the history stores."""

_MAX_NAMED_TOPICS: Final = 10
"""The maximum number of topics that one event names."""


def removed_by_leave_group(reason: str | None) -> Departure:
    """Return the reason for removing a member that a LeaveGroup names."""
    quoted = f" ({reason[:MAX_QUOTED_CHARACTERS]})" if reason else ""
    return Departure("left", f"a LeaveGroup removed it{quoted}")


def member_joined_event(
    group: ConsumerGroup, member_id: MemberId, member: MemberMetadata, replaces: MemberId | None
) -> Event:
    """Return the event of a member that joins, rejoins or replaces a static member."""
    facts = {
        "member_id": member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "consumer" if member.classic is None else "classic",
        "topics": nsmallest(_MAX_TOPICS_IN_FACTS, member.topic_names),
        "regex": member.topic_regex or None,
        "members": len(group.members) + (replaces is None and member_id not in group.members),
    }
    if replaces is not None:
        text = f"member {member_id} rejoined as instance {member.instance_id}"
        if replaces != member_id:
            text += f", replacing member {replaces}"
        return Event(group.group_id, "rejoined", text, {**facts, "replaces": replaces})
    if member_id in group.members:
        text = f"member {member_id} rejoined"
        return Event(group.group_id, "rejoined", text, facts)
    return Event(group.group_id, "joined", f"member {member_id} joined", facts)


def member_removed_event(group: ConsumerGroup, member_id: MemberId, departure: Departure) -> Event:
    """Return the event of a removed member, with the number of its partitions."""
    current = group.current_of(member_id)
    held = (*current.assigned.values(), *current.pending_revocation.values())
    return modern.member_removed_event(
        group,
        member_id,
        departure,
        instance_id=group.members[member_id].instance_id,
        partitions=sum(map(len, held)),
    )


def topics_hidden_event(
    group: ConsumerGroup, member_id: MemberId, hidden: Collection[str]
) -> Event:
    """Return the event of topics that match expressions, but may not be described by a member."""
    named = sorted(hidden)[:_MAX_NAMED_TOPICS]
    names = ", ".join(named) + (", …" if len(named) < len(hidden) else "")
    text = (
        f"topics that match regular expressions are left out, because member {member_id}, "
        f"whose heartbeat resolved them, may not DESCRIBE them: {names}"
    )
    facts = {"member_id": member_id, "hidden_topics": named, "hidden_count": len(hidden)}
    return Event(group.group_id, "refused", text, facts)


MAX_QUOTED_CHARACTERS: Final = 200
"""The maximum length of a client's reason in an event."""
