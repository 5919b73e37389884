"""Times at which steps are due, and a target's clock that follows the capture."""

from __future__ import annotations

from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from json import dumps, loads
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.exchanges import PendingResponse
from kafkalite.control.endpoint import Endpoint
from kafkalite.lab.replay.player.pacing import ClockError, ControlledClock, DrivenPace, RealPace

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000


class FakeClock:
    """A target's clock; resolves pending responses when it reaches their times."""

    def __init__(self, now_ms: int) -> None:
        self.now = now_ms
        self.is_paused = False
        self.set_times: list[int] = []
        self.pending: dict[int, PendingResponse] = {}

    def pause(self) -> None:
        self.is_paused = True

    def now_ms(self) -> int:
        assert self.is_paused
        return self.now

    def set_ms(self, now_ms: int) -> None:
        self.now = now_ms
        self.set_times.append(now_ms)
        for due_ms, pending in self.pending.items():
            if due_ms <= now_ms:
                pending.resolve(b"answer")


async def test_target_clock_is_set_to_recorded_times() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.start(5_000 * MS)
    await pace.wait_until_due(5_000 * MS + 1)
    await pace.wait_until_due(9_000 * MS)
    assert clock.set_times == [5_000, 9_000]
    assert pace.shift_ms == 0


async def test_recorded_times_are_shifted_if_the_target_is_later() -> None:
    clock = FakeClock(7_000)
    pace = DrivenPace(clock)
    pace.start(5_000 * MS)
    await pace.wait_until_due(5_010 * MS)
    assert clock.set_times == [7_010]
    assert pace.shift_ms == 2_000


async def test_clock_is_advanced_to_the_recorded_time_of_a_response() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.start(1_000 * MS)
    pending = PendingResponse(1)
    clock.pending[1_500] = pending
    assert await pace.wait_for_response(pending, 1_500 * MS, 0.1)
    assert clock.now == 1_500


async def test_clock_is_advanced_further_for_a_late_response() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.start(1_000 * MS)
    pending = PendingResponse(1)
    clock.pending[1_509] = pending
    assert await pace.wait_for_response(pending, 1_500 * MS, 0.1)
    assert clock.now == 1_510


async def test_clock_is_advanced_after_the_target_has_read_all_requests() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.start(1_000 * MS)
    waiting, answered = PendingResponse(1), PendingResponse(2)
    pace.add_sent(waiting)
    pace.add_sent(answered)
    answered.resolve(b"answer")
    await pace.wait_until_due(1_000 * MS)
    await pace.wait_until_due(9_000 * MS)
    await pace.wait_until_due(9_500 * MS)
    pace.add_sent(answered)
    await pace.wait_until_due(9_900 * MS)
    assert clock.set_times == [1_000, 1_000, 9_000, 9_500, 9_900]


async def test_clock_is_not_advanced_for_a_busy_target() -> None:
    """The clock is not advanced before the target has read the request."""
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.start(1_000 * MS)
    pending = PendingResponse(1)
    clock.set_ms = lambda now_ms: pending.resolve(str(now_ms).encode())  # type: ignore[method-assign]
    assert await pace.wait_for_response(pending, 1_000 * MS, 0.1)
    assert pending.frame == b"1000"


async def test_missing_response_times_out() -> None:
    assert not await RealPace(None).wait_for_response(PendingResponse(1), 0, 0.01)


async def test_maximum_speed_does_not_wait() -> None:
    pace = RealPace(None)
    pace.start(0)
    await pace.wait_until_due(3_600_000 * MS)
    assert pace.wait_speedup == 0


async def test_speed_divides_the_intervals_between_steps() -> None:
    pace = RealPace(1_000.0)
    pace.start(0)
    await pace.wait_until_due(1_000 * MS)
    assert pace.wait_speedup == 1_000.0


class ClosingHandler(BaseHTTPRequestHandler):
    """Returns the received time and closes the connection, as after a long idle time."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = dumps({"now_ms": body["now_ms"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(response)))
        self.end_headers()
        self.wfile.write(response)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is inherited
        del format, args


@pytest.fixture
def closing_server() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), ClosingHandler)
    serving = Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    yield server
    if serving.is_alive():
        server.shutdown()
        serving.join()
    server.server_close()


def test_closed_clock_connection_is_reopened(closing_server: HTTPServer) -> None:
    with closing(
        ControlledClock(Endpoint(f"http://127.0.0.1:{closing_server.server_port}"))
    ) as clock:
        for now_ms in (1_000, 2_000, 3_000):
            clock.set_ms(now_ms)
            assert clock.now_ms() == now_ms


def test_unreachable_clock_is_an_error(closing_server: HTTPServer) -> None:
    with closing(
        ControlledClock(Endpoint(f"http://127.0.0.1:{closing_server.server_port}"))
    ) as clock:
        clock.set_ms(1_000)
        closing_server.shutdown()
        closing_server.server_close()
        with pytest.raises(ClockError, match="connection refused"):
            clock.set_ms(2_000)
