"""RawClient: a client that sends any message in any version and returns the raw answer.

Frames and headers are packed by hand here, so that the tests share no framing with the emulator.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message

_API_VERSIONS = 18
_TIMEOUT_S = 15.0
_CLIENT_ID = b"conformance"


class ConnectionClosedError(Exception):
    """The broker closed the connection instead of answering."""


class RawClient:
    """One connection; answers are read in the order in which requests were sent."""

    def __init__(
        self, port: int, timeout_s: float = _TIMEOUT_S, *, client_id: bytes | None = _CLIENT_ID
    ) -> None:
        self._client_id_size = -1 if client_id is None else len(client_id)
        self._client_id = client_id or b""
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0
        self._awaited: list[tuple[int, int, int]] = []

    def call(self, request: Message, version: int) -> Any:  # noqa: ANN401 - any response class
        """Send one request and wait for its answer."""
        self.send(request, version)
        return self.receive()

    def send(self, request: Message, version: int) -> None:
        """Send one request; its answer is fetched by `receive`."""
        key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
        out: list[bytes | memoryview] = []
        codec.request_builder(key, version)(request, out)
        self.send_body(key, version, b"".join(out))

    def send_body(self, key: int, version: int, body: bytes) -> None:
        """Send a request whose body is given as bytes, valid or not."""
        self._correlation_id += 1
        header = struct.pack(">hhih", key, version, self._correlation_id, self._client_id_size)
        tags = b"\0" if codec.is_flexible(key, version) else b""
        self.send_frame(header + self._client_id + tags + body)
        self._awaited.append((key, version, self._correlation_id))

    def forget_last(self) -> None:
        """Expect no response to the last request, because it has acks=0."""
        self._awaited.pop()

    def send_frame(self, frame: bytes) -> None:
        """Send bytes with their length before them."""
        self.send_bytes(struct.pack(">i", len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes without a length prefix."""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ConnectionClosedError(str(error)) from None

    def receive(self, answer_version: int | None = None) -> Any:  # noqa: ANN401 - see call
        """Wait for the next answer; pass `answer_version` if it is not the request's."""
        key, version, correlation_id = self._awaited.pop(0)
        frame = self.receive_frame()
        version = version if answer_version is None else answer_version
        assert struct.unpack_from(">i", frame)[0] == correlation_id
        position = 4
        if codec.is_flexible(key, version) and key != _API_VERSIONS:
            assert frame[position] == 0, "no tagged header fields are known"
            position += 1
        response, position = codec.response_parser(key, version)(frame, position, len(frame))
        assert position == len(frame), f"{len(frame) - position} bytes behind the answer"
        return response

    def receive_frame(self) -> bytes:
        """Wait for the next frame; raises ConnectionClosedError at the end of the connection."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self._socket.recv(count - len(data))
            except ConnectionError as error:
                raise ConnectionClosedError(str(error)) from None
            if not chunk:
                raise ConnectionClosedError(f"after {len(data)} of {count} bytes")
            data += chunk
        return bytes(data)
