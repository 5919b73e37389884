"""Frames of requests, and responses: parsed ones, and those that are pending."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from kafkalite.protocol.message import Message
    from kafkalite.wire.session import PendingAnswer


def frame_of(request: Message, version: int) -> bytes:
    """Return a request of the client `client` as bytes, without its length."""
    key: int = request.API_KEY  # type: ignore[attr-defined]  # every request class has one
    body: list[bytes | memoryview] = []
    codec.request_builder(key, version)(request, body)
    tags = b"\0" if codec.is_flexible(key, version) else b""
    return struct.pack(">hhih", key, version, 7, 6) + b"client" + tags + b"".join(body)


class PendingResponse:
    """A pending answer."""

    def __init__(self, pending: PendingAnswer, key: int, version: int) -> None:
        self._pending = pending
        self._key, self._version = key, version

    @property
    def has_arrived(self) -> bool:
        return self._pending.waiting.is_resolved

    @property
    def value(self) -> object:
        """The response before it is encoded, or a refusal."""
        return self._pending.waiting.value

    @property
    def response(self) -> Any:  # noqa: ANN401 - any response class
        out: list[bytes | memoryview] = []
        self._pending.encode(self._pending.waiting.value, out)
        return parsed(b"".join(out), self._key, self._version)


def parsed(frame: bytes, key: int, version: int) -> Any:  # noqa: ANN401 - any response class
    """Parse a response frame."""
    start = 9 if codec.is_flexible(key, version) else 8
    response, end = codec.response_parser(key, version)(frame, start, len(frame))
    assert end == len(frame)
    return response
