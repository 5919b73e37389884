"""Explain events of streams groups: members that join, leave and are removed.

Steady heartbeats and accepted commits have no events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event
from kafkalite.groups.consumer.member import CurrentAssignment
from kafkalite.groups.modern import events as modern_events
from kafkalite.groups.modern.events import Departure
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.groups.streams.assignor import StandbyPlacement
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


def static_member_rejoined_event(
    group: StreamsGroup, member_id: MemberId, member: MemberMetadata, replaces: MemberId
) -> Event:
    """Return the event of a member that takes over an instance id."""
    text = f"member {member_id} rejoined as instance {member.instance_id}"
    if replaces != member_id:
        text += f", replacing member {replaces}"
    facts = {
        "member_id": member_id,
        "instance_id": member.instance_id,
        "process_id": member.process_id,
        "replaces": replaces,
        "members": len(group.members),
    }
    return Event(group.group_id, "rejoined", text, facts)


def standbys_placed_events(
    group_id: GroupId, epoch: int, placement: StandbyPlacement, rack_tags: Sequence[str]
) -> list[Event]:
    """Return the event of placed standby tasks with the reasons, if there are any."""
    placed = placement.with_previous_owner + placement.with_state + placement.least_loaded
    if not placed and not placement.missing:
        return []
    text = (
        f"{count_text(placed, 'standby task')} placed for group epoch {epoch}: "
        f"{placement.with_previous_owner} with the previous owner of the active task, "
        f"{placement.with_state} with a member that has state of the task, "
        f"{placement.least_loaded} in the process with the least load"
    )
    if placement.missing:
        text += f"; {placement.missing} not placed: every process has the task already"
    if rack_tags:
        text += f"; the tags {', '.join(rack_tags)} have no influence on the assignor sticky"
    facts = {"group_epoch": epoch, "rack_tags": list(rack_tags), **placement._asdict()}
    return [Event(group_id, "standbys", text, facts)]


def tags_missing_event(group_id: GroupId, member_id: MemberId, tags: Sequence[str]) -> Event:
    """Return the event of a member whose client lacks tags for rack-aware assignment."""
    return Event(
        group_id,
        "tags",
        f"member {member_id} has no client tags {', '.join(tags)}, which the group requires",
        {"member_id": member_id, "missing_tags": list(tags)},
    )


def description_stored_event(group_id: GroupId, member_id: MemberId, topology_epoch: int) -> Event:
    """Return the event of a stored description of the topology."""
    return Event(
        group_id,
        "topology",
        f"member {member_id} described the topology of epoch {topology_epoch}",
        {"member_id": member_id, "topology_epoch": topology_epoch},
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
