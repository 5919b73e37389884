"""DecisionBuilder: collects the results of a decision about a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar

from kafkalite.coordinator.contract import (
    CancelTimer,
    CoordinatorResult,
    Event,
    ParkedRequest,
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

_MAX_EVENTS = 100
"""The maximum number of events of one decision: a request may name very many members."""

Undo: TypeAlias = "Callable[[DecisionBuilder, KafkaError], None]"
"""Restores soft state after the append of a decision's record failed."""


class DecisionBuilder:
    """Records, replies, timers and events, collected until the decision is complete."""

    __slots__ = ("events", "now_ms", "records", "replies", "timers", "undo")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.timers: list[TimerChange] = []
        self.events: list[Event] = []
        self.undo: tuple[Record, Undo] | None = None
        """A record of this decision, and the function to call if its append fails."""

    def record(self, record: Record, undo: Undo) -> None:
        """Add a record; `undo` is called if its append fails."""
        self.records.append(record)
        self.undo = (record, undo)

    def reply(self, ticket: Ticket, response: object) -> None:
        """Add the response to a parked request."""
        self.replies.append(Reply(ticket, response))

    def set_timer(self, key: Hashable, deadline_ms: int, event: object) -> None:
        """Set a timer; it replaces the earlier timer of this key."""
        self.timers.append(SetTimer(key, deadline_ms, event))

    def cancel_timer(self, key: Hashable) -> None:
        """Cancel the timer of this key."""
        self.timers.append(CancelTimer(key))

    def add_event(self, group_id: GroupId, kind: str, text: str, **facts: object) -> None:
        """Add an explain event."""
        if len(self.events) < _MAX_EVENTS:
            self.events.append(Event(group_id, kind, text, facts))

    def add_refusal(self, group_id: GroupId, error: KafkaError) -> None:
        """Add the explain event of a refusal that is sent as a response."""
        if len(self.events) < _MAX_EVENTS:
            self.events.append(refusal_event(group_id, error))

    def result(self, response: R | ParkedRequest) -> CoordinatorResult[R]:
        """Return the result with a response."""
        return CoordinatorResult(
            response=response,
            records=self.records,
            replies=self.replies,
            timers=self.timers,
            events=self.events,
        )
