"""What befalls groups whose members follow an epoch, in the words that all kinds of them share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalite.coordinator.contract import Event
from kafkalite.groups.moments import time_of_day

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kafkalite.groups.group import GroupId, MemberId

MOST_NAMED: Final = 20
"""Members and reasons that an event names one by one."""


class Going(NamedTuple):
    """How a member goes: the kind of event, and how to say it."""

    kind: str
    how: str


LEFT: Final = Going("left", "it left")
SILENT: Final = Going("expired", "it was silent for longer than its session timeout")


def moved_on(group_id: GroupId, epoch: int, why: Sequence[str]) -> Event:
    """Tell of a new group epoch: every rebalance begins with one."""
    return Event(
        group_id,
        "rebalance",
        f"group epoch {epoch - 1} → {epoch}: {', '.join(why[:MOST_NAMED])}",
        {"group_epoch": epoch, "why": list(why[:MOST_NAMED])},
    )


def postponed(group_id: GroupId, epoch: int, last_ms: int, interval_ms: int) -> Event:
    """Tell that the group moved on too soon after its last target for another one (KIP-1263)."""
    due = time_of_day(last_ms + interval_ms)
    return Event(
        group_id,
        "postponed",
        f"target for group epoch {epoch} is put off: it comes with the first heartbeat at {due} or "
        f"later, {interval_ms} ms after the last one",
        {"group_epoch": epoch, "due_ms": last_ms + interval_ms, "interval_ms": interval_ms},
    )


def assigned(group_id: GroupId, epoch: int, assignor: str, moved: Collection[MemberId]) -> Event:
    """Tell of a new target assignment, and how many members' targets it changed."""
    return Event(
        group_id,
        "assigned",
        f"target for group epoch {epoch} computed by {assignor}: it changes for "
        f"{len(moved)} member{'' if len(moved) == 1 else 's'}",
        {"group_epoch": epoch, "assignor": assignor, "changed_for": sorted(moved)[:MOST_NAMED]},
    )
