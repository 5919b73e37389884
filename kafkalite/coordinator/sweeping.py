"""Sweeping: what is done to all that a shard keeps, a little in each decision.

A shard may hold a hundred thousand groups or transactional ids, and to look at all of them at once
would keep every client waiting. So a round is a row of decisions, with the event loop's turn in
between. What one of them writes is one batch, all or nothing, and the log takes no more than
`max.message.bytes`: a million, unless somebody has set it lower.
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
"""What lies between two decisions of a round; more than either takes, so that others come first."""

TOMBSTONES_AT_ONCE: Final = 500
_NAMES_AT_ONCE = 200_000
"""Characters in the records of one decision, more or less."""
_EVENTS_AT_ONCE = 100
"""What one decision tells of; more would be forgotten at once, and cost more than the records."""


@dataclass(slots=True, kw_only=True)
class Pass:
    """What one decision of a sweep has come to, and whether it may go on."""

    most_looks: int
    """Things that it looks at."""
    limit: int = TOMBSTONES_AT_ONCE
    """Records that it writes."""
    records: list[CoordinatorRecord[object, object]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    looks: int = 0
    names: int = 0
    """Characters in its records."""

    def is_full(self) -> bool:
        """Whether the rest is for later."""
        return (
            self.looks >= self.most_looks
            or self.names >= _NAMES_AT_ONCE
            or len(self.records) >= self.limit
        )

    def tell(self, event: Callable[[], Event]) -> None:
        """Tell of something, if there is room for it."""
        if len(self.events) < _EVENTS_AT_ONCE:
            self.events.append(event())


P = TypeVar("P", bound=Pass)


class Stride:
    """How many records a decision may write: fewer, once the log found those of one too large."""

    __slots__ = ("_latest", "_most")

    def __init__(self) -> None:
        self._most = TOMBSTONES_AT_ONCE
        self._latest: Sequence[object] = ()

    def begin(self, done: P) -> P:
        """Return a pass that goes no further than this."""
        done.limit = min(done.limit, self._most)
        self._latest = done.records
        return done

    def on_append_failed(self, records: Sequence[object], error: KafkaError) -> None:
        """Shorten the stride if these were the last pass's records, and too large."""
        if records is self._latest and error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            self._most = max(self._most // 2, 1)
