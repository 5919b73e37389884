"""BrowserAccess: which requests of browsers the console serves, and the session of a browser.

A browser cannot send the token of the control endpoint with each request. It sends it once: in the
login form, or as `?token=` of any page. It then has a cookie, from which the token cannot be
derived. The cookie is for the console only: the control API does not accept it.

Web pages of others cannot use the session:

- Host: on a loopback address, only its names are valid (DNS rebinding). On other addresses, the
  endpoint has a token, and the cookie belongs to one host name.
- Origin: a request that changes something must name the console itself (CSRF).
- Sec-Fetch-Site: other sites may link to a page, but not load it as a part of theirs.
- The content security policy permits no scripts and styles but those of the console, and no frames.
"""

from __future__ import annotations

import hmac
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse

from kafkalite.control.access_checks import Refusal, host_refusal
from kafkalite.control.console.entry import CONSOLE_PATH
from kafkalite.control.console.forms import form_of
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from kafkalite.control.token import ControlToken

LOGIN_PATH: Final = f"{CONSOLE_PATH}/login"
STATIC_PATH: Final = f"{CONSOLE_PATH}/static/"

_COOKIE: Final = "kafkalite-console"
"""The beginning of the name of the cookie; its end is the port, because all ports share cookies."""
_SESSION_OF: Final = b"session of the console"
_SAFE_METHODS: Final = frozenset(("GET", "HEAD"))
_OTHER_PAGE_MESSAGE: Final = "the console refuses requests that other web pages make"
_WRONG_TOKEN_MESSAGE: Final = "The token is not that of this control API."  # noqa: S105 - a text

SECURITY_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # Without a referrer, browsers would not name the origin of forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Endpoint(NamedTuple):
    """What the console must know about the control endpoint that serves it."""

    token: ControlToken | None = None
    """The token that requests need; None if they need none."""
    allowed_hosts: Sequence[str] | None = None
    """Names that a Host header may have; None for any."""
    scheme: str = "http"
    """`http` or `https`."""
    report: Callable[[str, str], None] = lambda _host, _reason: None
    """Is called with the address of the client and the reason of a refusal."""


class BrowserAccess:
    """An ASGI application that forwards the requests that the console may serve."""

    def __init__(
        self,
        app: ASGIApp,
        endpoint: Endpoint,
        new_login: Callable[[str, str], Response],
        new_refusal: Callable[[Refusal], Response],
    ) -> None:
        """Forward to `app`.

        `new_login` returns the login page with an error and the path to continue with, and
        `new_refusal` the page of a refusal.
        """
        self._app = app
        self._endpoint = endpoint
        self._new_login = new_login
        self._new_refusal = new_refusal
        token = endpoint.token
        self._session = None if token is None else session_of(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or forward one request."""
        request = Request(scope, receive)
        answer = await self._answer(request)
        if answer is None:
            await self._app(scope, receive, send)
        else:
            await answer(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        """Return the answer to a request that is not forwarded."""
        refusal = host_refusal(request.headers, self._endpoint.allowed_hosts)
        refusal = refusal or self._cross_site_refusal(request)
        if refusal is not None:
            self._report(request, refusal.message)
            return self._new_refusal(refusal)
        path: str = request.scope["path"]
        if self._session is None or path.startswith(STATIC_PATH):
            return None
        if path == LOGIN_PATH and request.method == "POST":
            form = await form_of(request)
            return self._login(request, form.text("token"), console_path(form.text("next")))
        query = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        others = [(name, value) for name, value in query if name != "token"]
        here = f"{path}?{urlencode(others)}" if others else path
        if given:
            return self._login(request, given[0], console_path(here))
        given_session = request.cookies.get(_cookie_name(request), "")
        if compare_digest(given_session.encode(), self._session.encode()):
            return None
        # A browser repeats no form after the login, so it continues with the page of the form.
        form_page = request.headers.get("referer", "").removeprefix(self._own_origin(request))
        is_form = request.method not in _SAFE_METHODS
        return self._new_login("", console_path(form_page if is_form else here))

    def _own_origin(self, request: Request) -> str:
        return f"{self._endpoint.scheme}://{request.headers.get('host', '').lower()}"

    def _cross_site_refusal(self, request: Request) -> Refusal | None:
        headers = request.headers
        is_safe = request.method in _SAFE_METHODS
        origin = headers.get("origin", "" if is_safe else "none")
        site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "")
        is_link = is_safe and mode == "navigate" and headers.get("sec-fetch-dest") == "document"
        if (origin and origin.lower() != self._own_origin(request)) or (
            site not in {"none", "same-origin"} and not is_link
        ):
            return Refusal(403, _OTHER_PAGE_MESSAGE, {})
        return None

    def _login(self, request: Request, token: str, path: str) -> Response:
        """Return the start of a session, or the login page for a wrong token."""
        expected = self._endpoint.token
        assert expected is not None
        assert self._session is not None
        if not expected.matches(token.strip()):
            self._report(request, _WRONG_TOKEN_MESSAGE)
            return self._new_login(_WRONG_TOKEN_MESSAGE, path)
        answer = RedirectResponse(path, 303, {"cache-control": "no-store"})
        answer.set_cookie(
            _cookie_name(request),
            self._session,
            path=CONSOLE_PATH,
            secure=self._endpoint.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    def _report(self, request: Request, reason: str) -> None:
        client = request.client
        self._endpoint.report("unknown" if client is None else client.host, reason)


def _cookie_name(request: Request) -> str:
    """Return the name of the cookie of this console among those of the same host."""
    port = urlsplit(f"//{request.headers.get('host', '')}").netloc.rpartition(":")[2]
    return f"{_COOKIE}-{port}" if port.isascii() and port.isdigit() else _COOKIE


def session_of(token: ControlToken) -> str:
    """Return the value of the cookie of a browser that has sent the token."""
    return hmac.new(token.text.encode(), _SESSION_OF, sha256).hexdigest()


def console_path(text: str) -> str:
    """Return a path of the console with its query; its first page for any other text."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return f"{CONSOLE_PATH}/"
    is_own = parts.path.startswith(f"{CONSOLE_PATH}/") and not (parts.scheme or parts.netloc)
    return text if is_own and "\\" not in text and text.isprintable() else f"{CONSOLE_PATH}/"
