"""Sweeping: periodic work on all groups or transactional ids of a shard, in small decisions.

A shard may hold a hundred thousand groups or transactional ids. Looking at all of them at once
would delay every client, so a round is a series of decisions with a pause for the event loop after
each. One decision writes one batch, all or nothing. The log accepts at most `max.message.bytes`: a
million bytes by default.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.coordinator.contract import CoordinatorRecord, Event
    from kafkalite.protocol.errors import KafkaError

PAUSE_MS: Final = 10
"""Pause between two decisions of a round; longer than a decision, so other work comes first."""

MAX_RECORDS: Final = 500
"""Maximum number of records of one decision."""
_MAX_CHARACTERS = 200_000
"""Approximate limit of characters in the records of one decision."""
_MAX_EVENTS = 100
"""Maximum number of events of one decision; the history would soon remove further ones."""


@dataclass(slots=True, kw_only=True)
class SweepDecision:
    """The records and events of one decision of a sweep, and its limits."""

    max_examined: int
    """Maximum number of items that the decision examines."""
    max_records: int = MAX_RECORDS
    """Maximum number of records that the decision writes."""
    records: list[CoordinatorRecord[object, object]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    examined: int = 0
    characters: int = 0
    """Characters in the records."""

    def is_full(self) -> bool:
        """Whether a limit is reached, so that the next decision handles the remaining items."""
        return (
            self.examined >= self.max_examined
            or self.characters >= _MAX_CHARACTERS
            or len(self.records) >= self.max_records
        )

    def add_event(self, event: Callable[[], Event]) -> None:
        """Add an event, unless there are too many already."""
        if len(self.events) < _MAX_EVENTS:
            self.events.append(event())


P = TypeVar("P", bound=SweepDecision)


class SweepLimit:
    """Maximum records of a decision; halved when the log refuses a batch as too large."""

    __slots__ = ("_latest_records", "_max_records")

    def __init__(self) -> None:
        self._max_records = MAX_RECORDS
        self._latest_records: Sequence[object] = ()

    def apply_to(self, decision: P) -> P:
        """Return the decision with this limit applied."""
        decision.max_records = min(decision.max_records, self._max_records)
        self._latest_records = decision.records
        return decision

    def on_append_failed(self, records: Sequence[object], error: KafkaError) -> None:
        """Halve the limit if these records are those of the last decision and were too large."""
        if records is self._latest_records and error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._max_records = max(self._max_records // 2, 1)
