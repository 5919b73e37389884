"""MemberTimers: expiry of sessions and revocations in the groups of one type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kafkalite.coordinator.contract import CoordinatorResult
from kafkalite.groups.modern.events import SESSION_TIMED_OUT, group_epoch_raised_event
from kafkalite.groups.modern.group import NEVER_ASSIGNED_MS, ModernGroup
from kafkalite.groups.modern.sessions import rebalance_timer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from enum import IntEnum

    from kafkalite.config.rules import Rules
    from kafkalite.coordinator.contract import Event, TimerChange
    from kafkalite.groups.directory import GroupDirectory
    from kafkalite.groups.group import GroupId, MemberId, Record
    from kafkalite.groups.modern.events import Departure
    from kafkalite.groups.modern.record_types import RecordTypes
    from kafkalite.groups.modern.sessions import RebalanceExpiry, SessionExpiry, Sessions
    from kafkalite.groups.modern.settings import GroupSettingsCache

R = TypeVar("R")
G = TypeVar("G", bound=ModernGroup[Any, Any, Any])

_NO_CHANGE: CoordinatorResult[None] = CoordinatorResult(response=None)


class MemberTimers(Generic[G]):
    """Removes members whose session or rebalance timeout expired."""

    __slots__ = ("_directory", "_group_class", "_remove", "_revocation_timeout", "_sessions")

    def __init__(
        self,
        directory: GroupDirectory,
        group_class: type[G],
        sessions: Sessions,
        remove: Callable[[G, MemberId, Departure, int], CoordinatorResult[None]],
        revocation_timeout: Departure,
    ) -> None:
        self._directory = directory
        self._group_class = group_class
        self._sessions = sessions
        self._remove = remove
        self._revocation_timeout = revocation_timeout
        """The reason for removing a member that did not revoke in time."""

    def groups(self) -> Iterator[G]:
        """Yield the groups of this type."""
        for group in self._directory.groups.values():
            if isinstance(group, self._group_class):
                yield group

    def start_all(
        self,
        settings: GroupSettingsCache[Any],
        now_ms: int,
        revocation_timers: tuple[type[RebalanceExpiry], IntEnum] | None = None,
    ) -> list[TimerChange]:
        """Return new session timers for all members, and rebalance timers for revocations.

        `revocation_timers` has the timer event and the member state that needs this timer.
        """
        timers: list[TimerChange] = []
        group: Any
        for group in self.groups():
            group_id: GroupId = group.group_id
            deadline_ms = now_ms + settings.of(group).session_timeout_ms
            for member_id, member in group.members.items():
                timers.append(self._sessions.start(group_id, member_id, deadline_ms))
                current = group.current.get(member_id)
                if (
                    current is None
                    or revocation_timers is None
                    or current.state is not revocation_timers[1]
                ):
                    continue
                expiry = revocation_timers[0](group_id, member_id, current.member_epoch)
                timers.append(rebalance_timer(expiry, now_ms + member.rebalance_timeout_ms))
        return timers

    def expire_session(self, event: SessionExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member whose session expired."""
        if (timer := self._sessions.restart_if_extended(event, now_ms)) is not None:
            return CoordinatorResult(response=None, timers=(timer,))
        return self.remove(event.group_id, event.member_id, SESSION_TIMED_OUT, now_ms)

    def expire_rebalance(self, event: RebalanceExpiry, now_ms: int) -> CoordinatorResult[None]:
        """Remove a member that is still at the epoch of its revocation."""
        group = self._directory.groups.get(event.group_id)
        if not isinstance(group, self._group_class):
            return _NO_CHANGE
        current = group.current.get(event.member_id)
        if current is None or current.member_epoch != event.member_epoch:
            return _NO_CHANGE
        return self.remove(event.group_id, event.member_id, self._revocation_timeout, now_ms)

    def remove(
        self, group_id: GroupId, member_id: MemberId, departure: Departure, now_ms: int
    ) -> CoordinatorResult[None]:
        """Remove a member if it exists."""
        group = self._directory.groups.get(group_id)
        if not isinstance(group, self._group_class) or member_id not in group.members:
            return _NO_CHANGE
        return self._remove(group, member_id, departure, now_ms)


def target_reset_records(
    types: RecordTypes, group: ModernGroup[Any, Any, Any], rules: Rules, *, is_emptied: bool
) -> list[Record]:
    """Return the record of the next group epoch's target if a removal leaves no members."""
    if not (is_emptied and rules.resets_empty_targets):
        return []
    return [types.target_epoch_record(group.group_id, group.epoch + 1, NEVER_ASSIGNED_MS)]


def remove_members_result(
    group: ModernGroup[Any, Any, Any],
    departure: Departure,
    events: Mapping[MemberId, Event],
    *,
    records: Sequence[Record],
    timers: Sequence[TimerChange],
    now_ms: int,
) -> CoordinatorResult[None]:
    """Return the result of removing the members in `events`, which raises the group epoch."""
    for member_id in events:
        group.ownership().record_departure(member_id, departure.reason, now_ms)
    reasons = [event.text for event in events.values()]
    epoch_event = group_epoch_raised_event(group.group_id, group.epoch + 1, reasons)
    return CoordinatorResult(
        response=None, records=records, timers=timers, events=[*events.values(), epoch_event]
    )


def with_response(removed: CoordinatorResult[None], response: R) -> CoordinatorResult[R]:
    """Return the result of a removal with the response to the request that caused it."""
    return CoordinatorResult(
        response=response,
        records=removed.records,
        replies=removed.replies,
        timers=removed.timers,
        events=removed.events,
        intents=removed.intents,
    )
