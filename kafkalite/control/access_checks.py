"""AccessChecks: refuses requests of web pages and requests without the token, before all others.

The control API and the identity provider use them. Origin and Host are checked also if a token is
needed: a web page must not learn that it guessed a token. No body is read, and the connection is
closed after a refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from kafkalite.control.token import ControlToken

_SCHEME: Final = "bearer"
_CHALLENGE: Final = 'Bearer realm="kafkalite"'
_NO_TOKEN_MESSAGE: Final = (
    "this control API needs a token: send Authorization: Bearer TOKEN, or use --control-token"  # noqa: S105 - a text
)
_WEB_PAGE_MESSAGE: Final = "requests of web pages, which have an Origin header, are refused"
_WRONG_TOKEN_MESSAGE: Final = "the token is not that of this control API"  # noqa: S105 - a text


class Refusal(NamedTuple):
    """The response to a request that is refused."""

    status: int
    message: str
    headers: Mapping[str, str]


def control_error(message: str) -> Mapping[str, str]:
    """Return the body of an error of the control API."""
    return {"error": message}


class AccessChecks:
    """An ASGI application that forwards the requests that `app` may serve."""

    def __init__(
        self,
        app: ASGIApp,
        allowed_hosts: Sequence[str] | None,
        report: Callable[[str, str], None],
        *,
        token: ControlToken | None = None,
        open_paths: Collection[str] = (),
        error_body: Callable[[str], Mapping[str, str]] = control_error,
    ) -> None:
        """Serve requests to a Host in `allowed_hosts`, at any port; None allows all hosts.

        `report` is called with the address of the client and the reason of a refusal. Requests to
        `open_paths` need no token. `error_body` returns the body of a refusal.
        """
        self._app = app
        self._allowed_hosts = allowed_hosts
        self._token = token
        self._open_paths = open_paths
        self._report = report
        self._error_body = error_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or forward one request."""
        headers = Headers(scope=scope)
        refusal = self._origin_refusal(headers)
        if refusal is None and scope["path"] not in self._open_paths:
            refusal = self._token_refusal(headers)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        client = scope["client"]
        self._report("unknown" if client is None else client[0], refusal.message)
        response = JSONResponse(
            self._error_body(refusal.message),
            refusal.status,
            {"connection": "close", **refusal.headers},
        )
        await response(scope, receive, send)

    def _origin_refusal(self, headers: Headers) -> Refusal | None:
        if "origin" in headers:
            return Refusal(403, _WEB_PAGE_MESSAGE, {})
        return host_refusal(headers, self._allowed_hosts)

    def _token_refusal(self, headers: Headers) -> Refusal | None:
        if self._token is None:
            return None
        given = headers.getlist("authorization")
        scheme, _, token = (given[0] if len(given) == 1 else "").strip().partition(" ")
        if scheme.lower() != _SCHEME:
            return Refusal(401, _NO_TOKEN_MESSAGE, {"www-authenticate": _CHALLENGE})
        if not self._token.matches(token.strip()):
            challenge = f'{_CHALLENGE}, error="invalid_token"'
            return Refusal(401, _WRONG_TOKEN_MESSAGE, {"www-authenticate": challenge})
        return None


def host_refusal(headers: Headers, allowed: Sequence[str] | None) -> Refusal | None:
    """Return the refusal of a request to a Host that is not allowed; None allows all hosts."""
    host = headers.get("host", "")
    if allowed is None or _host_name(host) in allowed:
        return None
    message = (
        f"requests to host {host[:60]!r} are refused: use localhost, or let the broker "
        "serve this endpoint on 0.0.0.0"
    )
    return Refusal(403, message, {})


def _host_name(header: str) -> str:
    """Return the name in a Host header, without its port."""
    host = header.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
