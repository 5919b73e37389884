"""A connection whose bytes are recorded: as any other, with a tap on both of its ways.

A class of its own, so that where nothing is recorded nobody asks whether it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kafkalite.capture.model import Endpoint
from kafkalite.server.connection import Connection

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from kafkalite.capture.recorder import Recorder, Tap
    from kafkalite.server.listener import Door


_NOWHERE = memoryview(b"")


class RecordedConnection(Connection):
    """A client's socket, listened to."""

    __slots__ = ("_space", "_tap")

    def __init__(self, door: Door) -> None:
        super().__init__(door)
        self._space = _NOWHERE
        self._tap: Tap

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the conversation and its recording."""
        door = self._door
        self._tap = tap = cast("Recorder", door.recorder).open(
            client=_endpoint(transport, "peername"),
            broker=_endpoint(transport, "sockname"),
            node_id=door.node_id,
            listener=door.listener,
        )
        tapped = _TappedTransport(cast("asyncio.Transport", transport), tap)
        super().connection_made(cast("asyncio.BaseTransport", tapped))

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - ours is sized already
        """Return where to receive."""
        self._space = space = self.session.space()
        return space

    def buffer_updated(self, nbytes: int) -> None:
        """Record and serve what came."""
        space, self._space = self._space, _NOWHERE  # or its memory would be kept, however large
        tap = self._tap
        if tap.is_lost and self.session.is_between:
            tap.begin()
        tap.received(space[:nbytes])
        super().buffer_updated(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the peer, and end its recording."""
        super().connection_lost(exc)
        self._tap.close()


class _TappedTransport:
    """A transport whose writes are recorded; of the rest it knows nothing."""

    __slots__ = ("_tap", "_transport")

    def __init__(self, transport: asyncio.Transport, tap: Tap) -> None:
        self._transport = transport
        self._tap = tap

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what a transport has can be anything
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send and record."""
        self._tap.sent((data,))
        self._transport.write(data)

    def writelines(self, pieces: Sequence[bytes | memoryview]) -> None:
        """Send and record."""
        self._tap.sent(pieces)
        self._transport.writelines(pieces)


def _endpoint(transport: asyncio.BaseTransport, which: str) -> Endpoint:
    # A peer that is gone before it was greeted has no name any more.
    name = transport.get_extra_info(which) or ("", 0)
    return Endpoint(name[0], name[1])
