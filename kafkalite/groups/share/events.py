"""What befalls a share group, as events for whoever asks why: who came and went, who moved it.

Nothing here is on the way of a steady heartbeat: it has nothing to tell. Why a group moved on, and
for whom a new target changed anything, is told in the words that all groups share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.coordinator.contract import Event

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafkalite.groups.events import Going
    from kafkalite.groups.group import MemberId
    from kafkalite.groups.share.group import ShareGroup
    from kafkalite.groups.share.member import ShareMember
    from kafkalite.groups.share.states import NamedPartitions

NAMED_AT_MOST: Final = 5
"""How many topics an explanation names before it counts."""


def joined(group: ShareGroup, member_id: MemberId, member: ShareMember) -> Event:
    """Tell of a member that joins, for the first time or anew."""
    is_known = member_id in group.members
    return Event(
        group.group_id,
        "rejoined" if is_known else "joined",
        f"member {member_id} joined{' again' if is_known else ''}",
        {
            "member_id": member_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "topics": sorted(member.topic_names)[:NAMED_AT_MOST],
            "members": len(group.members) + (not is_known),
        },
    )


def gone(group: ShareGroup, member_id: MemberId, going: Going) -> Event:
    """Tell of a member that goes, and how many partitions it read."""
    member, current = group.members[member_id], group.current_of(member_id)
    return Event(
        group.group_id,
        going.kind,
        f"member {member_id} is gone: {going.how}",
        {
            "member_id": member_id,
            "client_id": member.client_id,
            "member_epoch": current.member_epoch,
            "partitions": sum(map(len, current.assigned.values())),
        },
    )


def ready(group: ShareGroup, made: Mapping[bytes, NamedPartitions]) -> Event:
    """Tell of partitions that have got their share state, and may be assigned from now on."""
    count = sum(len(named.partitions) for named in made.values())
    names = [named.name for named in made.values()]
    return Event(
        group.group_id,
        "ready",
        f"share state of {count} partition{'' if count == 1 else 's'} of {listed(names)} is made",
        {"topics": sorted(names)[:NAMED_AT_MOST], "partitions": count},
    )


def listed(names: Collection[str]) -> str:
    """Name some, and count the rest."""
    some = sorted(names)[:NAMED_AT_MOST]
    rest = f" and {len(names) - len(some)} more" if len(names) > len(some) else ""
    return f"{', '.join(some) or 'nothing'}{rest}"
