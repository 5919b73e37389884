"""A TCP proxy in front of a broker that delivers one request after its client has given it up.

It forwards everything else unchanged, so the broker has to advertise the address of the proxy.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.protocol import codec
from kafkalite.wire.frames import LENGTH_BYTES, frame_length

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Self

_HOST = "127.0.0.1"
_TIMEOUT_S = 30.0
_API_KEY = slice(LENGTH_BYTES, LENGTH_BYTES + 2)
_REQUEST_CORRELATION = slice(LENGTH_BYTES + 4, LENGTH_BYTES + 8)
_ANSWER_CORRELATION = slice(LENGTH_BYTES, LENGTH_BYTES + 4)
_CLOSED = (asyncio.IncompleteReadError, ConnectionError)


class HeldRequest:
    """The next request of an API: the broker gets nothing, and its client loses the connection.

    The client loses it at once, or waits until its timeout.
    """

    def __init__(self, proxy: HoldingProxy, api: str, *, disconnects: bool) -> None:
        self.api = api
        self.disconnects = disconnects
        self._proxy = proxy
        self._has_arrived = asyncio.Event()
        self._is_answered = asyncio.Event()
        self._upstream: asyncio.StreamWriter | None = None
        self._request = b""

    def wait(self) -> None:
        """Wait until the request has arrived."""
        self._proxy.run(self._has_arrived.wait())

    def release(self) -> None:
        """Deliver the request, and wait until the broker has answered it."""
        self._proxy.run(self._deliver())

    def arrived(self, request: bytes, upstream: asyncio.StreamWriter) -> None:
        """Store the request and the connection on which the broker expects it."""
        self._request, self._upstream = request, upstream
        self._has_arrived.set()

    def answered(self, answer: bytes) -> None:
        """Note an answer of the broker on the connection."""
        if answer[_ANSWER_CORRELATION] == self._request[_REQUEST_CORRELATION]:
            self._is_answered.set()

    async def _deliver(self) -> None:
        await self._has_arrived.wait()
        assert self._upstream is not None
        self._upstream.write(self._request)
        await self._is_answered.wait()
        self._upstream.close()


class HoldingProxy:
    """The proxy, in a thread of its own; as a context manager it runs until the end of the block.

    Its port is known before it serves, so that the broker behind it can advertise the port.
    """

    def __init__(self) -> None:
        self._socket = socket.create_server((_HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        self._upstream_port = 0
        self._expected: HeldRequest | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def bootstrap(self) -> str:
        """Return the bootstrap address, `host:port`."""
        return f"{_HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._socket.close()

    def serve(self, upstream_port: int) -> None:
        """Forward connections to the port of a broker."""
        self._upstream_port = upstream_port
        self.run(self._listen())

    def hold(self, api: str, *, disconnects: bool) -> HeldRequest:
        """Hold the next request of an API, on any connection, which may be closed at once."""
        self._expected = HeldRequest(self, api, disconnects=disconnects)
        return self._expected

    def run(self, work: Coroutine[None, None, object]) -> None:
        """Run a coroutine on the loop of the proxy; raises TimeoutError after 30 s."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, sock=self._socket)

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))

    async def _accept(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        """Forward a connection until one side closes it, or the client's side ends by a hold."""
        answers, upstream = await asyncio.open_connection(_HOST, self._upstream_port)
        self._writers |= {client, upstream}
        requests = asyncio.create_task(self._forward_requests(reader, client, upstream))
        held: HeldRequest | None = None
        try:
            with suppress(*_CLOSED):
                while True:
                    answer = await _read_frame(answers)
                    if requests.done() and (held := requests.result()):
                        held.answered(answer)
                    else:
                        client.write(answer)
        finally:
            requests.cancel()
            client.close()
            upstream.close()

    async def _forward_requests(
        self,
        reader: asyncio.StreamReader,
        client: asyncio.StreamWriter,
        upstream: asyncio.StreamWriter,
    ) -> HeldRequest | None:
        """Forward the requests of a connection; return the last one if it is held."""
        with suppress(*_CLOSED):
            while True:
                request = await _read_frame(reader)
                held = self._expected
                api_key = int.from_bytes(request[_API_KEY])
                if held is not None and codec.api_name(api_key) == held.api:
                    self._expected = None
                    if held.disconnects:
                        client.close()
                    held.arrived(request, upstream)
                    return held
                upstream.write(request)
        upstream.close()
        return None


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next frame, with its length."""
    length = await reader.readexactly(LENGTH_BYTES)
    return length + await reader.readexactly(frame_length(length, 0))
