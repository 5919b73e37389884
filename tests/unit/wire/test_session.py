"""One conversation: frames in, answers in order, one request at a time."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import BURST_BYTES, Owed, Session

if TYPE_CHECKING:
    from kafkalite.wire.session import Pieces

MAX_REQUEST = 1000
MAX_KEPT = 64


class Server:
    """Answers a frame with itself; `later…` when told to, `bad…` never, `big…` at length."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.owed: dict[bytes, Waiting[bytes]] = {}
        self.wakes = 0
        self.session = Session(
            ReceiveBuffers(),
            self.serve,
            max_request_bytes=MAX_REQUEST,
            max_kept_bytes=MAX_KEPT,
            wake=self.wake,
        )

    def wake(self) -> None:
        self.wakes += 1

    def serve(self, buffer: bytearray, start: int, end: int, out: Pieces) -> int | Owed:
        body = bytes(buffer[start:end])
        self.served.append(body)
        if body.startswith(b"bad"):
            raise ProtocolViolation("bad frame")
        if body.startswith(b"later"):
            waiting = self.owed[body] = Waiting[bytes]()
            return Owed(waiting, self.finish)
        if body.startswith(b"silent"):
            return 0
        if body.startswith(b"big"):
            out.append(bytes(BURST_BYTES))
            return BURST_BYTES
        return self.finish(body, out)

    def finish(self, answer: bytes, out: Pieces) -> int:
        out.append(answer)
        return len(answer)

    def send(self, data: bytes) -> None:
        space = self.session.space()
        assert len(space) >= len(data)
        space[: len(data)] = data
        self.session.received(len(data))

    def answers(self) -> list[bytes]:
        return [bytes(piece) for piece in self.session.take()]


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


@pytest.fixture
def server() -> Server:
    return Server()


def test_what_was_served_is_settled_before_answers_leave() -> None:
    """With the frames where they were, so that they can be served again."""
    server = Server()
    settled: list[tuple[bytes, list[bytes]]] = []

    def settle(buffer: bytearray, out: Pieces) -> None:
        settled.append((bytes(buffer[:14]), [bytes(piece) for piece in out]))
        out[:] = [b"settled"]

    server.session = Session(
        ReceiveBuffers(),
        server.serve,
        max_request_bytes=MAX_REQUEST,
        max_kept_bytes=MAX_KEPT,
        wake=server.wake,
        settle=settle,
    )
    glued = frame(b"one") + frame(b"two")
    server.send(glued + frame(b"three")[:5])
    assert settled == [(glued, [b"one", b"two"])]
    assert server.answers() == [b"settled"]
    server.send(frame(b"three")[5:] + frame(b"bad") + frame(b"never"))
    assert settled[1][1] == [b"three"]
    assert server.session.violation == "bad frame"


def test_whole_frames_glued_together_are_answered_in_order(server: Server) -> None:
    server.send(b"".join(map(frame, (b"one", b"two", b"three"))))
    assert server.answers() == [b"one", b"two", b"three"]
    assert server.session.made == 0


def test_single_bytes_make_frames(server: Server) -> None:
    for byte in frame(b"one") + frame(b"two"):
        server.send(bytes((byte,)))
    assert server.answers() == [b"one", b"two"]


def test_a_request_without_answer_leaves_no_gap(server: Server) -> None:
    server.send(frame(b"silent") + frame(b"two"))
    assert server.answers() == [b"two"]


def test_what_comes_after_an_owed_answer_is_not_served_before_it(server: Server) -> None:
    server.send(frame(b"one") + frame(b"later") + frame(b"three"))
    assert server.answers() == [b"one"]
    assert server.served == [b"one", b"later"]
    server.send(frame(b"four"))
    assert server.answers() == []

    server.owed[b"later"].resolve(b"two")
    assert server.wakes == 1
    assert server.served == [b"one", b"later"], "no handler runs inside another"
    server.session.resume()
    assert server.answers() == [b"two", b"three", b"four"]


def test_it_is_between_requests_when_nothing_is_under_way(server: Server) -> None:
    said = frame(b"one")
    assert server.session.is_between
    server.send(said[:3])
    assert not server.session.is_between
    server.send(said[3:])
    assert not server.session.is_between, "its answer has not been taken"
    server.answers()
    assert server.session.is_between
    server.send(frame(b"later"))
    assert not server.session.is_between


def test_an_answer_that_is_there_already_is_sent_after_one_wake(server: Server) -> None:
    server.send(frame(b"later"))
    waiting = server.owed[b"later"]
    server.session.resume()
    assert server.answers() == []
    waiting.resolve(b"done")
    server.session.resume()
    assert server.answers() == [b"done"]


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_REQUEST + 1, 2**31 - 1])
def test_an_impossible_length_ends_the_conversation(server: Server, length: int) -> None:
    server.send(frame(b"one") + pack(">i", length) + b"more")
    assert server.answers() == [b"one"]
    assert server.session.violation is not None
    assert str(length) in server.session.violation


@pytest.mark.parametrize(
    ("start", "spoken"),
    [(b"GET ", "HTTP"), (b"POST", "HTTP"), (b"\x16\x03\x01\x02", "TLS")],
)
def test_a_peer_that_speaks_something_else_is_told_apart(
    server: Server, start: bytes, spoken: str
) -> None:
    server.send(start + bytes(20))
    assert server.session.violation is not None
    assert server.session.violation.endswith(f"seems to speak {spoken}")


def test_the_longest_frame_allowed_is_served(server: Server) -> None:
    server.send(frame(bytes(MAX_REQUEST)))
    assert server.answers() == [bytes(MAX_REQUEST)]
    assert server.session.violation is None


def test_after_a_violation_nothing_is_served(server: Server) -> None:
    server.send(frame(b"bad") + frame(b"two"))
    server.send(frame(b"three"))
    assert server.served == [b"bad"]
    assert server.session.violation == "bad frame"


def test_while_held_frames_are_kept_and_a_pause_is_wanted_at_the_bound(server: Server) -> None:
    server.session.is_held = True
    server.send(frame(b"x" * (MAX_KEPT - 4)))
    assert not server.session.wants_pause
    server.send(frame(b"y"))
    assert server.session.wants_pause
    assert server.served == []
    server.session.is_held = False
    server.session.resume()
    assert not server.session.wants_pause
    assert server.answers() == [b"x" * (MAX_KEPT - 4), b"y"]


def test_while_an_answer_is_owed_a_pause_is_wanted_at_the_bound(server: Server) -> None:
    server.send(frame(b"later"))
    server.send(frame(bytes(MAX_KEPT)))
    assert server.session.wants_pause


def test_enough_answers_interrupt_a_burst(server: Server) -> None:
    """A peer that asks for much and reads nothing must not have it all made at once."""
    server.send(frame(b"big") * 4)
    assert server.session.is_interrupted
    assert len(server.served) == 2
    server.session.take()
    server.session.resume()
    server.session.take()
    assert len(server.served) == 4
    server.session.resume()
    assert not server.session.is_interrupted


def test_closing_abandons_what_is_owed(server: Server) -> None:
    server.send(frame(b"later") + frame(b"two"))
    waiting = server.owed[b"later"]
    server.session.close()
    assert waiting.is_abandoned
    waiting.resolve(b"too late")
    server.session.resume()
    assert server.wakes == 0
    assert server.answers() == []


def test_closing_twice_is_harmless(server: Server) -> None:
    server.session.close()
    server.session.close()
    assert server.answers() == []
