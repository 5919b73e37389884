"""The control endpoint: the table of commands over HTTP and JSON, for tests in any language.

`GET /v1` lists the commands, and `GET /v1/openapi.json` describes them.

An error is answered with {"error": "one sentence"}: 400 for invalid input, 401 without the token of
the endpoint (`Authorization: Bearer TOKEN`), if it has one, 403 for a web page, 408
for a request that arrives too slowly, 503 for too many; 404, 405, 413, 415 and 500 as usual.
A web page in a browser on this machine could send requests to this endpoint. So requests that name
another host, or that have an Origin header, are refused. The console, to which `ConsoleEntry`
forwards requests for `/console`, has rules of its own.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from kafkalite.config.typed_json import fields_of, number_of, quote, read, to_json
from kafkalite.control.access_checks import AccessChecks
from kafkalite.control.command_table import JSON_LINES, CommandError, rows
from kafkalite.control.console.entry import ConsoleEntry
from kafkalite.control.request_body import TOO_LARGE_MESSAGE, media_type, read_body

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from kafkalite.control.command_table import Row
    from kafkalite.control.token import ControlToken
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log

_BUG_MESSAGE = "the command failed because of a bug in kafkalite: see the broker's log"

_MAX_NODE_DIGITS = 12
"""Digits of an id in a path that are read; a longer number is the id of nothing."""


class UnknownIdError(Exception):
    """A path with an id that can be the id of nothing; the text is one sentence."""


_BOOLEANS: Final = {"true": True, "false": False}


def _ignore_refusal(client_host: str, reason: str) -> None:
    """Do nothing."""


class ControlApp:
    """The HTTP application that controls one broker."""

    def __init__(
        self,
        broker: Broker,
        log: Log,
        allowed_hosts: Sequence[str] | None,
        token: ControlToken | None = None,
        report_refusal: Callable[[str, str], None] = _ignore_refusal,
        *,
        scheme: str = "http",
        schema_registry_url: str | None = None,
    ) -> None:
        """Serve requests that have `token`, unless it is None or the command needs none.

        `allowed_hosts` and `report_refusal` are those of AccessChecks. `scheme` is that of the URL,
        and `schema_registry_url` the registry by whose schemas the console decodes records.
        """
        self._broker = broker
        self._log = log

        def new_console() -> ASGIApp:
            # Imported here because few brokers have a browser, and the console needs its extra.
            from kafkalite.control.console.access import Endpoint  # noqa: PLC0415
            from kafkalite.control.console.app import ConsoleApp  # noqa: PLC0415
            from kafkalite.control.console.live_source import LiveSource  # noqa: PLC0415

            endpoint = Endpoint(token, allowed_hosts, scheme, report_refusal)
            source = LiveSource(broker)
            return ConsoleApp(source, endpoint, schema_registry_url=schema_registry_url).app

        by_path = _rows_by_path()
        self.app = Starlette(
            routes=[
                _route(path, partial(self._answer, served), [*served])
                # A field at the end of a path matches the rest of longer paths, too.
                for path, served in sorted(by_path.items(), key=_number_of_names, reverse=True)
            ],
            middleware=[
                Middleware(ConsoleEntry, new_console=new_console),
                Middleware(
                    AccessChecks,
                    allowed_hosts=allowed_hosts,
                    token=token,
                    open_paths={row.path for row in rows() if not row.needs_token},
                    report=report_refusal,
                ),
            ],
            exception_handlers={HTTPException: _answer_http_error, Exception: _answer_bug},
        )
        self.app.router.redirect_slashes = False

    async def _answer(self, served: Mapping[str, Row], request: Request) -> Response:
        row = served["GET" if request.method == "HEAD" else request.method]
        try:
            answer = self._perform(row, await _command(row, request), request)
            return await (_until_disconnected(answer, request) if row.waits else answer)
        except UnknownIdError as unknown:
            return _not_found(unknown)
        except row.not_found as unknown:
            return _not_found(unknown)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001 - the endpoint must stay available
            self._log.error("a control command failed because of a bug", exception=error)
            raise HTTPException(500, _BUG_MESSAGE) from None

    async def _perform(self, row: Row, command: Any, request: Request) -> Response:  # noqa: ANN401 - of any class
        build, kind = row.pieces, row.media_type
        if row.json_lines is not None and JSON_LINES in request.headers.get("accept", ""):
            build, kind = row.json_lines, JSON_LINES
        if build is not None:
            pieces = _in_turns(build(command, self._broker))
            # An error in the first piece still has a status.
            first = await anext(pieces, "")
            return StreamingResponse(_with_first(first, pieces), media_type=kind)
        answer = await command.perform(self._broker)
        if row.is_file:
            return StreamingResponse(answer, headers=row.file_headers(command), media_type=kind)
        status = row.status if isinstance(row.status, int) else row.status.of(self._broker, answer)
        return JSONResponse(to_json(answer), status)


async def _until_disconnected(
    answer: Coroutine[None, None, Response], request: Request
) -> Response:
    """Return an answer; if the client disconnects before, end the command, whose answer is lost."""
    performing = asyncio.ensure_future(answer)
    disconnecting = asyncio.ensure_future(_disconnection(request))
    try:
        await asyncio.wait((performing, disconnecting), return_when=asyncio.FIRST_COMPLETED)
        return await performing if performing.done() else Response()
    finally:
        performing.cancel()
        disconnecting.cancel()


async def _disconnection(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _command(row: Row, request: Request) -> Any:  # noqa: ANN401 - a command of any class
    """Return the command of a request; raises ValueError, with one sentence, if it is invalid."""
    fixed = {name: _id_in_path(row, name, text) for name, text in request.path_params.items()}
    if row.has_body:
        body = await _json_body(request)
        if not isinstance(body, dict):
            example = json.dumps(row.example or {})
            raise CommandError(f"the body must be a JSON object, such as {example}")
        return read(row.kind, body, "the body", fixed=fixed)
    types = {each.name: each.type for each in row.sent_fields}
    query = {name: _parameter(types.get(name), text) for name, text in request.query_params.items()}
    title = row.path.removeprefix("/v1/") if row.sent_fields else row.path
    return read(row.kind, query, title, fixed=fixed, noun="parameter")


def _parameter(kind: object, text: str) -> object:
    """Return the value of a parameter in a query; text that is none remains, and is refused."""
    if kind is bool:
        return _BOOLEANS.get(text, text)
    return number_of(text) if kind is int else text


def _route(path: str, answer: Callable[..., Any], methods: list[str]) -> Route:
    route = Route(path.replace("}", ":path}"), answer, methods=methods)
    # Ids of groups can have line breaks.
    route.path_regex = re.compile(route.path_regex.pattern, re.DOTALL)
    return route


def _rows_by_path() -> dict[str, dict[str, Row]]:
    """Return the rows of each path by method."""
    by_path: dict[str, dict[str, Row]] = {}
    for row in rows():
        by_path.setdefault(row.path, {})[row.method] = row
    return by_path


def _number_of_names(path_and_rows: tuple[str, object]) -> int:
    return path_and_rows[0].count("/")


def _not_found(error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 404)


def _id_in_path(row: Row, name: str, text: str) -> str | int:
    """Return the value of a field in the path; raises UnknownIdError for no id."""
    (field,) = (each for each in fields_of(row.kind) if each.name == name)
    if field.type is not int:
        return text
    if not text.isascii() or not text.isdigit():
        raise UnknownIdError(f"{quote(text)} is not the id of a {name.removesuffix('_id')}")
    return int(text[:_MAX_NODE_DIGITS])


async def _in_turns(pieces: Iterable[str] | AsyncIterator[str]) -> AsyncIterator[str]:
    """Yield the pieces of an answer, and let other tasks run before each of them."""
    if isinstance(pieces, AsyncIterator):
        async for piece in pieces:
            yield piece
            await asyncio.sleep(0)
        return
    for piece in pieces:
        await asyncio.sleep(0)
        if piece:
            yield piece


async def _with_first(first: str, pieces: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for piece in pieces:
        yield piece


async def _json_body(request: Request) -> object:
    if media_type(request) != "application/json":
        raise HTTPException(415, "the body must be JSON: send Content-Type: application/json")
    try:
        body = await read_body(request)
    except ClientDisconnect as disconnect:
        raise CommandError("the client disconnected before the end of the body") from disconnect
    if body is None:
        raise HTTPException(413, TOO_LARGE_MESSAGE)
    try:
        value: object = json.loads(
            body, parse_int=_integer, parse_constant=_refuse_constant, object_pairs_hook=_object
        )
        # JSON can have half of a surrogate pair. No response could have it, so that a command would
        # take effect and fail.
        json.dumps(value, ensure_ascii=False).encode()
    except CommandError:
        raise
    except (ValueError, RecursionError) as error:
        raise CommandError("the body is not JSON") from error
    return value


def _integer(text: str) -> int:
    value = number_of(text)
    if not isinstance(value, int):
        raise CommandError(f"the body has a number that is too long: {quote(text)}")
    return value


def _refuse_constant(text: str) -> None:
    raise CommandError(f"the body has {text}, which is not JSON")


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise CommandError(f"the body has the field {quote(name)} twice in one object")
        found[name] = value
    return found


def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"][:60]  # request.url needs a Host header that can be parsed
    messages = {
        404: f"{path} does not exist: GET /v1 lists all paths",
        405: f"{path} does not support {request.method[:10]}",
    }
    message = messages.get(error.status_code, error.detail)
    return JSONResponse({"error": message}, status_code=error.status_code, headers=error.headers)


def _answer_bug(request: Request, error: Exception) -> Response:
    """Answer an exception outside of the commands; uvicorn logs it."""
    del request, error
    return JSONResponse({"error": _BUG_MESSAGE}, status_code=500)
