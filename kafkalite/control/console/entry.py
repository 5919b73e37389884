"""ConsoleEntry: forwards the requests of browsers to the console, which is loaded by the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Receive, Scope, Send

CONSOLE_PATH: Final = "/console"
MISSING_LIBRARY_MESSAGE: Final = (
    "the console needs the library jinja2: install kafkalite[console], or use the commands of "
    "GET /v1\n"
)


class ConsoleEntry:
    """An ASGI application that serves the console, and lets another one serve everything else."""

    def __init__(self, app: ASGIApp, new_console: Callable[[], ASGIApp]) -> None:
        """Forward to `app`; `new_console` is called once, for the first request of a browser."""
        self._app = app
        self._new_console = new_console
        self._console: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward one request."""
        if not is_for_console(scope):
            await self._app(scope, receive, send)
            return
        if self._console is None:
            self._console = _loaded(self._new_console)
        await self._console(scope, receive, send)


def is_for_console(scope: Scope) -> bool:
    """Return whether a request is for the console: by its path, or by `/` and a browser."""
    path: str = scope["path"]
    if path == "/":
        return "text/html" in Headers(scope=scope).get("accept", "")
    return path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")


def _loaded(new_console: Callable[[], ASGIApp]) -> ASGIApp:
    """Return the console, or an answer in its place if its library is not installed."""
    try:
        return new_console()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"jinja2", "markupsafe"}:
            raise
        return PlainTextResponse(MISSING_LIBRARY_MESSAGE, 503)
