"""Draft: a decision on a classic group while it is being made."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from kafkalite.coordinator.contract import CancelTimer, CoordinatorResult, Parked, Reply, SetTimer

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kafkalite.coordinator.contract import Ticket, TimerChange
    from kafkalite.groups.group import Record

R = TypeVar("R")


class Draft:
    """Records, replies and timers, collected until the decision is complete."""

    __slots__ = ("now_ms", "records", "replies", "timers")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.timers: list[TimerChange] = []

    def reply(self, ticket: Ticket, response: object) -> None:
        """Answer a request that was parked."""
        self.replies.append(Reply(ticket, response))

    def set_timer(self, key: Hashable, deadline_ms: int, event: object) -> None:
        """Have `event` come due, instead of what `key` was set to."""
        self.timers.append(SetTimer(key, deadline_ms, event))

    def cancel_timer(self, key: Hashable) -> None:
        """Forget what `key` was set to."""
        self.timers.append(CancelTimer(key))

    def result(self, response: R | Parked) -> CoordinatorResult[R]:
        """Return the decision with its answer."""
        return CoordinatorResult(
            response=response, records=self.records, replies=self.replies, timers=self.timers
        )
