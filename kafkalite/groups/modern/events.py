"""Explain events of modern groups: removed members, new group epochs, new targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kafkalite.coordinator.contract import Event
from kafkalite.groups.timestamps import time_of_day
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.groups.group import GroupId, MemberId
    from kafkalite.groups.modern.group import ModernGroup

MAX_NAMED: Final = 20
"""The maximum number of members or reasons that an event names."""


class Departure(NamedTuple):
    """The reason for a member's removal: the kind of event and its text."""

    kind: str
    reason: str


LEFT: Final = Departure("left", "it left")
SESSION_TIMED_OUT: Final = Departure("expired", "it sent no heartbeat within its session timeout")
RESET: Final = Departure("reset", "the broker was reset")


def group_epoch_raised_event(group_id: GroupId, epoch: int, reasons: Sequence[str]) -> Event:
    """Return the event of a new group epoch, the start of a rebalance."""
    return Event(
        group_id,
        "rebalance",
        f"group epoch {epoch - 1} → {epoch}: {', '.join(reasons[:MAX_NAMED])}",
        {"group_epoch": epoch, "reasons": list(reasons[:MAX_NAMED])},
    )


def assignment_postponed_event(
    group_id: GroupId, epoch: int, last_ms: int, interval_ms: int
) -> Event:
    """Return the event of a target that must wait for the assignment interval (KIP-1263)."""
    due = time_of_day(last_ms + interval_ms)
    return Event(
        group_id,
        "postponed",
        f"target for group epoch {epoch} is delayed: the first heartbeat at or after {due}, "
        f"{interval_ms} ms after the previous target, computes it",
        {"group_epoch": epoch, "due_ms": last_ms + interval_ms, "interval_ms": interval_ms},
    )


def target_computed_event(
    group_id: GroupId, epoch: int, assignor: str, changed_members: Collection[MemberId]
) -> Event:
    """Return the event of a new target assignment, with the members whose target changed."""
    return Event(
        group_id,
        "assigned",
        f"target for group epoch {epoch} computed by {assignor}: changed for "
        f"{count_text(len(changed_members), 'member')}",
        {
            "group_epoch": epoch,
            "assignor": assignor,
            "changed_members": sorted(changed_members)[:MAX_NAMED],
        },
    )


def member_removed_event(
    group: ModernGroup[Any, Any, Any],
    member_id: MemberId,
    departure: Departure,
    **type_facts: object,
) -> Event:
    """Return the event of a removed member; `type_facts` are facts of its group type."""
    current = group.current.get(member_id)
    return Event(
        group.group_id,
        departure.kind,
        f"member {member_id} removed: {departure.reason}",
        {
            "member_id": member_id,
            "client_id": group.members[member_id].client_id,
            "client_host": group.members[member_id].client_host,
            "member_epoch": 0 if current is None else current.member_epoch,
            **type_facts,
        },
    )


def static_member_left_event(group: ModernGroup[Any, Any, Any], member_id: MemberId) -> Event:
    """Return the event of a static member that leaves temporarily."""
    instance_id = group.members[member_id].instance_id
    current = group.current.get(member_id)
    return Event(
        group.group_id,
        "left",
        f"member {member_id} left temporarily as instance {instance_id}",
        {
            "member_id": member_id,
            "instance_id": instance_id,
            "member_epoch": 0 if current is None else current.member_epoch,
        },
    )
