"""`ResponseTimeouts`: timeouts for responses, and detection of an unavailable target.

The recorded duration of a request is added to its timeout. After several consecutive timeouts or
lost connections, a separate request checks whether the target is reachable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.client.connection import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafkalite.traffic.model import Exchange

DEFAULT_TIMEOUT_S = 5.0
_SHORT_TIMEOUT_S = 1.0
"""The timeout after a previous timeout."""
_TIMEOUTS_PER_CHECK = 3
_LOST_CONNECTIONS_PER_CHECK = 10
_MAX_FAILURES = 30
"""Consecutive failures after which the target counts as unavailable without a check. A target that
has never responded counts as unavailable without a check, too."""
_S_NS = 1_000_000_000


class TargetUnavailableError(Exception):
    """The target is unavailable; the text is one line for users."""


class ResponseTimeouts:
    """The response timeouts of one replay."""

    def __init__(
        self, seconds: float, ask: Callable[[], Awaitable[None]], *, is_driven: bool = False
    ) -> None:
        """`ask` sends a request to the target, and raises UnreachableError.

        If the target's clock is driven, recorded durations are not added to timeouts.
        """
        self._seconds = seconds
        self._is_driven = is_driven
        self._ask = ask
        self._timeouts = 0
        self._lost_connections = 0
        self._has_answered = False

    def seconds(self, exchange: Exchange) -> float:
        """Return the timeout for the response to a request."""
        timeout_s = min(self._seconds, _SHORT_TIMEOUT_S) if self._timeouts else self._seconds
        if self._is_driven:
            return timeout_s
        recorded_s = ((exchange.answered_ns or 0) - exchange.sent_ns) / _S_NS
        return timeout_s + max(0.0, recorded_s)

    def count_response(self) -> None:
        """Count a response."""
        self._timeouts = self._lost_connections = 0
        self._has_answered = True

    async def count_timeout(self) -> None:
        """Count a timeout; raises TargetUnavailableError if the target is unavailable."""
        self._timeouts += 1
        if self._timeouts % _TIMEOUTS_PER_CHECK == 0:
            failure = f"no response to {self._timeouts} requests in a row"
            await self._check_target(failure, is_final=self._timeouts >= _MAX_FAILURES)

    async def count_lost_connection(self, reason: str) -> None:
        """Count a lost connection; raises TargetUnavailableError if the target is unavailable."""
        self._lost_connections += 1
        if self._lost_connections % _LOST_CONNECTIONS_PER_CHECK == 0:
            failure = f"{reason}, on {self._lost_connections} connections in a row"
            await self._check_target(failure, is_final=self._lost_connections >= _MAX_FAILURES)

    async def _check_target(self, failure: str, *, is_final: bool) -> None:
        if is_final or not self._has_answered:
            raise TargetUnavailableError(failure)
        try:
            await self._ask()
        except UnreachableError as error:
            raise TargetUnavailableError(f"{failure}; {error}") from error
