"""The process of a container whose node runs in the primary of its cluster.

It listens where the node would listen, and passes the bytes of its clients to the primary. If the
container stops, the node stops. If it is paused, the node is isolated. The end of the primary is
the end of the cluster; the container joins the next one.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar, cast

from kafkalite import __version__
from kafkalite.cli.output import exit_immediately
from kafkalite.docker.cluster_messages import (
    MAX_LINE_BYTES,
    SIGN_INTERVAL_S,
    Admission,
    Application,
    Challenge,
    FirstLine,
    Greeting,
    Introduction,
    Refusal,
    Sign,
    line_of,
    proof_of,
    read_answer_line,
)
from kafkalite.ports.entropy import SystemEntropy
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.signals import called_on_signals, stop_signals
from kafkalite.server.addresses import AddressError
from kafkalite.server.listener import accept, bind
from kafkalite.server.logging import Log
from kafkalite.server.loop import new_event_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.docker.cluster_messages import Registration
    from kafkalite.docker.membership import Membership
    from kafkalite.server.addresses import Address

T = TypeVar("T")

_RETRY_INTERVAL_S: Final = 0.2
_FIRST_JOIN_TIMEOUT_S: Final = 60.0
"""As the default of Kafka's `initial.broker.registration.timeout.ms`."""
_LINE_INTERVAL_S: Final = 10.0
"""Time between two lines about a primary that does not answer."""
_ANSWER_TIMEOUT_S: Final = 10.0
_STOP_TIMEOUT_S: Final = 1.5
"""Time in which the primary shuts the node down, and its clients read their last answers."""
_FAILED_STATUS: Final = 2


class _UnreachableError(Exception):
    """A primary that does not answer; the text is the reason."""


class _EarlyError(Exception):
    """A primary that is not ready yet: the container waits."""


class _RefusedError(Exception):
    """An application that the primary refuses; the text is the reason."""


class RelayedListener(NamedTuple):
    """An address on which the container listens, and the name of the listener."""

    name: str
    address: Address


class _Joined(NamedTuple):
    """A membership, and its connection."""

    admission: Admission
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def address(self) -> tuple[str, int]:
        """The address of the primary."""
        host, port, *_ = self.writer.get_extra_info("peername")
        return host, port


class Relay:
    """The relay of one node."""

    def __init__(
        self,
        membership: Membership,
        registration: Registration,
        listeners: Sequence[RelayedListener],
        report: Callable[[str], None],
        report_ready: Callable[[Admission], None],
    ) -> None:
        """`report` writes one line; `report_ready` is called when clients are accepted."""
        self._membership = membership
        self._registration = registration
        self._listeners = listeners
        self._report = report
        self._report_ready = report_ready
        self._servers: list[asyncio.Server] = []
        self._clients: set[_Client] = set()

    async def run(self, stop_requested: asyncio.Event) -> int:
        """Relay until a stop is requested; return the exit status."""
        timeout_s = _FIRST_JOIN_TIMEOUT_S
        while not stop_requested.is_set():
            try:
                joined = await self._join(stop_requested, timeout_s)
            except _RefusedError as error:
                self._report(f"{self._membership.host} refuses this container: {error}")
                return _FAILED_STATUS
            except _UnreachableError as error:
                self._report(str(error))
                return _FAILED_STATUS
            if joined is None:
                return 0
            timeout_s = float("inf")
            try:
                await self._serve(joined, stop_requested)
            except AddressError as error:
                self._report(str(error))
                return _FAILED_STATUS
            finally:
                self._close(joined)
        return 0

    async def _join(self, stop_requested: asyncio.Event, timeout_s: float) -> _Joined | None:
        """Return a membership, None if a stop is requested before.

        Raises _RefusedError, and _UnreachableError if the primary does not answer in time.
        """
        started_s = next_line_s = time.monotonic()
        while not stop_requested.is_set():
            try:
                return await self._apply_until(stop_requested)
            except _EarlyError as error:
                started_s = time.monotonic()
                problem = str(error)
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
                problem = self._unreachable(error)
            now_s = time.monotonic()
            if now_s - started_s > timeout_s:
                raise _UnreachableError(problem)
            if now_s >= next_line_s + _LINE_INTERVAL_S:
                next_line_s = now_s
                self._report(f"waiting: {problem}")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop_requested.wait(), _RETRY_INTERVAL_S)
        return None

    async def _apply_until(self, stop_requested: asyncio.Event) -> _Joined | None:
        """Return a membership, None if a stop is requested before; raises also TimeoutError."""
        applying = asyncio.ensure_future(self._apply())
        stop = asyncio.ensure_future(stop_requested.wait())
        is_answered = False
        try:
            await asyncio.wait(
                (applying, stop), timeout=_ANSWER_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
            is_answered = applying.done() and not stop_requested.is_set()
        finally:
            stop.cancel()
            if not is_answered:
                applying.cancel()
                applying.add_done_callback(_close_joined)
        if stop_requested.is_set():
            return None
        if not is_answered:
            raise TimeoutError
        return applying.result()

    def _unreachable(self, error: Exception) -> str:
        own = self._membership
        reason = getattr(error, "strerror", None) or str(error) or "no answer"
        return (
            f"cannot join the cluster of {own.host} ({own.named_by}) on its port {own.port}: "
            f"{reason.lower()}; it must be a container of this image that has the same list or "
            f"KAFKALITE_PRIMARY={own.host}; if this container is the whole cluster, set "
            "KAFKALITE_BROKERS=1"
        )

    async def _apply(self) -> _Joined:
        """Return a membership; raises _RefusedError, OSError, EOFError or ValueError."""
        own = self._membership
        reader, writer = await asyncio.open_connection(own.host, own.port, limit=MAX_LINE_BYTES)
        try:
            greeting = Greeting(__version__, SystemEntropy().uuid().hex())
            writer.write(line_of(FirstLine(greeting=greeting)))
            challenge = await self._answer(reader, Challenge)
            proof = proof_of(own.secret, greeting, challenge)
            writer.write(line_of(Application(proof, self._registration)))
            return _Joined(await self._answer(reader, Admission), reader, writer)
        except BaseException:
            writer.close()
            raise

    async def _answer(self, reader: asyncio.StreamReader, kind: type[T]) -> T:
        answer = read_answer_line(kind, await reader.readuntil())
        if not isinstance(answer, Refusal):
            return answer
        if answer.is_temporary:
            raise _EarlyError(answer.refused)
        raise _RefusedError(answer.refused)

    async def _serve(self, joined: _Joined, stop_requested: asyncio.Event) -> None:
        """Relay until a stop is requested or the cluster ends; raises AddressError."""
        await self._listen(joined)
        self._report_ready(joined.admission)
        signs = asyncio.ensure_future(_send_signs(joined.writer))
        ended = asyncio.ensure_future(joined.reader.read(1))
        stop = asyncio.ensure_future(stop_requested.wait())
        try:
            await asyncio.wait((ended, stop), return_when=asyncio.FIRST_COMPLETED)
            if not stop_requested.is_set():
                self._report(
                    f"the cluster has ended with its primary {self._membership.host}: this "
                    "container joins the next one"
                )
                return
            self._stop_listening()
            joined.writer.write(line_of(Sign(stop=True)))
            await asyncio.wait((ended,), timeout=_STOP_TIMEOUT_S)
        finally:
            for task in (signs, ended, stop):
                task.cancel()

    async def _listen(self, joined: _Joined) -> None:
        loop = asyncio.get_running_loop()
        for listener in self._listeners:

            def new_client(name: str = listener.name) -> _Client:
                return _Client(joined.address, joined.admission.token, name, self._clients)

            await accept(loop, new_client, bind(listener.address), self._servers)

    def _stop_listening(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _close(self, joined: _Joined) -> None:
        self._stop_listening()
        for client in tuple(self._clients):
            client.abort()
        joined.writer.close()


def _close_joined(applying: asyncio.Task[_Joined]) -> None:
    """Close the connection of a membership that is not awaited any more."""
    if not applying.cancelled() and applying.exception() is None:
        applying.result().writer.close()


async def _send_signs(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(line_of(Sign()))
        await asyncio.sleep(SIGN_INTERVAL_S)


class _Side(asyncio.Protocol):
    """One socket of a relayed client; received bytes go to the other."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Send received bytes by the other socket."""
        if self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        """Receive no more from the other side, because this one does not read."""
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        """Receive from the other side again."""
        if self.other.transport is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the other socket when its bytes are sent; reset it if this one was reset."""
        if self.other.transport is not None:
            if exc is None:
                self.other.transport.close()
            else:
                self.other.transport.abort()

    def abort(self) -> None:
        """Close this socket at once, and thereby the other."""
        if self.transport is not None:
            self.transport.abort()


class _Client(_Side):
    """The socket of a client. It is not read until the primary has accepted the client."""

    def __init__(
        self, primary: tuple[str, int], token: str, listener: str, clients: set[_Client]
    ) -> None:
        super().__init__()
        self._primary = primary
        self._token = token
        self._listener = listener
        self._clients = clients
        self._received: list[bytes] = []
        """What arrived before the primary accepted the client."""
        self._connecting: asyncio.Task[None]
        self.other: _Upstream = _Upstream(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the primary."""
        super().connection_made(transport)
        self._clients.add(self)
        peer = transport.get_extra_info("peername") or ("", 0)
        introduction = Introduction(self._token, self._listener, peer[0], peer[1])
        self.other.first_line = line_of(FirstLine(introduction=introduction))
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.other, *self._primary)
        except OSError:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Send received bytes to the primary, or later if it has not accepted the client."""
        if self.other.is_accepted:
            super().data_received(data)
            return
        self._received.append(data)
        assert self.transport is not None
        self.transport.pause_reading()

    def accepted(self) -> None:
        """Send the bytes that have arrived, and read again."""
        assert self.other.transport is not None
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()
        # Last, because it may pause reading.
        self.other.transport.writelines(self._received)
        self._received.clear()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection to the primary."""
        self._clients.discard(self)
        self._connecting.cancel()
        super().connection_lost(exc)


class _Upstream(_Side):
    """The socket to the primary for one client."""

    def __init__(self, client: _Client) -> None:
        super().__init__()
        self.other: _Client = client
        self.first_line = b""
        self.is_accepted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce the client."""
        super().connection_made(transport)
        if self.other.transport is None or self.other.transport.is_closing():
            transport.close()
            return
        cast("asyncio.Transport", transport).write(self.first_line)

    def data_received(self, data: bytes) -> None:
        """Send the bytes of the broker to the client; the first one accepts the client."""
        if not self.is_accepted:
            self.is_accepted = True
            self.other.accepted()
            data = data[1:]
        if data:
            super().data_received(data)


def run_relay(relay: Relay) -> NoReturn:
    """Run a relay until a signal stops it, and exit."""
    from kafkalite.cli.process import allow_many_descriptors  # noqa: PLC0415 - as the broker

    async def serve() -> int:
        stop_requested = asyncio.Event()
        loop = asyncio.get_running_loop()
        with called_on_signals(loop, stop_signals(), stop_requested.set):
            return await relay.run(stop_requested)

    allow_many_descriptors()
    status = asyncio.Runner(loop_factory=lambda: new_event_loop(Log())).run(serve())
    # The loop would be closed after the thread that looks up the name of the primary has ended. It
    # may take longer than a container engine waits, because a container that has ended has no name.
    exit_immediately(status)
