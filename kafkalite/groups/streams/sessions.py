"""Timers of members of streams groups, and initial rebalance delays; all are soft state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CancelTimer, SetTimer
from kafkalite.groups.modern.sessions import (
    RebalanceExpiry,
    SessionExpiry,
    Sessions,
    cancel_rebalance_timer,
)
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.groups.group import GroupId, MemberId


@dataclass(frozen=True, slots=True)
class StreamsSessionExpiry(SessionExpiry):
    """Timer event: a session in a streams group may have expired."""


@dataclass(frozen=True, slots=True)
class StreamsRebalanceExpiry(RebalanceExpiry):
    """Timer event: the rebalance timeout for revoking tasks expired."""

    TIMER = "streams-rebalance"


class InitialDelayEnded(NamedTuple):
    """Timer event: the initial rebalance delay of a group ended."""

    group_id: GroupId


class StreamsSessions(Sessions):
    """The timers of all members of streams groups in one shard."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(StreamsSessionExpiry)

    def cancel_timers(
        self, group_id: GroupId, member_id: MemberId
    ) -> tuple[CancelTimer, CancelTimer]:
        """End a member's session; return the cancellations of all its timers."""
        return self.end_session(group_id, member_id), cancel_rebalance_timer(
            StreamsRebalanceExpiry(group_id, member_id, 0)
        )


class InitialDelays:
    """The initial rebalance delays of groups that were empty."""

    __slots__ = ("_deadlines",)

    def __init__(self) -> None:
        self._deadlines: dict[GroupId, int] = {}

    def begin(self, group_id: GroupId, now_ms: int, delay_ms: int, *, is_new: bool) -> SetTimer:
        """Return the timer of a group's delay; only a new group restarts a running delay."""
        if is_new or not self.is_running(group_id, now_ms):
            self._deadlines[group_id] = now_ms + delay_ms
        # The timer is always set again, because the append of an earlier one may have failed.
        deadline_ms = self._deadlines[group_id]
        return SetTimer(("streams-delay", group_id), deadline_ms, InitialDelayEnded(group_id))

    def is_running(self, group_id: GroupId, now_ms: int) -> bool:
        """Whether a group's delay is running."""
        return now_ms < self._deadlines.get(group_id, now_ms)

    def end(self, group_id: GroupId) -> None:
        """End a group's delay."""
        self._deadlines.pop(group_id, None)
