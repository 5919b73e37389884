"""`ResponseTimeouts`: timeouts for responses, and detection of an unavailable target.

The recorded duration of a request is added to its timeout. After several consecutive timeouts or
lost connections, a separate request checks whether the target is reachable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.connection import CLOSED_REASON, UnreachableError
from kafkalite.ports.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kafkalite.capture.model import Exchange

STAND_IN_HINT: Final = "a stand-in closes the connection if its capture has no response"
"""A cause that a target cannot state: Kafka's protocol has no field for it."""
DEFAULT_TIMEOUT_S = 5.0
_SHORT_TIMEOUT_S = 1.0
"""The timeout after a previous timeout."""
_TIMEOUTS_PER_CHECK = 3
_LOST_CONNECTIONS_PER_CHECK = 10
_MAX_FAILURES = 30
"""Consecutive failures after which the target counts as unavailable without a check. A target that
has never responded also counts as unavailable without a check."""


class TargetUnavailableError(Exception):
    """The target is unavailable; the text is one line for users."""


class ResponseTimeouts:
    """The response timeouts of one replay."""

    def __init__(
        self,
        timeout_s: float,
        check_reachable: Callable[[], Awaitable[None]],
        *,
        is_driven: bool = False,
    ) -> None:
        """`check_reachable` raises UnreachableError if the target does not respond to a request.

        If the target's clock is driven, recorded durations are not added to timeouts.
        """
        self._timeout_s = timeout_s
        self._is_driven = is_driven
        self._check_reachable = check_reachable
        self._timeout_count = 0
        self._lost_connection_count = 0
        self._has_responded = False

    def timeout_s(self, exchange: Exchange) -> float:
        """Return the timeout for the response to a request."""
        timeout_s = (
            min(self._timeout_s, _SHORT_TIMEOUT_S) if self._timeout_count else self._timeout_s
        )
        if self._is_driven:
            return timeout_s
        recorded_s = ((exchange.answered_ns or 0) - exchange.sent_ns) / NANOSECONDS_PER_SECOND
        return timeout_s + max(0.0, recorded_s)

    def count_response(self) -> None:
        """Count a response."""
        self._timeout_count = self._lost_connection_count = 0
        self._has_responded = True

    async def count_timeout(self) -> None:
        """Count a timeout; raises TargetUnavailableError if the target is unavailable."""
        self._timeout_count += 1
        if self._timeout_count % _TIMEOUTS_PER_CHECK == 0:
            failure = f"no response to {self._timeout_count} requests in a row"
            await self._check_target(failure, is_final=self._timeout_count >= _MAX_FAILURES)

    async def count_lost_connection(self, reason: str) -> None:
        """Count a lost connection; raises TargetUnavailableError if the target is unavailable."""
        self._lost_connection_count += 1
        if self._lost_connection_count % _LOST_CONNECTIONS_PER_CHECK == 0:
            hint = f" ({STAND_IN_HINT})" if reason == CLOSED_REASON else ""
            failure = f"{reason}, on {self._lost_connection_count} connections in a row{hint}"
            await self._check_target(failure, is_final=self._lost_connection_count >= _MAX_FAILURES)

    async def _check_target(self, failure: str, *, is_final: bool) -> None:
        if is_final or not self._has_responded:
            raise TargetUnavailableError(failure)
        try:
            await self._check_reachable()
        except UnreachableError as error:
            raise TargetUnavailableError(f"{failure}; {error}") from error
