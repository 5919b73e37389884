"""Connecting to the first address of a node that accepts, and a throttled log of failures."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from kafkalite.client.connection import ConnectError, connect

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from kafkalite.server.addresses import Address
    from kafkalite.server.logging import Log

REPORT_INTERVAL_S: Final = 10.0
"""Minimum time between two log lines about a node that cannot be reached."""


class UnreachableError(Exception):
    """No address accepts a connection; the text has the reason for each address."""


async def connect_to_first(
    protocol_factory: Callable[[], asyncio.Protocol],
    addresses: Sequence[Address],
    tls: ssl.SSLContext | None,
    timeout_s: float,
) -> Address:
    """Connect to the first address that accepts, and return it; raises UnreachableError."""
    reasons = []
    for address in addresses:
        try:
            async with asyncio.timeout(timeout_s):
                await connect(protocol_factory, address, tls)
        except TimeoutError:
            reasons.append(f"{address}: no connection within {timeout_s:g} s")
        except ConnectError as error:
            reasons.append(f"{address}: {error}")
        else:
            return address
    raise UnreachableError(f"no broker answers at {'; '.join(reasons)}")


class Probe(asyncio.Protocol):
    """Closes a connection as soon as it is open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection."""
        transport.close()


class ReachabilityLog:
    """Logs that a node cannot be reached: at once, then at most one line per interval."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._is_unreachable = False
        self._failed_attempts = 0
        """Failed attempts since the last line."""
        self._reason = ""
        self._timer: asyncio.TimerHandle | None = None

    def report_failure(self, reason: str) -> None:
        """Log a failed attempt, or count it for the next line."""
        self._is_unreachable = True
        self._reason = reason
        self._failed_attempts += 1
        if self._timer is None:
            self._write()

    def report_success(self) -> None:
        """Log that the node can be reached, if it could not before."""
        if self._is_unreachable:
            self.close()
            self._log.info("the upstream can be reached again")

    def close(self) -> None:
        """Forget all failures."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_unreachable = False
        self._failed_attempts = 0

    def _write(self) -> None:
        """Log the failed attempts since the last line.

        If there are none, the next failure is logged at once.
        """
        self._timer = None
        if self._failed_attempts:
            self._log.warning(
                "the upstream cannot be reached",
                reason=self._reason,
                attempts=self._failed_attempts,
            )
            self._failed_attempts = 0
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(REPORT_INTERVAL_S, self._write)
