"""HttpServer and ControlServer: HTTP applications on a socket, in the broker's event loop."""

from __future__ import annotations

import asyncio
import logging
from asyncio import CancelledError
from functools import partial
from typing import TYPE_CHECKING

import uvicorn
from uvicorn.server import ServerState

from kafkalite.control.address import allowed_hosts, is_loopback, url_of
from kafkalite.control.connection import ControlConnection, EndpointContext, Limits
from kafkalite.control.http import ControlApp
from kafkalite.server.addresses import Address
from kafkalite.server.listener import bind

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette

    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log


_SHUTDOWN_GRACE_S = 1
_LIMITS = Limits()


class HttpServer:
    """Serves an HTTP application at an address."""

    def __init__(
        self,
        address: Address,
        log: Log,
        new_app: Callable[[str], Starlette],
        limits: Limits = _LIMITS,
    ) -> None:
        """Bind the address, and call `new_app` with the URL; raises AddressError."""
        self._sockets = bind(address)
        self._address = Address(address.host, self._sockets[0].getsockname()[1])
        self._log = log
        self._limits = limits
        # The logging module is global, and the process may be a test suite that uses uvicorn too.
        self._config = uvicorn.Config(
            new_app(self.url), http=ControlConnection, ws="none", lifespan="off", log_config=None
        )
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []

    @property
    def url(self) -> str:
        """The URL for clients on this machine."""
        return url_of(self._address)

    async def start(self) -> None:
        """Begin to serve.

        uvicorn's own server is not used: it installs signal handlers, wakes up ten times a second
        and writes to loggers of the whole process.
        """
        self._config.load()
        loop = asyncio.get_running_loop()
        context = EndpointContext(
            self._config, self._state, self._limits, self._log, uvicorn_logger(self._log), loop
        )
        for listening_socket in self._sockets:
            server = await loop.create_server(
                partial(ControlConnection, context), sock=listening_socket
            )
            self._servers.append(server)

    async def stop(self) -> None:
        """Close all connections; running requests get a short time to finish."""
        for server in self._servers:
            server.close()
        for connection in tuple(self._state.connections):
            assert isinstance(connection, ControlConnection)
            connection.transport.close()
        if self._state.tasks:
            _, running = await asyncio.wait(tuple(self._state.tasks), timeout=_SHUTDOWN_GRACE_S)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        for listening_socket in self._sockets:
            listening_socket.close()
        await asyncio.sleep(0)  # closed connections leave the loop in its next iteration


class ControlServer(HttpServer):
    """Serves the control endpoint of a broker at `address`."""

    def __init__(
        self, broker: Broker, address: Address, log: Log, limits: Limits = _LIMITS
    ) -> None:
        """Bind the address; raises AddressError if that is impossible."""
        control = ControlApp(broker, log, allowed_hosts(address))
        super().__init__(address, log, lambda _: control.app, limits)
        if not is_loopback(address.host):
            log.warning(
                "anyone who reaches this address can control the broker", control=str(self._address)
            )


def uvicorn_logger(log: Log) -> logging.Logger:
    """Return a logger that forwards its lines to `log`, which selects them by level.

    The logger has no parent and is not registered: the process may use uvicorn itself.
    """
    logger = logging.Logger("kafkalite.control", logging.DEBUG)  # noqa: LOG001 - see the docstring
    logger.addHandler(_ForwardingHandler(log))
    return logger


class _ForwardingHandler(logging.Handler):
    """A logging handler that writes to the broker's log."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        event = record.getMessage().strip()
        exception = record.exc_info[1] if record.exc_info else None
        if isinstance(exception, CancelledError):
            self._log.debug("a request was cancelled", source="uvicorn")
        elif record.levelno >= logging.ERROR:
            self._log.error(event, exception=exception, source="uvicorn")
        elif record.levelno >= logging.WARNING:
            self._log.warning(event, source="uvicorn")
        elif record.levelno >= logging.INFO:
            self._log.info(event, source="uvicorn")
        else:
            self._log.debug(event, source="uvicorn")
