"""Explain events of share groups: members that join and leave, and initialized share state.

Steady heartbeats have no events. New group epochs and targets are in `groups.modern.events`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event
from kafkalite.groups.modern import events as modern_events
from kafkalite.ports.texts import count_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.groups.group import MemberId
    from kafkalite.groups.modern.events import Departure
    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.groups.share.member import ShareMember
    from kafkalite.groups.share.share_partitions import NamedPartitions

MAX_TOPIC_NAMES: Final = 5
"""The maximum number of topics that an event names."""


def member_joined_event(group: ShareGroup, member_id: MemberId, member: ShareMember) -> Event:
    """Return the event of a member that joins or rejoins."""
    is_known = member_id in group.members
    return Event(
        group.group_id,
        "rejoined" if is_known else "joined",
        f"member {member_id} {'rejoined' if is_known else 'joined'}",
        {
            "member_id": member_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "topics": sorted(member.topic_names)[:MAX_TOPIC_NAMES],
            "members": len(group.members) + (not is_known),
        },
    )


def member_removed_event(group: ShareGroup, member_id: MemberId, departure: Departure) -> Event:
    """Return the event of a removed member, with the number of its partitions."""
    current = group.current_of(member_id)
    return modern_events.member_removed_event(
        group,
        member_id,
        departure,
        partitions=sum(map(len, current.assigned.values())),
    )


def share_state_initialized_event(
    group: ShareGroup, initialized: Mapping[bytes, NamedPartitions]
) -> Event:
    """Return the event of partitions whose share state is initialized, so they can be assigned."""
    count = sum(len(named.partitions) for named in initialized.values())
    names = [named.name for named in initialized.values()]
    return Event(
        group.group_id,
        "ready",
        f"share state of {count_text(count, 'partition')} of "
        f"{format_topic_names(names)} is initialized",
        {"topics": sorted(names)[:MAX_TOPIC_NAMES], "partitions": count},
    )


def format_topic_names(names: Collection[str]) -> str:
    """Return a text with the first names and the number of further ones."""
    named = sorted(names)[:MAX_TOPIC_NAMES]
    further = f" and {len(names) - len(named)} more" if len(names) > len(named) else ""
    return f"{', '.join(named) or 'nothing'}{further}"
