"""HttpServer and ControlServer: HTTP applications on a socket, in the broker's event loop."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from asyncio import CancelledError
from contextlib import suppress
from functools import partial
from os.path import abspath
from typing import TYPE_CHECKING, Final

import uvicorn
from uvicorn.server import ServerState

from kafkalite.config.options import CONTROL_TLS_OFF, CONTROL_TLS_ON, CONTROL_TOKEN_AUTO
from kafkalite.control.address import allowed_hosts, is_loopback, url_of
from kafkalite.control.connection import (
    ControlConnection,
    ControlTlsTransport,
    EncryptedControlConnection,
    EndpointContext,
    Limits,
)
from kafkalite.control.http import ControlApp
from kafkalite.control.local_endpoints import LocalEndpoint, publish_endpoint, withdraw_endpoint
from kafkalite.control.token import TokenError, given_token, stored_token
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.key_files import is_open_to_others
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.temporary import new_temporary_directory
from kafkalite.server.addresses import Address
from kafkalite.server.client_warnings import ClientWarnings, kind_of
from kafkalite.server.listener import accept, bind
from kafkalite.server.settings import SettingsError
from kafkalite.server.tls_transport import new_receive_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from kafkalite.control.token import ControlToken
    from kafkalite.ports.clock import Clock
    from kafkalite.ports.temporary import TemporaryDirectory
    from kafkalite.security.tls import TlsServer
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log


_SHUTDOWN_GRACE_S = 1
_LIMITS = Limits()
_INVALID_REQUEST: Final = "Invalid HTTP request received."


class ControlSecurity(NamedTuple):
    """The values of `--control-token` and `--control-tls`."""

    token: str | None = None
    """A token, @FILE or `auto`; None for a generated one if other machines reach the address."""
    tls: str | None = None
    """`on` or `off`; None for TLS if a listener has it."""

    def __repr__(self) -> str:
        """Return a text without the token."""
        return f"ControlSecurity(tls={self.tls!r})"


DEFAULT_SECURITY: Final = ControlSecurity()


class HttpServer(ABC):
    """Serves an HTTP application at an address, with TLS if it has a certificate."""

    def __init__(self, address: Address, clock: Clock, log: Log, limits: Limits = _LIMITS) -> None:
        """Bind the address; raises AddressError if that is impossible."""
        self._sockets = bind(address)
        self._address = Address(address.host, self._sockets[0].getsockname()[1])
        self._log = log
        self._limits = limits
        self._warnings = ClientWarnings(clock, log.warning)
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._tls_server: TlsServer | None = None

    @abstractmethod
    def _new_app(self) -> ASGIApp:
        """Return the application, when the address and the TLS settings are known."""

    @property
    def url(self) -> str:
        """The URL for clients on this machine; complete when the endpoint is started."""
        return url_of(self._address, self._scheme)

    @property
    def _scheme(self) -> str:
        return "http" if self._tls_server is None else "https"

    async def start(self) -> None:
        """Begin to serve.

        uvicorn's own server is not used: it installs signal handlers, wakes up ten times a second
        and writes to loggers of the whole process.
        """
        loop = asyncio.get_running_loop()
        context = EndpointContext(
            self._new_config(),
            self._state,
            self._limits,
            self._log,
            uvicorn_logger(self._log),
            loop,
            self._warnings,
        )
        new_protocol = self._protocol_factory(context)
        await accept(loop, new_protocol, self._sockets, self._servers)

    def _new_config(self) -> uvicorn.Config:
        # The logging module is global, and the process may be a test suite that uses uvicorn too.
        config = uvicorn.Config(
            self._new_app(),
            http=ControlConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,  # the log has the address of the connection
        )
        config.load()
        return config

    def _protocol_factory(self, context: EndpointContext) -> Callable[[], asyncio.BaseProtocol]:
        tls_server = self._tls_server
        if tls_server is None:
            return partial(ControlConnection, context)
        encrypted_buffer, decrypted_buffer = new_receive_buffer(), new_receive_buffer()

        def new_protocol() -> asyncio.BaseProtocol:
            connection = EncryptedControlConnection(context, decrypted_buffer)
            return ControlTlsTransport(tls_server, encrypted_buffer, connection, connection)

        return new_protocol

    async def stop(self) -> None:
        """Close all connections; running requests get a short time to finish."""
        self._warnings.stop()
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
        self,
        broker: Broker,
        address: Address,
        log: Log,
        limits: Limits = _LIMITS,
        security: ControlSecurity = DEFAULT_SECURITY,
        *,
        schema_registry_url: str | None = None,
    ) -> None:
        """Bind the address; raises AddressError if that is impossible.

        The console decodes records by the schemas of the registry. Raises SettingsError if a given
        token cannot be read.
        """
        self._schema_registry_url = schema_registry_url
        self._broker = broker
        self._security = security
        self._token = _given_token(security)
        self._is_published = False
        self._temporary: TemporaryDirectory | None = None
        super().__init__(address, broker.clock, log, limits)

    @property
    def token(self) -> ControlToken | None:
        """The token that requests need; None if they need none."""
        return self._token

    async def start(self) -> None:
        """Begin to serve; the broker has started. Raises SettingsError."""
        self._prepare_security()
        await super().start()
        self._publish()

    def _prepare_security(self) -> None:
        """Load the certificate, and generate the token; raises SettingsError."""
        tls = self._security.tls
        if tls != CONTROL_TLS_OFF:
            self._tls_server = self._broker.new_endpoint_tls(is_required=tls == CONTROL_TLS_ON)
        is_generated = self._security.token == CONTROL_TOKEN_AUTO or (
            self._security.token is None and not is_loopback(self._address.host)
        )
        if is_generated:
            try:
                self._token = stored_token(self._token_directory(), SystemEntropy())
            except (OSError, TokenError) as error:
                raise SettingsError(f"--control-token: {error}") from error
            self._warn_of_open_file()

    def _token_directory(self) -> str:
        """Return the data directory, or a temporary one if the data is in memory."""
        if not self._broker.is_in_memory:
            return self._broker.data_directory
        self._temporary = new_temporary_directory(SystemEntropy().uuid())
        return self._temporary.path

    def _warn_of_open_file(self) -> None:
        file = None if self._token is None else self._token.file
        with suppress(OSError):  # the file may be removed at any time
            if file is not None and is_open_to_others(file):
                self._log.warning(
                    "other users of this machine can read the control token: remove the file, and "
                    "the next start makes a new token",
                    path=file,
                )

    def _new_app(self) -> Starlette:
        return ControlApp(
            self._broker,
            self._log,
            allowed_hosts(self._address),
            self._token,
            self._report_refusal,
            scheme=self._scheme,
            schema_registry_url=self._schema_registry_url,
        ).app

    def _report_refusal(self, client_host: str, reason: str) -> None:
        fields = {"peer": client_host, "reason": reason}
        self._warnings.warn(client_host, kind_of(reason), "control request refused", **fields)

    def _publish(self) -> None:
        """Let commands of the same user find the files of the endpoint."""
        files = self._broker.certificate_files
        token = self._token
        endpoint = LocalEndpoint(
            self._scheme,
            None if token is None or token.file is None else abspath(token.file),  # noqa: PTH100 - Path adds nothing here
            None if files is None else abspath(files.authority),  # noqa: PTH100 - as above
        )
        try:
            publish_endpoint(self._address.port, endpoint)
        except OSError as error:
            self._log.warning(
                "commands on this machine need --control-token and --control-ca",
                path=error.filename,
                reason=error.strerror,
            )
        else:
            self._is_published = True

    async def stop(self) -> None:
        """Close all connections; running requests get a short time to finish."""
        if self._is_published:
            withdraw_endpoint(self._address.port)
        if self._temporary is not None:
            self._temporary.remove()
        await super().stop()


def _given_token(security: ControlSecurity) -> ControlToken | None:
    """Return the token of the settings, None if there is none yet; raises SettingsError."""
    if security.token is None or security.token == CONTROL_TOKEN_AUTO:
        return None
    try:
        return given_token(security.token)
    except TokenError as error:
        raise SettingsError(f"--control-token: {error}") from error


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
        if event == _INVALID_REQUEST:
            return  # ControlConnection reports it, with the client
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
