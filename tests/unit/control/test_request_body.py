"""The body of a request: its media type, its limit, and clients that disconnect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from starlette.requests import ClientDisconnect, Request

from kafkalite.control.request_body import MAX_BODY_BYTES, media_type, read_body

if TYPE_CHECKING:
    from collections.abc import Sequence


def request_with(chunks: Sequence[bytes | None], **headers: str) -> Request:
    """Return a request whose body arrives in chunks; None is the end of the connection."""
    messages: list[dict[str, Any]] = [
        {"type": "http.disconnect"}
        if chunk is None
        else {"type": "http.request", "body": chunk, "more_body": number < len(chunks) - 1}
        for number, chunk in enumerate(chunks)
    ]

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": encoded}, receive)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("application/json", "application/json"),
        (" Application/JSON ; charset=utf-8", "application/json"),
        ("", ""),
    ],
)
def test_the_media_type_has_no_parameters(header: str, expected: str) -> None:
    assert media_type(request_with([], content_type=header)) == expected


def test_a_request_without_a_content_type_has_no_media_type() -> None:
    assert not media_type(request_with([]))


async def test_the_chunks_of_a_body_are_joined() -> None:
    assert await read_body(request_with([b"ab", b"", b"c"])) == b"abc"
    half = b"x" * (MAX_BODY_BYTES // 2)
    assert await read_body(request_with([half, half])) == half + half


async def test_a_body_that_is_too_large_is_not_returned() -> None:
    half = b"x" * (MAX_BODY_BYTES // 2)
    assert await read_body(request_with([half, half, b"y"])) is None


async def test_an_announced_body_that_is_too_large_is_not_read() -> None:
    assert await read_body(request_with([], content_length=f"{MAX_BODY_BYTES + 1}")) is None
    assert await read_body(request_with([b"ab"], content_length="x")) == b"ab"


async def test_a_client_that_disconnects_is_reported() -> None:
    with pytest.raises(ClientDisconnect):
        await read_body(request_with([b"ab", None]))
