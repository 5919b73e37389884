"""Patience: how long an answer is waited for, and when a target is given up.

Where a request took long when it was recorded, it may take as long again. A target that has been
silent a few times in a row, or has ended as many connections, is asked whether it is there at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.control.kafka_client import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafkalite.capture.model import Exchange

DEFAULT_S = 5.0
_IMPATIENT_S = 1.0
"""A target that was silent just now is waited for no longer than that."""
_SILENCES = 3
_ENDS = 10
_MOST_SILENCES = 30
"""So many in a row are enough, whatever the target says of itself; the first are, where it has
answered nothing yet."""
_S_NS = 1_000_000_000


class GivenUpError(Exception):
    """A target that is as good as gone; the text is one line for people."""


class Patience:
    """How patient a replay is with its target."""

    def __init__(
        self, seconds: float, ask: Callable[[], Awaitable[None]], *, is_driven: bool = False
    ) -> None:
        """`ask` raises UnreachableError where the target is not there.

        Where the target's time is driven, nothing takes as long as it was recorded.
        """
        self._seconds = seconds
        self._is_driven = is_driven
        self._ask = ask
        self._silences = 0
        self._ends = 0
        self._has_answered = False

    def seconds(self, exchange: Exchange) -> float:
        """Return how long the answer to a request may take."""
        own_s = min(self._seconds, _IMPATIENT_S) if self._silences else self._seconds
        if self._is_driven:
            return own_s
        took_s = ((exchange.answered_ns or 0) - exchange.sent_ns) / _S_NS
        return own_s + max(0.0, took_s)

    def answered(self) -> None:
        """Take that the target gave an answer."""
        self._silences = self._ends = 0
        self._has_answered = True

    async def silent(self) -> None:
        """Take that it gave none in time; GivenUpError when that is enough."""
        self._silences += 1
        if self._silences % _SILENCES == 0:
            seen = f"it answered none of {self._silences} requests in a row"
            await self._look(seen, is_enough=self._silences >= _MOST_SILENCES)

    async def ended(self, why: str) -> None:
        """Take that it ended a connection, or had to be left; GivenUpError."""
        self._ends += 1
        if self._ends % _ENDS == 0:
            seen = f"{why}, on {self._ends} connections in a row"
            await self._look(seen, is_enough=self._ends >= _MOST_SILENCES)

    async def _look(self, seen: str, *, is_enough: bool) -> None:
        if is_enough or not self._has_answered:
            raise GivenUpError(seen)
        try:
            await self._ask()
        except UnreachableError as error:
            raise GivenUpError(f"{seen}; {error}") from error
