"""What tests of the recorder share: frames made by the codecs, and captures read back."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Endpoint, Frame
from kafkalite.capture.reading import read
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.capture.model import Event, Problem

CLIENT = Endpoint("127.0.0.1", 40_000)
BROKER = Endpoint("127.0.0.1", 9092)


def request(version: int, message: Any, correlation_id: int = 1, client: str = "me") -> bytes:  # noqa: ANN401
    """Return a request's frame, its length included."""
    out: list[bytes | memoryview] = []
    codec.request_builder(message.API_KEY, version)(message, out)
    head = pack(">hhih", message.API_KEY, version, correlation_id, len(client)) + client.encode()
    if codec.is_flexible(message.API_KEY, version):
        head += b"\0"
    return framed(head + b"".join(out))


def response(version: int, message: Any, correlation_id: int = 1) -> bytes:  # noqa: ANN401
    """Return a response's frame, its length included."""
    out: list[bytes | memoryview] = []
    codec.response_builder(message.API_KEY, version)(message, out)
    head = pack(">i", correlation_id)
    head += bytes(codec.response_header_version(message.API_KEY, version))
    return framed(head + b"".join(out))


def framed(body: bytes) -> bytes:
    """Return a frame of this body."""
    return pack(">i", len(body)) + body


def events_of(directory: Path) -> list[Event]:
    """Return all that a capture says; it must have nothing wrong with it."""
    problems: list[Problem] = []
    found = list(read([str(directory)], problems.append))
    assert problems == []
    return found


def frames_of(directory: Path) -> list[bytes]:
    """Return the bodies of a capture's frames in the order of time."""
    return [event.body for event in events_of(directory) if isinstance(event, Frame)]
