"""The endpoints of the identity provider over HTTP: token, keys and discovery.

Requests of web pages and to other hosts are refused as by the control API. Then a token needs the
secret or the key of a client, and keys and discovery are public.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kafkalite.control.access_checks import AccessChecks
from kafkalite.control.request_body import TOO_LARGE_MESSAGE, media_type, read_body
from kafkalite.identity.errors import INVALID_REQUEST
from kafkalite.identity.provider import DISCOVERY_PATH, JWKS_PATH, TOKEN_PATH
from kafkalite.server.client_warnings import kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from kafkalite.identity.provider import IdentityProvider, Reply
    from kafkalite.ports.clock import Clock
    from kafkalite.server.client_warnings import ClientWarnings

_FORM: Final = "application/x-www-form-urlencoded"
_NOT_STORED: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_CHECKED_EACH_TIME: Final = {"Cache-Control": "no-cache"}
"""Clients may store keys, but keys are rotated at any time."""
_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="kafkalite"'}
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,255}|\[[0-9a-fA-F:.]{2,45}\])(?::[0-9]{1,5})?")
_UNAUTHORIZED: Final = 401


class IdentityApp:
    """The HTTP application of one identity provider."""

    def __init__(
        self,
        provider: IdentityProvider,
        clock: Clock,
        warnings: ClientWarnings,
        allowed_hosts: Sequence[str] | None,
    ) -> None:
        """Serve the endpoints of `provider`; `allowed_hosts` is that of AccessChecks."""
        self._provider = provider
        self._clock = clock
        self._warnings = warnings
        self.app = Starlette(
            routes=[
                Route(DISCOVERY_PATH, self._discovery, methods=["GET"]),
                Route(JWKS_PATH, self._jwks, methods=["GET"]),
                Route(TOKEN_PATH, self._token, methods=["POST"]),
            ],
            middleware=[
                Middleware(
                    AccessChecks,
                    allowed_hosts=allowed_hosts,
                    report=self._report_refusal,
                    error_body=_error_body,
                )
            ],
            exception_handlers={HTTPException: _answer_http_error, Exception: _answer_bug},
        )
        self.app.router.redirect_slashes = False

    def _report_refusal(self, client_host: str, reason: str) -> None:
        self._warnings.warn(
            client_host, kind_of(reason), "identity provider request refused", reason=reason
        )

    async def _discovery(self, request: Request) -> Response:
        host = request.headers.get("host", "")
        base_url = f"{request.url.scheme}://{host}" if _HOST.fullmatch(host) else None
        metadata = self._provider.discovery(base_url or self._provider.issuer)
        return JSONResponse(metadata, headers=_CHECKED_EACH_TIME)

    async def _jwks(self, request: Request) -> Response:
        del request
        return await self._send(self._provider.jwks(), _CHECKED_EACH_TIME)

    async def _token(self, request: Request) -> Response:
        if media_type(request) != _FORM:
            return _oauth_error(400, f"the body must be a form: send Content-Type: {_FORM}")
        try:
            body = await read_body(request)
        except ClientDisconnect:
            body = b""  # no client reads the response
        if body is None:
            return _oauth_error(413, TOO_LARGE_MESSAGE)
        reply = self._provider.token(body, request.headers.get("authorization"))
        if reply.refusal is not None:
            host = request.client.host if request.client else "unknown"
            kind = kind_of(reply.refusal)
            self._warnings.warn(host, kind, "a token request is refused", reason=reply.refusal)
        challenge = _CHALLENGE if reply.status == _UNAUTHORIZED else {}
        return await self._send(reply, {**_NOT_STORED, **challenge})

    async def _send(self, reply: Reply, headers: dict[str, str]) -> Response:
        if reply.delay_ms:
            await self._wait(reply.delay_ms)
        return Response(reply.body, reply.status, headers, media_type="application/json")

    async def _wait(self, delay_ms: int) -> None:
        """Wait by the clock of the broker."""
        is_over = asyncio.get_running_loop().create_future()

        def end() -> None:
            if not is_over.done():
                is_over.set_result(None)

        timer = self._clock.call_at(self._clock.now_ms() + delay_ms, end)
        try:
            await is_over
        finally:
            timer.cancel()


def _error_body(description: str) -> Mapping[str, str]:
    """Return the body of an error of RFC 6749."""
    return {"error": INVALID_REQUEST, "error_description": description}


def _oauth_error(status: int, description: str) -> Response:
    return JSONResponse(_error_body(description), status, _NOT_STORED)


def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    del request
    return JSONResponse(_error_body(error.detail), error.status_code, error.headers)


def _answer_bug(request: Request, error: Exception) -> Response:
    """Answer an exception that is a bug; uvicorn logs it."""
    del request, error
    return JSONResponse({"error": "server_error"}, 500)
