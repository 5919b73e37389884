"""Frames as a client writes and reads them, for tests that serve bytes."""

from __future__ import annotations

from struct import pack, unpack_from
from typing import TYPE_CHECKING, Any

from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterator

API_VERSIONS_KEY = 18


def header(
    api_key: int,
    version: int,
    *,
    correlation_id: int = 1,
    client_id: bytes | None = b"test",
    is_flexible: bool = False,
) -> bytes:
    """Return a request header, version 2 with no tagged fields if flexible, else version 1."""
    name = pack(">h", -1) if client_id is None else pack(">h", len(client_id)) + client_id
    head = pack(">hhi", api_key, version, correlation_id)
    return head + name + (b"\0" if is_flexible else b"")


def framed(content: bytes) -> bytes:
    """Return a frame of these bytes."""
    return pack(">i", len(content)) + content


def request_frame(
    request: Any,  # noqa: ANN401 - any generated request
    version: int,
    *,
    correlation_id: int = 1,
    client_id: bytes | None = b"test",
) -> bytes:
    """Return a request as a whole frame."""
    return framed(
        request_content(request, version, correlation_id=correlation_id, client_id=client_id)
    )


def request_content(
    request: Any,  # noqa: ANN401 - any generated request
    version: int,
    *,
    correlation_id: int = 1,
    client_id: bytes | None = b"test",
) -> bytes:
    """Return a request without its length field."""
    pieces: list[bytes | memoryview] = []
    codec.request_builder(request.API_KEY, version)(request, pieces)
    head = header(
        request.API_KEY,
        version,
        correlation_id=correlation_id,
        client_id=client_id,
        is_flexible=codec.is_flexible(request.API_KEY, version),
    )
    return head + b"".join(pieces)


def response_frame(response: Any, version: int, *, correlation_id: int = 1) -> bytes:  # noqa: ANN401 - any generated response
    """Return a response as a whole frame."""
    return framed(response_content(response, version, correlation_id=correlation_id))


def response_content(response: Any, version: int, *, correlation_id: int = 1) -> bytes:  # noqa: ANN401 - as above
    """Return a response without its length field."""
    pieces: list[bytes | memoryview] = []
    codec.response_builder(response.API_KEY, version)(response, pieces)
    tags = bytes(codec.response_header_version(response.API_KEY, version))
    return b"".join((pack(">i", correlation_id), tags, *pieces))


def split_frames(stream: bytes) -> Iterator[bytes]:
    """Yield the contents of whole frames."""
    position = 0
    while position < len(stream):
        (length,) = unpack_from(">i", stream, position)
        position += 4 + length
        assert position <= len(stream), "a frame is cut short"
        yield stream[position - length : position]


def read_answer(api_key: int, version: int, content: bytes) -> tuple[int, Any]:
    """Return the correlation id and the message of a frame, which must have no further bytes."""
    (correlation_id,) = unpack_from(">i", content)
    has_tags = codec.is_flexible(api_key, version) and api_key != API_VERSIONS_KEY
    start = 5 if has_tags else 4
    message, end = codec.response_parser(api_key, version)(content, start, len(content))
    assert end == len(content)
    return correlation_id, message
