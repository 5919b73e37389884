"""Draft: a decision on a classic group while it is being made."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafkalite.coordinator.contract import (
    CancelTimer,
    CoordinatorResult,
    Event,
    Parked,
    Reply,
    SetTimer,
)
from kafkalite.groups.classic.refusals import refusal_event

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kafkalite.coordinator.contract import Ticket, TimerChange
    from kafkalite.groups.group import GroupId, Record
    from kafkalite.protocol.errors import KafkaError

R = TypeVar("R")

_EVENTS_AT_ONCE = 100
"""What one decision tells at most: a request may name a hundred thousand members."""

Undo: TypeAlias = "Callable[[Draft, KafkaError], None]"
"""Puts soft state right after a record that it foresaw could not be appended."""


class Draft:
    """Records, replies, timers and events, collected until the decision is complete."""

    __slots__ = ("events", "now_ms", "records", "replies", "timers", "undo")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.timers: list[TimerChange] = []
        self.events: list[Event] = []
        self.undo: tuple[Record, Undo] | None = None
        """A record of this decision, and what to do should it not be appended."""

    def record(self, record: Record, undo: Undo) -> None:
        """Have a record appended, or else undone what was done in its favour."""
        self.records.append(record)
        self.undo = (record, undo)

    def reply(self, ticket: Ticket, response: object) -> None:
        """Answer a request that was parked."""
        self.replies.append(Reply(ticket, response))

    def set_timer(self, key: Hashable, deadline_ms: int, event: object) -> None:
        """Have `event` come due, instead of what `key` was set to."""
        self.timers.append(SetTimer(key, deadline_ms, event))

    def cancel_timer(self, key: Hashable) -> None:
        """Forget what `key` was set to."""
        self.timers.append(CancelTimer(key))

    def tell(self, group_id: GroupId, kind: str, text: str, **facts: object) -> None:
        """Tell of something that befell a group, for whoever asks why."""
        if len(self.events) < _EVENTS_AT_ONCE:
            self.events.append(Event(group_id, kind, text, facts))

    def refuse(self, group_id: GroupId, error: KafkaError) -> None:
        """Tell of a refusal that goes out as a response."""
        if len(self.events) < _EVENTS_AT_ONCE:
            self.events.append(refusal_event(group_id, error))

    def result(self, response: R | Parked) -> CoordinatorResult[R]:
        """Return the decision with its answer."""
        return CoordinatorResult(
            response=response,
            records=self.records,
            replies=self.replies,
            timers=self.timers,
            events=self.events,
        )
