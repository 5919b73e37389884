"""ControlClient: a client of the control endpoint of a broker in another process."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import is_dataclass
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

from kafkalite.config.typed_json import JsonError, read_answer, to_json
from kafkalite.control.command_table import row_of
from kafkalite.control.endpoint import failure_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from http.client import HTTPResponse
    from urllib.request import BaseHandler

    from kafkalite.control.command_table import Command, Row
    from kafkalite.control.endpoint import Endpoint

Answer = TypeVar("Answer")

_TIMEOUT_S = 660.0
"""The time limit of a request. It is long, because commands can wait for 10 minutes."""
_STREAM_TIMEOUT_S = 60.0
"""The time limit for the next event, or for the comment in its place."""


_PIECE_BYTES = 256 * 1024


class ControlError(Exception):
    """The broker refused a command or did not answer; the text is one line."""


def _query(given: Mapping[str, Any]) -> str:
    """Return the query of a URL; a boolean is `true` or `false`, as in JSON."""
    written = {
        name: json.dumps(value) if isinstance(value, bool) else value
        for name, value in given.items()
    }
    return f"?{urlencode(written)}" if written else ""


def _path(row: Row, given: Mapping[str, Any]) -> str:
    """Return the path of a command with these fields."""
    return row.path.format_map({name: quote(f"{given[name]}", safe="") for name in row.path_fields})


class ControlClient:
    """Sends commands to a broker over HTTP; raises ControlError if that fails."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._url = endpoint.url
        # A proxy cannot reach a broker on this machine.
        handlers: list[BaseHandler] = [ProxyHandler({})]
        if endpoint.tls is not None:
            handlers.append(HTTPSHandler(context=endpoint.tls))
        self._opener = build_opener(*handlers)

    def send(self, command: Command[Answer]) -> Answer:
        """Let the broker carry out a command, and return the answer."""
        row = row_of(command)
        return cast(
            "Answer", self.read(row, self.request(row, to_json(command, omits_defaults=True)))
        )

    def read(self, row: Row, answer: object) -> Any:  # noqa: ANN401 - the class is in the row
        """Return an answer of `request` as an object of the class in the row."""
        if not is_dataclass(row.answer):
            return answer
        try:
            return read_answer(row.answer, answer)
        except JsonError as error:
            raise ControlError(failure_text(self._url, error)) from error

    def request(self, row: Row, given: Mapping[str, Any]) -> object:
        """Let the broker carry out the command with these fields; return its answer as JSON.

        An answer that is text is returned as it is.
        """
        path = _path(row, given)
        sent = {name: value for name, value in given.items() if name not in row.path_fields}
        body = json.dumps(sent).encode() if row.has_body else None
        query = "" if row.has_body else _query(sent)
        text = self._read(f"{path}{query}", body, row.method)
        if row.answer is str:
            return text
        try:
            return json.loads(text)
        except ValueError as error:
            raise ControlError(failure_text(self._url, error)) from error

    def file(self, row: Row, given: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield the pieces of the file that is the answer to the command with these fields."""
        with self._open(_path(row, given), None, row.method, _TIMEOUT_S) as response:
            while piece := response.read(_PIECE_BYTES):
                yield piece

    def events(self, row: Row, given: Mapping[str, Any]) -> Iterator[str]:
        """Yield the data of the server-sent events that the command with these fields causes."""
        query = _query(given)
        with self._open(f"{row.path}{query}", None, row.method, _STREAM_TIMEOUT_S) as response:
            for line in response:
                name, _, data = line.decode().rstrip("\n").partition(": ")
                if name == "data":
                    yield data

    def _read(self, path: str, body: bytes | None, method: str) -> str:
        with self._open(path, body, method, _TIMEOUT_S) as response:
            content: bytes = response.read()
            return content.decode()

    @contextmanager
    def _open(
        self, path: str, body: bytes | None, method: str, timeout_s: float
    ) -> Iterator[HTTPResponse]:
        headers = {"Content-Type": "application/json"}
        request = Request(self._url + path, body, headers, method=method)  # noqa: S310 - http or https
        for name, value in self._endpoint.headers.items():
            # Another server, to which this one redirects, does not get the token.
            request.add_unredirected_header(name, value)
        try:
            with self._opener.open(request, timeout=timeout_s) as response:
                yield response
        except HTTPError as http_error:
            with http_error:  # it holds the connection
                raise ControlError(_error_text(http_error)) from http_error
        except (OSError, HTTPException, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise ControlError(failure_text(self._url, reason)) from error


def _error_text(http_error: HTTPError) -> str:
    try:
        error = json.load(http_error)["error"]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return (
            f"{http_error.url} answers {http_error.code} {http_error.reason}: this is not kafkalite"
        )
    return str(error)
