"""Calls an ASGI application without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from starlette.applications import Starlette
    from starlette.types import ASGIApp


class Answer(NamedTuple):
    """The response of an application."""

    status: int
    headers: dict[str, str]
    body: Any


async def ask(
    app: Starlette,
    path: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    disconnects: bool = False,
) -> Answer:
    """Return the response to one request, with a body of JSON."""
    options = {"method": method, "body": body, "headers": headers, "disconnects": disconnects}
    answer = await ask_for_text(app, path, **options)  # type: ignore[arg-type]  # as above
    return answer._replace(body=json.loads(answer.body) if answer.body else None)


async def ask_for_text(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    disconnects: bool = False,
) -> Answer:
    """Return the response to one request, after which the client disconnects if it shall."""
    sent: list[MutableMapping[str, Any]] = []
    path, _, query = path.partition("?")
    pieces = [body[start : start + 10_000] for start in range(0, len(body), 10_000)] or [b""]

    async def receive() -> dict[str, object]:
        if not pieces and disconnects:
            return {"type": "http.disconnect"}
        if not pieces:
            await asyncio.get_running_loop().create_future()  # the client does not disconnect
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    all_headers = {"host": "127.0.0.1:9097", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in all_headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 9097),
    }
    await app(scope, receive, send)
    start, *rest = sent
    content = b"".join(piece["body"] for piece in rest)
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], answered, content.decode())
