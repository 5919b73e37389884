"""http_get: downloads a small document over HTTP or HTTPS, with limits for size and time.

The function blocks, so the event loop submits it to an executor.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.request import BaseHandler, OpenerDirector

    Connect = Callable[..., socket.socket]


_MAX_REASON_LENGTH = 200


class HttpGetError(Exception):
    """A download that failed; the text is one line for users, without the address."""


class _Watchdog:
    """Ends the connections of one download when its time is over.

    A timeout of a socket limits each read. A server that sends a byte now and then would hold the
    thread for ever.
    """

    def __init__(self, timeout_s: float) -> None:
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(timeout_s, self._end)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self.is_over = False

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()

    def connect(self, *arguments: Any) -> socket.socket:  # noqa: ANN401 - of create_connection
        """Return a new connection, which ends when the time is over; raises OSError."""
        connection = socket.create_connection(*arguments)
        with self._lock:
            if self.is_over:
                connection.close()
                raise TimeoutError
            # TLS takes the descriptor of the socket, so the watchdog has one of its own.
            self._sockets.append(connection.dup())
        return connection

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)


def http_get(
    url: str, *, max_bytes: int, timeout_s: float, certificates: str | None = None
) -> bytes:
    """Return the document at an address; raises HttpGetError.

    Redirects are followed if they have the same scheme, at most ten times. `certificates` are the
    trusted authorities as PEM; those of the system if None. Proxies of the environment are not
    used, as in Java.
    """
    from http.client import HTTPException  # noqa: PLC0415 - slow to import, rarely used

    late = HttpGetError(f"no complete answer in {timeout_s:g} seconds")
    with _Watchdog(timeout_s) as watchdog:
        try:
            content = _download(url, max_bytes, timeout_s, certificates, watchdog.connect)
        except TimeoutError:
            raise late from None
        except (OSError, HTTPException, ValueError) as error:
            text = _text_of(error)
            raise late if watchdog.is_over else HttpGetError(text) from None
        if watchdog.is_over:
            # The end of the connection looks like the end of an answer without a length.
            raise late
        return content


def _download(
    url: str, max_bytes: int, timeout_s: float, certificates: str | None, connect: Connect
) -> bytes:
    from urllib.request import Request  # noqa: PLC0415 - slow to import, rarely used

    message = Request(url, headers={"Accept": "application/json"})  # noqa: S310 - the opener has HTTP only
    with _new_opener(certificates, connect).open(message, timeout=timeout_s) as response:
        content: bytes = response.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise ValueError(f"the answer is larger than {max_bytes} bytes")
        if response.length:
            raise ValueError("the answer is incomplete")
    return content


def _new_opener(certificates: str | None, connect: Connect) -> OpenerDirector:
    """Return an opener for HTTP and HTTPS."""
    import ssl  # noqa: PLC0415 - slow to import, rarely used
    from http.client import HTTPConnection, HTTPResponse, HTTPSConnection  # noqa: PLC0415 - as above
    from urllib import request  # noqa: PLC0415 - as above

    def http(host: str, **options: Any) -> HTTPConnection:  # noqa: ANN401 - of HTTPConnection
        connection = HTTPConnection(host, **options)
        connection._create_connection = connect  # type: ignore[attr-defined]  # noqa: SLF001 - no public name
        return connection

    def https(host: str, **options: Any) -> HTTPConnection:  # noqa: ANN401 - of HTTPSConnection
        context = ssl.create_default_context(cadata=certificates)
        connection = HTTPSConnection(host, context=context, **options)
        connection._create_connection = connect  # type: ignore[attr-defined]  # noqa: SLF001 - as above
        return connection

    class Http(request.HTTPHandler):
        def http_open(self, message: request.Request) -> HTTPResponse:
            return self.do_open(http, message)

    class Https(request.HTTPSHandler):
        def https_open(self, message: request.Request) -> HTTPResponse:
            return self.do_open(https, message)

    opener = request.OpenerDirector()
    for handler in (
        Http(),
        Https(),
        _new_redirects(),
        request.UnknownHandler(),
        request.HTTPErrorProcessor(),
        request.HTTPDefaultErrorHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _new_redirects() -> BaseHandler:
    """Return a handler of redirects to the same scheme."""
    from urllib.error import HTTPError  # noqa: PLC0415 - slow to import, rarely used
    from urllib.request import HTTPRedirectHandler, Request  # noqa: PLC0415 - as above

    class Redirects(HTTPRedirectHandler):
        def redirect_request(  # noqa: PLR0917 - of the base class
            self,
            req: Request,
            fp: Any,  # noqa: ANN401 - of the base class
            code: int,
            msg: str,
            headers: Any,  # noqa: ANN401 - as above
            newurl: str,
        ) -> Request | None:
            if newurl.partition(":")[0].lower() != req.type:
                reason = "the redirect leads to another scheme"
                raise HTTPError(req.full_url, code, reason, headers, fp)
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    return Redirects()


def _text_of(error: Exception) -> str:
    """Return the reason of a failure in one line."""
    from urllib.error import HTTPError  # noqa: PLC0415 - as above

    reason: object = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
    if isinstance(error, HTTPError):
        text = f"HTTP status {error.code}: {text}"
        error.close()  # it has the rest of the answer
    return " ".join(str(text).split())[:_MAX_REASON_LENGTH]
