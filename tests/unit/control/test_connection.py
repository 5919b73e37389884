"""Connections of the control endpoint: time limits, the connection limit, errors."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from uvicorn.server import ServerState

from kafkalite.control.connection import ControlConnection, EndpointContext, Limits
from kafkalite.control.server import uvicorn_logger
from kafkalite.server.client_warnings import ClientWarnings
from kafkalite.server.logging import Level, Log
from kafkalite.testing.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

LIMITS = Limits(connections=3, request_s=5, keep_alive_s=7)
REQUEST = b"GET /now HTTP/1.1\r\nhost: localhost\r\n\r\n"
HEAD = b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\n"


async def wait_until(condition: Callable[[], bool]) -> None:
    """Let tasks run wait_until a condition is true."""
    while not condition():  # noqa: ASYNC110 - a fake loop without timers
        await asyncio.sleep(0)


class Timer:
    """A scheduled call."""

    def __init__(self, due: float, call: Callable[[], None]) -> None:
        self.due = due
        self.call = call
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualLoop:
    """The running loop with timers that fire when a test advances the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + delay, call))
        return self.timers[-1]

    def create_task(self, *arguments: Any, **named: Any) -> asyncio.Task[None]:  # noqa: ANN401
        return asyncio.get_running_loop().create_task(*arguments, **named)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.timers if each.due <= self.now and not each.is_cancelled]
        self.timers = [each for each in self.timers if each not in due]
        for timer in due:
            timer.call()


class FakeTransport:
    """A transport that stores written bytes, and the protocol at its end."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.written = bytearray()
        self.is_closed = False
        self.protocol = endpoint.protocol()
        self.protocol.connection_made(cast("asyncio.Transport", self))

    def get_extra_info(self, name: str, default: object = None) -> object:
        return ("127.0.0.1", 1) if name in {"peername", "sockname"} else default

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)

    async def answer(self) -> Answer:
        """Return the first answer, and remove it."""
        await wait_until(lambda: b"\r\n\r\n" in self.written)
        head, _, _ = bytes(self.written).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers["content-length"])
        await wait_until(lambda: len(self.written) >= len(head) + 4 + length)
        body = bytes(self.written)[len(head) + 4 :][:length]
        del self.written[: len(head) + 4 + length]
        assert headers["content-type"] == "application/json"
        return Answer(int(status.split(" ")[1]), json.loads(body))


class Answer(NamedTuple):
    """The parts of an answer that tests look at."""

    status: int
    body: Any


class Endpoint:
    """The context that all connections of an endpoint share."""

    def __init__(self, limits: Limits = LIMITS, style: str = "json") -> None:
        self.loop = ManualLoop()
        self.lines = io.StringIO()
        self.released = asyncio.Event()
        self.log = Log(Level.INFO, style, self.lines)
        self.warnings = ClientWarnings(ManualClock(), self.log.warning)
        app = Starlette(
            routes=[
                Route("/now", self._now),
                Route("/slow", self._slow),
                Route("/echo", self._echo, methods=["POST"]),
                Route("/faulty", self._faulty),
            ],
            exception_handlers={Exception: _failed},
        )
        self.config = uvicorn.Config(
            app, http=ControlConnection, ws="none", lifespan="off", log_config=None
        )
        self.config.load()
        self.state = ServerState()
        self.limits = limits

    def protocol(self) -> ControlConnection:
        return ControlConnection(
            EndpointContext(
                self.config,
                self.state,
                self.limits,
                self.log,
                uvicorn_logger(self.log),
                cast("asyncio.AbstractEventLoop", self.loop),
                self.warnings,
            )
        )

    def line(self) -> dict[str, str]:
        """Return the only line of the log."""
        (line,) = self.lines.getvalue().splitlines()
        return cast("dict[str, str]", json.loads(line))

    async def _now(self, request: Request) -> Response:
        del request
        return JSONResponse("now")

    async def _slow(self, request: Request) -> Response:
        del request
        await self.released.wait()
        return JSONResponse("late")

    async def _echo(self, request: Request) -> Response:
        return JSONResponse((await request.body()).decode())

    async def _faulty(self, request: Request) -> Response:
        raise LookupError(request.method)


def _failed(request: Request, fault: Exception) -> Response:
    del request
    return JSONResponse(repr(fault), 500)


async def test_a_connection_without_a_request_is_closed() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    endpoint.loop.advance(4.9)
    assert not pipe.is_closed
    endpoint.loop.advance(0.1)
    assert pipe.is_closed
    assert pipe.written == b""


@pytest.mark.parametrize("part", [b"G", REQUEST[:-2], HEAD, HEAD + b"123"])
async def test_an_incomplete_request_times_out(part: bytes) -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(part)
    endpoint.loop.advance(5)
    answer = await pipe.answer()
    assert answer.status == 408
    assert "5 s" in answer.body["error"]
    assert pipe.is_closed
    await asyncio.sleep(0)
    assert endpoint.state.connections == set()


async def test_single_bytes_do_not_extend_the_time() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    for byte in REQUEST[:10]:
        pipe.send(bytes([byte]))
        endpoint.loop.advance(0.5)
    assert (await pipe.answer()).status == 408


async def test_a_slow_body_does_not_extend_the_time() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(HEAD)
    for _ in range(2):
        await asyncio.sleep(0)
        pipe.send(b".")
        endpoint.loop.advance(2.5)
    assert (await pipe.answer()).status == 408
    assert pipe.is_closed


async def test_the_time_of_a_command_is_not_limited() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
    endpoint.loop.advance(3_600)
    endpoint.released.set()
    assert await pipe.answer() == (200, "late")


async def test_each_request_of_a_connection_has_its_own_time_limit() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    for _ in range(3):
        pipe.send(REQUEST[:9])
        endpoint.loop.advance(3)
        pipe.send(REQUEST[9:])
        assert await pipe.answer() == (200, "now")
        endpoint.loop.advance(3)
    endpoint.loop.advance(3.9)
    assert not pipe.is_closed
    endpoint.loop.advance(0.1)
    assert pipe.is_closed
    assert pipe.written == b""


async def test_pipelined_requests_are_answered_in_order() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(REQUEST + HEAD + b"body" + REQUEST[:9])
    assert [await pipe.answer(), await pipe.answer()] == [(200, "now"), (200, "body")]
    endpoint.loop.advance(7)
    assert pipe.is_closed


async def test_a_refused_body_is_read_for_a_limited_time() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(HEAD.replace(b"echo", b"nowhere"))
    await wait_until(lambda: bool(pipe.written))
    for _ in range(3):
        endpoint.loop.advance(1.5)
        pipe.send(b".")
    assert not pipe.is_closed
    endpoint.loop.advance(0.5)
    assert pipe.is_closed


async def test_a_connection_continues_after_a_refused_body() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(HEAD.replace(b"echo", b"nowhere"))
    await wait_until(lambda: bool(pipe.written))
    pipe.written.clear()
    endpoint.loop.advance(4)
    pipe.send(b"body")
    endpoint.loop.advance(4)
    pipe.send(REQUEST)
    assert await pipe.answer() == (200, "now")


async def test_a_client_that_does_not_read_is_disconnected() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
    pipe.protocol.pause_writing()
    endpoint.loop.advance(4)
    pipe.protocol.resume_writing()
    pipe.protocol.pause_writing()
    endpoint.loop.advance(4)
    assert not pipe.is_closed
    endpoint.loop.advance(1)
    assert pipe.is_closed


async def test_above_the_limit_the_oldest_waiting_connection_is_closed() -> None:
    endpoint = Endpoint(LIMITS._replace(request_s=100))
    busy = FakeTransport(endpoint)
    busy.send(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
    pipes = []
    for _ in range(4):
        endpoint.loop.advance(1)
        pipes.append(FakeTransport(endpoint))
        pipes[-1].send(HEAD)
    assert [pipe.is_closed for pipe in [busy, *pipes]] == [False, True, True, False, False]
    assert (await pipes[0].answer()).status == 503
    pipes[-1].send(b"body")
    assert await pipes[-1].answer() == (200, "body")
    endpoint.released.set()
    assert await busy.answer() == (200, "late")


async def test_a_connection_between_two_requests_may_be_closed_for_a_new_one() -> None:
    endpoint = Endpoint()
    pipes = []
    for _ in range(4):
        endpoint.loop.advance(1)
        pipes.append(FakeTransport(endpoint))
        pipes[-1].send(REQUEST)
        assert await pipes[-1].answer() == (200, "now")
    assert [pipe.is_closed for pipe in pipes] == [True, False, False, False]
    assert pipes[0].written == b""


async def test_new_requests_are_refused_while_all_connections_are_busy() -> None:
    endpoint = Endpoint()
    pipes = [FakeTransport(endpoint) for _ in range(4)]
    for pipe in pipes:
        pipe.send(b"GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
    extra = FakeTransport(endpoint)
    extra.send(REQUEST)
    answer = await extra.answer()
    assert (answer.status, list(answer.body)) == (503, ["error"])
    assert extra.is_closed
    assert '"level": "warning"' in endpoint.lines.getvalue()
    endpoint.released.set()


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x10 not http \r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /now HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 100_000,
        b"POST /echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nno number\r\n",
    ],
    ids=["kafka", "no host", "long header", "bad chunk"],
)
async def test_bytes_that_are_not_http_are_refused_as_json(data: bytes) -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(data)
    assert await pipe.answer() == (400, {"error": "Invalid HTTP request received."})
    assert pipe.is_closed
    line = endpoint.line()
    assert line["level"] == "warning"
    assert line["peer"] == "127.0.0.1:1"
    assert "is not valid HTTP" in line["reason"]


async def test_a_tls_handshake_is_answered_in_plain_text() -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
    answer = await pipe.answer()
    assert answer.status == 400
    assert "has no TLS: use http://" in answer.body["error"]
    assert pipe.is_closed
    assert "the client seems to speak TLS" in endpoint.line()["reason"]


async def test_warnings_about_a_client_are_counted() -> None:
    endpoint = Endpoint()
    for _ in range(100):
        FakeTransport(endpoint).send(b"no http\r\n\r\n")
    assert endpoint.line()["event"] == "control connection closed"
    endpoint.warnings.stop()
    _, line = endpoint.lines.getvalue().splitlines()
    assert json.loads(line)["repeated"] == 99


@pytest.mark.parametrize("after", [b"no number\r\n", b"2\r\nokX"])
async def test_bytes_that_are_not_http_after_an_answer_close_the_connection(after: bytes) -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(b"POST /nowhere HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    await wait_until(lambda: bool(pipe.written))
    pipe.send(after)
    assert pipe.is_closed
    assert pipe.written.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("style", ["json", "console"])
async def test_uvicorn_writes_to_the_brokers_log(
    style: str, capfd: pytest.CaptureFixture[str]
) -> None:
    endpoint = Endpoint(style=style)
    pipe = FakeTransport(endpoint)
    pipe.send(b"GET /faulty HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await pipe.answer()).status == 500
    await wait_until(lambda: not endpoint.state.tasks)
    logged = endpoint.lines.getvalue()
    assert "Exception in ASGI application" in logged
    assert "LookupError" in logged
    if style == "json":
        assert {json.loads(line)["level"] for line in logged.splitlines()} == {"error"}
    assert capfd.readouterr().err == ""


async def test_an_upgrade_is_answered_as_a_normal_request(
    capfd: pytest.CaptureFixture[str],
) -> None:
    endpoint = Endpoint()
    pipe = FakeTransport(endpoint)
    pipe.send(
        b"GET /now HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-version: 13\r\nsec-websocket-key: x\r\n\r\n"
    )
    assert await pipe.answer() == (200, "now")
    assert endpoint.lines.getvalue() + capfd.readouterr().err == ""
