"""When steps are due, and a target's clock that goes with the capture."""

from __future__ import annotations

from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from json import dumps, loads
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from kafkalite.replay.lanes import Pending
from kafkalite.replay.pace import ClockError, ControlledClock, DrivenPace, RealPace

if TYPE_CHECKING:
    from collections.abc import Iterator

MS = 1_000_000


class FakeClock:
    """A target's clock; answers what is owed when it reaches a time."""

    def __init__(self, now_ms: int) -> None:
        self.now = now_ms
        self.stands = False
        self.set_to: list[int] = []
        self.owed: dict[int, Pending] = {}

    def pause(self) -> None:
        self.stands = True

    def now_ms(self) -> int:
        assert self.stands
        return self.now

    def set_ms(self, now_ms: int) -> None:
        self.now = now_ms
        self.set_to.append(now_ms)
        for due_ms, pending in self.owed.items():
            if due_ms <= now_ms:
                pending.resolve(b"answer")


async def test_the_targets_time_is_that_of_the_capture() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.begin(5_000 * MS)
    await pace.due(5_000 * MS + 1)
    await pace.due(9_000 * MS)
    assert clock.set_to == [5_000, 9_000]
    assert pace.later_ms == 0


async def test_a_target_beyond_the_recorded_time_is_later_by_as_much() -> None:
    clock = FakeClock(7_000)
    pace = DrivenPace(clock)
    pace.begin(5_000 * MS)
    await pace.due(5_010 * MS)
    assert clock.set_to == [7_010]
    assert pace.later_ms == 2_000


async def test_an_answer_that_waits_for_time_gets_the_time_it_took() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.begin(1_000 * MS)
    pending = Pending(1)
    clock.owed[1_500] = pending
    assert await pace.arrived(pending, 1_500 * MS, 0.1)
    assert clock.now == 1_500


async def test_an_answer_that_is_a_little_late_is_waited_for() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.begin(1_000 * MS)
    pending = Pending(1)
    clock.owed[1_509] = pending
    assert await pace.arrived(pending, 1_500 * MS, 0.1)
    assert clock.now == 1_510


async def test_time_goes_on_only_when_the_target_has_seen_what_was_sent() -> None:
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.begin(1_000 * MS)
    waiting, answered = Pending(1), Pending(2)
    pace.sent(waiting)
    pace.sent(answered)
    answered.resolve(b"answer")
    await pace.due(1_000 * MS)
    await pace.due(9_000 * MS)
    await pace.due(9_500 * MS)
    pace.sent(answered)
    await pace.due(9_900 * MS)
    assert clock.set_to == [1_000, 1_000, 9_000, 9_500, 9_900]


async def test_a_busy_target_is_not_taken_for_one_that_waits() -> None:
    """It answers when it gets to it, and no time is to go by until then."""
    clock = FakeClock(0)
    pace = DrivenPace(clock)
    pace.begin(1_000 * MS)
    pending = Pending(1)
    clock.set_ms = lambda now_ms: pending.resolve(str(now_ms).encode())  # type: ignore[method-assign]
    assert await pace.arrived(pending, 1_000 * MS, 0.1)
    assert pending.response == b"1000"


async def test_an_answer_that_never_comes_is_given_up() -> None:
    assert not await RealPace(None).arrived(Pending(1), 0, 0.01)


async def test_at_most_speed_nothing_is_waited_for() -> None:
    pace = RealPace(None)
    pace.begin(0)
    await pace.due(3_600_000 * MS)
    assert pace.hurry == 0


async def test_at_ten_times_the_speed_steps_are_that_much_closer() -> None:
    pace = RealPace(1_000.0)
    pace.begin(0)
    await pace.due(1_000 * MS)
    assert pace.hurry == 1_000.0


class Forgetful(BaseHTTPRequestHandler):
    """Tells the time it is told, and hangs up without a word, as on a client that was long idle."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = loads(self.rfile.read(int(self.headers["Content-Length"])))
        told = dumps({"now_ms": body["now_ms"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is inherited
        del format, args


@pytest.fixture
def forgetful() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Forgetful)
    serving = Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    yield server
    if serving.is_alive():
        server.shutdown()
        serving.join()
    server.server_close()


def test_a_clock_that_hung_up_is_called_again(forgetful: HTTPServer) -> None:
    with closing(ControlledClock(f"http://127.0.0.1:{forgetful.server_port}")) as clock:
        for now_ms in (1_000, 2_000, 3_000):
            clock.set_ms(now_ms)
            assert clock.now_ms() == now_ms


def test_a_clock_that_is_gone_is_told_of(forgetful: HTTPServer) -> None:
    with closing(ControlledClock(f"http://127.0.0.1:{forgetful.server_port}")) as clock:
        clock.set_ms(1_000)
        forgetful.shutdown()
        forgetful.server_close()
        with pytest.raises(ClockError, match="connection refused"):
            clock.set_ms(2_000)
