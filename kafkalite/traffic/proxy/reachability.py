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
"""Minimum time between two lines about a node that cannot be reached."""


class UnreachableError(Exception):
    """No address accepts a connection; the text has every address with the reason."""


async def connect_to_first(
    protocol: Callable[[], asyncio.Protocol],
    addresses: Sequence[Address],
    tls: ssl.SSLContext | None,
    timeout_s: float,
) -> Address:
    """Connect to the first address that accepts, and return it; raises UnreachableError."""
    reasons = []
    for address in addresses:
        try:
            async with asyncio.timeout(timeout_s):
                await connect(protocol, address, tls)
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
        self._attempts = 0
        """Failed attempts since the last line."""
        self._reason = ""
        self._timer: asyncio.TimerHandle | None = None

    def failed(self, reason: str) -> None:
        """Log a failed attempt, or count it for the next line."""
        self._is_unreachable = True
        self._reason = reason
        self._attempts += 1
        if self._timer is None:
            self._write()

    def reached(self) -> None:
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
        self._attempts = 0

    def _write(self) -> None:
        """Log the attempts since the last line; without attempts, log the next one at once."""
        self._timer = None
        if self._attempts:
            self._log.warning(
                "the upstream cannot be reached", reason=self._reason, attempts=self._attempts
            )
            self._attempts = 0
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(REPORT_INTERVAL_S, self._write)
