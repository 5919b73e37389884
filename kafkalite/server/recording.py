"""Recording of connections, which can start and stop while clients are connected.

A recorded connection has a `RecordedConnection` between its transport and itself. Other connections
have none, so recording costs them nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.capture.model import Endpoint
    from kafkalite.capture.recording.recorder import Recorder, Tap
    from kafkalite.server.connection import Connection


class Recording:
    """The recorder of a broker, if there is one, and the connections that are recorded."""

    __slots__ = ("_recorded", "recorder")

    def __init__(self, recorder: Recorder | None = None) -> None:
        self.recorder = recorder
        self._recorded: set[RecordedConnection] = set()

    def protocol_of(self, connection: Connection) -> Connection | RecordedConnection:
        """Return the protocol for a new transport: the connection, or a RecordedConnection."""
        if self.recorder is None:
            return connection
        return RecordedConnection(connection, self.recorder, self._recorded)

    def start(self, recorder: Recorder, connections: Iterable[Connection]) -> None:
        """Record these connections, and all new ones.

        The recording of a connection begins with the next request that starts while none is being
        served. Raises RuntimeError if connections are recorded already.
        """
        if self.recorder is not None:
            raise RuntimeError(f"traffic is already recorded in {self.recorder.directory}")
        self.recorder = recorder
        for connection in connections:
            RecordedConnection(connection, recorder, self._recorded).attach(connection.transport)

    def stop(self) -> Recorder | None:
        """Stop recording, and return the recorder, which the caller must close."""
        recorder, self.recorder = self.recorder, None
        for recorded in tuple(self._recorded):
            recorded.detach()
        return recorder


class RecordedConnection(asyncio.BufferedProtocol):
    """A protocol between a transport and a connection that records their traffic."""

    __slots__ = ("_all_recorded", "_connection", "_recorder", "_space", "_tap", "_transport")

    def __init__(
        self, connection: Connection, recorder: Recorder, all_recorded: set[RecordedConnection]
    ) -> None:
        """Create a recorded connection, which is in `all_recorded` while it is recorded."""
        self._connection = connection
        self._recorder = recorder
        self._all_recorded = all_recorded
        self._space: memoryview | None = None
        self._tap: Tap | None = None
        """None until the first request that starts while no other is being served."""
        self._transport: asyncio.Transport

    def attach(self, transport: asyncio.Transport) -> None:
        """Begin to record a connection that is already being served."""
        self._transport = transport
        self._all_recorded.add(self)
        transport.set_protocol(self)
        self._connection.transport = cast("asyncio.Transport", _TappedTransport(transport, self))

    def detach(self) -> None:
        """Connect the transport and the connection directly, and end the recording."""
        self._connection.transport = self._transport
        self._transport.set_protocol(self._connection)
        self._end_recording()

    def replace_transport(self, transport: asyncio.Transport) -> asyncio.Transport:
        """Send by another transport from now on, and return the present one."""
        replaced, self._transport = self._transport, transport
        self._connection.transport = cast("asyncio.Transport", _TappedTransport(transport, self))
        return replaced

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Record a new connection from its first byte on."""
        self._transport = cast("asyncio.Transport", transport)
        self._all_recorded.add(self)
        self._tap = self._open()
        tapped = _TappedTransport(self._transport, self)
        self._connection.connection_made(cast("asyncio.BaseTransport", tapped))

    def _open(self) -> Tap:
        return self._recorder.open(
            client=_endpoint(self._transport, "peername"),
            broker=_endpoint(self._transport, "sockname"),
            node_id=self._connection.node_id,
            listener=self._connection.listener,
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for received bytes."""
        self._space = space = self._connection.get_buffer(sizehint)
        return space

    def buffer_updated(self, nbytes: int) -> None:
        """Record and serve received bytes."""
        space, self._space = self._space, None  # a reference would keep a large buffer in memory
        assert space is not None
        tap = self._tap
        if tap is None or tap.is_lost:
            tap = self._begin_recording()
        if tap is not None:
            tap.received(space[:nbytes])
        del space
        self._connection.buffer_updated(nbytes)

    def _begin_recording(self) -> Tap | None:
        """Begin to record, or resume after lost data, if no request is being served."""
        if self._connection.session.is_idle:
            if self._tap is None:
                self._tap = self._open()
            else:
                self._tap.begin()
        return self._tap

    def record_sent(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Record sent bytes."""
        if self._tap is not None:
            self._tap.sent(pieces)

    def eof_received(self) -> None:
        """Forward: the client has disconnected."""
        self._connection.eof_received()

    def pause_writing(self) -> None:
        """Forward: the client does not read."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Forward: the client reads again."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forward: the connection has ended. End its recording."""
        self._connection.connection_lost(exc)
        self._end_recording()

    def _end_recording(self) -> None:
        self._all_recorded.discard(self)
        tap, self._tap = self._tap, None
        if tap is not None:
            tap.close()


class _TappedTransport:
    """A transport whose writes are recorded; all other attributes are forwarded."""

    __slots__ = ("_recorded", "_transport")

    def __init__(self, transport: asyncio.Transport, recorded: RecordedConnection) -> None:
        self._transport = transport
        self._recorded = recorded

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - attributes can have any type
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send and record."""
        self._recorded.record_sent((data,))
        self._transport.write(data)

    def writelines(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send and record."""
        self._recorded.record_sent(pieces)
        self._transport.writelines(pieces)


def _endpoint(transport: asyncio.BaseTransport, key: str) -> Endpoint:
    from kafkalite.capture.model import Endpoint  # noqa: PLC0415 - rarely used

    # The address is missing if the client disconnected before it was accepted.
    name = transport.get_extra_info(key) or ("", 0)
    return Endpoint(name[0], name[1])
