"""What befalls a streams group, as events for whoever asks why: who came and went, who moved it.

A steady heartbeat and a commit that is taken have nothing to tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event
from kafkalite.groups.consumer.member import CurrentAssignment
from kafkalite.groups.events import Going

if TYPE_CHECKING:
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.streams.group import StreamsGroup
    from kafkalite.groups.streams.member import CurrentTasks, MemberMetadata

SLOW: Final = Going("fenced", "it did not give its tasks up within its rebalance timeout")


def joined(group: StreamsGroup, member_id: MemberId, member: MemberMetadata) -> Event:
    """Tell of a member that joins."""
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


def gone(group: StreamsGroup, member_id: MemberId, going: Going) -> Event:
    """Tell of a member that goes for good, and how many active tasks it leaves behind."""
    member, current = group.members[member_id], group.current_of(member_id)
    held = (*current.assigned.active.values(), *current.pending_revocation.active.values())
    return Event(
        group.group_id,
        going.kind,
        f"member {member_id} is gone: {going.how}",
        {
            "member_id": member_id,
            "process_id": member.process_id,
            "client_id": member.client_id,
            "member_epoch": current.member_epoch,
            "active_tasks": sum(map(len, held)),
        },
    )


def as_partitions(current: CurrentTasks) -> CurrentAssignment:
    """Return active tasks as partitions of their subtopology, as hand-overs are remembered."""
    return CurrentAssignment(
        member_epoch=current.member_epoch,
        assigned={name.encode(): epochs for name, epochs in current.assigned.active.items()},
        pending_revocation={
            name.encode(): epochs for name, epochs in current.pending_revocation.active.items()
        },
    )
