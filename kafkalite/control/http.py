"""The control endpoint: commands over HTTP and JSON, for tests in any language.

    GET  /v1                          what there is
    GET  /v1/health                   {"status": "ok", "cluster_id", "bootstrap_servers", "version"}
    GET  /v1/clock                    {"now_ms", "iso", "mode", "rate"}
    POST /v1/clock                    one of the following, answered as GET is:
         {"advance": "7d"}            move time forward, doing all that is due on the way
         {"advance_ms": 604800000}    the same in milliseconds
         {"now": "2026-03-01T12:00Z"} move time forward to then; {"now_ms": …} likewise
         {"mode": "manual"}           let time stand until it is advanced
         {"mode": "real"}             let it run again
         {"rate": 60}                 let it run 60 times as fast
    GET  /v1/explain?group=g&limit=9  {"now_ms", "iso", "groups", "transactional_ids", "entries":
         [{"number", "group", "transactional_id", "kind", "text", "facts", "times", "first_ms",
         "first_iso", "at_ms", "at_iso"}]}; with transactional_id=t instead of group, of that

What cannot be done is answered {"error": "one sentence"}: 400 for bad input, 403 for a web page,
404, 405, 413 and 415 as HTTP has it. A page in a browser on this machine could send requests here
too; so requests that name another host, or that tell an origin, are refused.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, TypedDict

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from kafkalite import __version__
from kafkalite.control.commands import (
    ACCELERATED,
    DEFAULT_EXPLAINED,
    MAX_EXPLAINED,
    AdvanceClock,
    CommandError,
    Explain,
    RunClock,
    SetClock,
    ShowClock,
    perform_explain,
    perform_on_clock,
    rate_of,
)
from kafkalite.control.times import duration_ms, instant_ms, iso_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from kafkalite.control.commands import ClockCommand, ClockState, Explanation
    from kafkalite.coordinator.journal import Entry, Fact
    from kafkalite.server.broker import Broker
    from kafkalite.server.logging import Log

MAX_BODY = 64 * 1024
"""Bytes of a request; more are not read."""

_PATHS = {
    "/v1": "GET: this list",
    "/v1/health": "GET: whether the broker serves, and where",
    "/v1/clock": 'GET: the time; POST {"advance": "7d"}, {"mode": "manual"}, {"rate": 60}, …',
    "/v1/explain": "GET ?group=g or ?transactional_id=t, &limit=n: what befell it, and why",
}


class ClockShape(TypedDict):
    """The time, and how it goes."""

    now_ms: int
    iso: str
    mode: str
    rate: float


class EntryShape(TypedDict):
    """One thing that befell a group or a transactional id; the other of the two is null."""

    number: int
    group: str | None
    transactional_id: str | None
    kind: str
    text: str
    facts: Mapping[str, Fact]
    times: int
    first_ms: int
    first_iso: str
    at_ms: int
    at_iso: str


class ExplanationShape(TypedDict):
    """What befell groups and transactional ids, oldest first."""

    now_ms: int
    iso: str
    groups: Sequence[str]
    transactional_ids: Sequence[str]
    entries: Sequence[EntryShape]


def clock_shape(state: ClockState) -> ClockShape:
    """Return the time as JSON has it."""
    return {
        "now_ms": state.now_ms,
        "iso": iso_of(state.now_ms),
        "mode": state.mode,
        "rate": state.rate,
    }


def explanation_shape(found: Explanation) -> ExplanationShape:
    """Return an explanation as JSON has it."""
    return {
        "now_ms": found.now_ms,
        "iso": iso_of(found.now_ms),
        "groups": found.groups,
        "transactional_ids": found.transactional_ids,
        "entries": [_entry_shape(entry) for entry in found.entries],
    }


def _entry_shape(entry: Entry) -> EntryShape:
    return {
        "number": entry.number,
        "group": entry.group,
        "transactional_id": entry.transactional_id,
        "kind": entry.kind,
        "text": entry.text,
        "facts": entry.facts,
        "times": entry.times,
        "first_ms": entry.first_ms,
        "first_iso": iso_of(entry.first_ms),
        "at_ms": entry.at_ms,
        "at_iso": iso_of(entry.at_ms),
    }


# What a body may ask of the clock


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CommandError("a time or a duration in milliseconds is a whole number")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise CommandError('a time, a duration or a mode is text, such as "7d"')
    return value


def _rate(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise CommandError("a rate is a number, such as 60")
    return value


_ASKED: Mapping[str, Callable[[object], ClockCommand]] = {
    "advance": lambda value: AdvanceClock(duration_ms(_text(value))),
    "advance_ms": lambda value: AdvanceClock(_whole(value)),
    "now": lambda value: SetClock(instant_ms(_text(value))),
    "now_ms": lambda value: SetClock(_whole(value)),
    "mode": lambda value: RunClock(rate_of(_text(value))),
    "rate": lambda value: RunClock(_rate(value)),
}


def clock_command(body: object) -> ClockCommand:
    """Return what a body asks of the clock; ValueError, in one sentence, when it asks nothing."""
    if not isinstance(body, dict):
        raise CommandError('the body is a JSON object, such as {"advance": "7d"}')
    if body.get("mode") == ACCELERATED and body.keys() == {"mode", "rate"}:
        return RunClock(_rate(body["rate"]))
    if len(body) != 1 or not body.keys() <= _ASKED.keys():
        raise CommandError(f"the body has exactly one of these: {', '.join(_ASKED)}")
    ((name, value),) = body.items()
    return _ASKED[name](value)


# The application


class Control:
    """The application that drives one broker."""

    def __init__(self, broker: Broker, log: Log, allowed_hosts: Sequence[str] | None) -> None:
        """Serve requests that name one of `allowed_hosts`, whatever the port; None: any."""
        self._broker = broker
        self._log = log
        self._allowed_hosts = allowed_hosts
        routes = [
            Route("/v1", self._guarded(self._index), methods=["GET"]),
            Route("/v1/health", self._guarded(self._health), methods=["GET"]),
            Route("/v1/clock", self._guarded(self._clock), methods=["GET", "POST"]),
            Route("/v1/explain", self._guarded(self._explain), methods=["GET"]),
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: _refused})
        self.app.router.redirect_slashes = False

    def _guarded(
        self, answer: Callable[[Request], Awaitable[object]]
    ) -> Callable[[Request], Awaitable[Response]]:
        return partial(self._answer, answer)

    async def _answer(
        self, answer: Callable[[Request], Awaitable[object]], request: Request
    ) -> Response:
        self._check_sender(request)
        try:
            return JSONResponse(await answer(request))
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        except HTTPException:
            raise
        except Exception as fault:  # noqa: BLE001 - whatever it is, the next request may do better
            self._log.error("a command met a fault of this broker", exception=fault)
            raise HTTPException(
                500, "the command met a fault of this broker, see its log"
            ) from None

    def _check_sender(self, request: Request) -> None:
        if "origin" in request.headers:
            raise HTTPException(403, "web pages cannot drive this broker")
        allowed, told = self._allowed_hosts, request.headers.get("host", "")
        if allowed is not None and _host_in(told) not in allowed:
            raise HTTPException(403, f"this broker is not called {told[:60]!r}: say localhost")

    async def _index(self, request: Request) -> object:
        del request
        return {"kafkalite": __version__, "paths": _PATHS}

    async def _health(self, request: Request) -> object:
        del request
        broker = self._broker
        return {
            "status": "ok",
            "version": __version__,
            "cluster_id": broker.cluster_id,
            "bootstrap_servers": broker.bootstrap_servers,
            "listeners": broker.bootstrap_by_listener(),
        }

    async def _clock(self, request: Request) -> object:
        command: ClockCommand = ShowClock()
        if request.method == "POST":
            command = clock_command(await _json_body(request))
        return clock_shape(await perform_on_clock(self._broker, command))

    async def _explain(self, request: Request) -> object:
        asked = request.query_params
        unknown = asked.keys() - {"group", "transactional_id", "limit"}
        if unknown:
            raise CommandError(
                f"explain knows group, transactional_id and limit, not {min(unknown)[:40]!r}"
            )
        limit = asked.get("limit", f"{DEFAULT_EXPLAINED}")
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= MAX_EXPLAINED:
            raise CommandError(f"limit is a number from 1 to {MAX_EXPLAINED}")
        command = Explain(asked.get("group"), int(limit[:9]), asked.get("transactional_id"))
        return explanation_shape(perform_explain(self._broker, command))


async def _json_body(request: Request) -> object:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, "the body is JSON: send Content-Type: application/json")
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                raise HTTPException(413, f"a body has at most {MAX_BODY} bytes")
    except ClientDisconnect as left:
        raise CommandError("the client left before the end of the body") from left
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CommandError("the body is not JSON") from error


def _host_in(told: str) -> str:
    """Return the name in a Host header, without its port."""
    host = told.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _refused(request: Request, refusal: Exception) -> Response:
    assert isinstance(refusal, HTTPException)
    sentences = {
        404: f"there is nothing at {request.url.path[:60]}: GET /v1 tells what there is",
        405: f"{request.url.path[:60]} knows no {request.method[:10]}",
    }
    sentence = sentences.get(refusal.status_code, refusal.detail)
    return JSONResponse(
        {"error": sentence}, status_code=refusal.status_code, headers=refusal.headers
    )
