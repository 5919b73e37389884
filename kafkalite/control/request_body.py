"""The body of an HTTP request: its media type, and its content up to a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_BODY_BYTES: Final = 64 * 1024
"""The largest body that is read."""

TOO_LARGE_MESSAGE: Final = f"the body is larger than {MAX_BODY_BYTES} bytes"


def media_type(request: Request) -> str:
    """Return the media type of the body in lower case, without parameters; empty without one."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def read_body(request: Request) -> bytes | None:
    """Return the body, or None if it is too large.

    Raises ClientDisconnect if the client disconnects before the end of the body.
    """
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > MAX_BODY_BYTES:
        return None
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)
