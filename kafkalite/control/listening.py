"""ControlServer: the control endpoint on a socket, served by the event loop of its broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from kafkalite.control.address import hosts_allowed, is_loopback, url_of
from kafkalite.control.http import Control
from kafkalite.server.addresses import Address
from kafkalite.server.listener import bind

if TYPE_CHECKING:
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log

_CONNECTIONS = 64
"""Requests that are served at a time; further ones are told to come later."""
_KEEP_ALIVE_S = 5
_GRACE_S = 1


class _Quiet(H11Protocol):
    """A connection whose requests are logged nowhere."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        super().__init__(*arguments, **settings)
        self.access_log = False


class ControlServer:
    """Lets whoever reaches `address` drive a broker."""

    def __init__(self, broker: Broker, address: Address, log: Log) -> None:
        """Bind; AddressError when the address cannot be had."""
        self._sockets = bind(address)
        self._address = Address(address.host, self._sockets[0].getsockname()[1])
        control = Control(broker, log, hosts_allowed(address))
        self._config = uvicorn.Config(
            control.app,
            http=_Quiet,
            ws="none",
            lifespan="off",
            # Loggers are the whole process's, which may be a test suite with a uvicorn of its own.
            log_config=None,
            server_header=False,
            date_header=False,
            limit_concurrency=_CONNECTIONS,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(self._config)
        if not is_loopback(address.host):
            log.warning(
                "whoever reaches this address can drive the broker", control=str(self._address)
            )

    @property
    def url(self) -> str:
        """Where this machine finds it."""
        return url_of(self._address)

    async def start(self) -> None:
        """Serve from now on.

        Only the parts of uvicorn's server that serve are used: its own main loop would take over
        the process's signals, and wake it ten times a second.
        """
        self._config.load()
        self._server.lifespan = self._config.lifespan_class(self._config)
        await self._server.startup(sockets=self._sockets)

    async def stop(self) -> None:
        """Serve nothing more: answers already made may leave, nobody else is waited for."""
        for connection in tuple(self._server.server_state.connections):
            assert isinstance(connection, _Quiet)
            connection.transport.close()
        if self._server.started:
            await self._server.shutdown(sockets=self._sockets)
        for bound in self._sockets:
            bound.close()
        await asyncio.sleep(0)  # connections that were closed leave the loop in its next turn
