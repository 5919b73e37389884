"""Explain events of streams groups: members that join, leave and are removed.

Steady heartbeats and accepted commits have no events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event
from kafkalite.groups.consumer.member import CurrentAssignment
from kafkalite.groups.modern import events as modern_events
from kafkalite.groups.modern.events import Departure

if TYPE_CHECKING:
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.group import StreamsGroup
    from kafkalite.groups.streams.member import CurrentTasks, MemberMetadata

REVOCATION_TIMED_OUT: Final = Departure(
    "fenced", "it did not revoke its tasks within its rebalance timeout"
)


def member_joined_event(group: StreamsGroup, member_id: MemberId, member: MemberMetadata) -> Event:
    """Return the event of a member that joins."""
    return Event(
        group.group_id,
        "joined",
        f"member {member_id} joined",
        {
            "member_id": member_id,
            "process_id": member.process_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "topology_epoch": member.topology_epoch,
            "members": len(group.members) + 1,
        },
    )


def member_removed_event(group: StreamsGroup, member_id: MemberId, departure: Departure) -> Event:
    """Return the event of a removed member, with the number of its active tasks."""
    current = group.current_of(member_id)
    owned = (*current.assigned.active.values(), *current.pending_revocation.active.values())
    return modern_events.member_removed_event(
        group,
        member_id,
        departure,
        process_id=group.members[member_id].process_id,
        active_tasks=sum(map(len, owned)),
    )


def to_current_assignment(current: CurrentTasks) -> CurrentAssignment:
    """Return active tasks as partitions of subtopologies, for the ownership history."""
    return CurrentAssignment(
        member_epoch=current.member_epoch,
        assigned={name.encode(): epochs for name, epochs in current.assigned.active.items()},
        pending_revocation={
            name.encode(): epochs for name, epochs in current.pending_revocation.active.items()
        },
    )
