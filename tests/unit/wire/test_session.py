"""Session: frames in, answers in order, one request at a time."""

from __future__ import annotations

from struct import pack
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError, ProtocolViolation
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import BURST_BYTES, Deferred, PendingAnswer, Session, SessionSettings

if TYPE_CHECKING:
    from kafkalite.wire.session import Pieces, ServeResult

MAX_REQUEST = 1000
MAX_BUFFERED = 64
CONTEXT, OWNER = "context", "owner"


class Server:
    """Answers a frame with itself; `later…` on demand, `bad…` never, `big…` at length."""

    def __init__(self) -> None:
        self.served: list[bytes] = []
        self.pending: dict[bytes, Waiting[bytes]] = {}
        self.wakes = 0
        self.settings = SessionSettings(
            buffers=ReceiveBuffers(),
            serve=self.serve,
            serve_in_worker=self.serve,
            wake=self.wake,
            max_request_bytes=MAX_REQUEST,
            max_buffered_bytes=MAX_BUFFERED,
        )
        self.session = Session(self.settings, CONTEXT, OWNER)

    def wake(self, owner: object) -> None:
        assert owner is OWNER
        self.wakes += 1

    def serve(
        self, context: object, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | PendingAnswer:
        assert context is CONTEXT
        body = bytes(buffer[start:end])
        self.served.append(body)
        if body.startswith(b"bad"):
            raise ProtocolViolation("bad frame")
        if body.startswith(b"later"):
            waiting = self.pending[body] = Waiting[bytes]()
            return PendingAnswer(waiting, self.encode)
        if body.startswith(b"silent"):
            return 0
        if body.startswith(b"big"):
            out.append(bytes(BURST_BYTES))
            return BURST_BYTES
        return self.encode(body, out)

    def encode(self, answer: bytes, out: Pieces) -> int:
        out.append(answer)
        return len(answer)

    def send(self, data: bytes) -> None:
        space = self.session.get_buffer()
        assert len(space) >= len(data)
        space[: len(data)] = data
        self.session.buffer_updated(len(data))
        self.session.serve()

    def answers(self) -> list[bytes]:
        return [bytes(piece) for piece in self.session.take_answers()]


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


@pytest.fixture
def server() -> Server:
    return Server()


class Batching:
    """A server that defers answers; `flush` encodes them."""

    def __init__(self) -> None:
        self.server = Server()
        self.deferred: list[Deferred] = []
        self.flushes: list[list[bytes]] = []
        settings = self.server.settings._replace(serve=self.serve, flush=self.flush)
        self.server.session = Session(settings, CONTEXT, OWNER)

    def serve(self, _: object, buffer: bytearray, start: int, end: int, out: Pieces) -> ServeResult:
        body = bytes(buffer[start:end])
        if body == b"bad":
            raise ProtocolViolation("bad frame")
        if body == b"fault":
            raise ZeroDivisionError
        if body == b"at once":
            out.append(body)
            return len(body)
        deferred = Deferred(body, None, self.encode)
        self.deferred.append(deferred)
        return deferred

    def encode(self, value: bytes, out: Pieces) -> int:
        if value == b"unspeakable":
            raise ProtocolViolation("cannot be encoded")
        out.append(value)
        return len(value)

    def flush(self, out: Pieces) -> int:
        self.flushes.append([bytes(piece) for piece in out])
        deferred, self.deferred = self.deferred, []
        return sum(each.encode(each.value, out) for each in deferred)


def test_deferred_answers_are_flushed_after_all_received_frames() -> None:
    batching = Batching()
    session = batching.server.session
    batching.server.send(frame(b"at once") + frame(b"one") + frame(b"two") + frame(b"three")[:5])
    assert batching.flushes == [[b"at once"]]
    assert (session.out_bytes, batching.server.answers()) == (13, [b"at once", b"one", b"two"])
    batching.server.send(frame(b"three")[5:] + frame(b"bad") + frame(b"never"))
    assert batching.server.answers() == [b"three"]
    assert session.violation == "bad frame"


def test_an_answer_that_cannot_be_encoded_closes_the_connection() -> None:
    batching = Batching()
    batching.server.send(frame(b"one") + frame(b"unspeakable") + frame(b"two"))
    assert batching.server.session.violation == "cannot be encoded"


def test_nothing_remains_deferred_after_an_exception() -> None:
    batching = Batching()
    with pytest.raises(ZeroDivisionError):
        batching.server.send(frame(b"one") + frame(b"fault"))
    assert (batching.deferred, len(batching.flushes)) == ([], 1)


def test_a_deferred_answer_becomes_the_error_of_its_batch() -> None:
    batch = SimpleNamespace(error=None)
    deferred = Deferred("answer", batch, lambda *_: 0)
    values = [deferred.value]
    batch.error = refusal = ValueError()
    assert [*values, deferred.value] == ["answer", refusal]


def test_several_frames_in_one_read_are_answered_in_order(server: Server) -> None:
    server.send(b"".join(map(frame, (b"one", b"two", b"three"))))
    assert server.answers() == [b"one", b"two", b"three"]
    assert server.session.out_bytes == 0


def test_a_frame_may_arrive_byte_by_byte(server: Server) -> None:
    for byte in frame(b"one") + frame(b"two"):
        server.send(bytes((byte,)))
    assert server.answers() == [b"one", b"two"]


def test_a_request_without_an_answer_is_skipped_in_the_output(server: Server) -> None:
    server.send(frame(b"silent") + frame(b"two"))
    assert server.answers() == [b"two"]


def test_later_requests_wait_for_a_pending_answer(server: Server) -> None:
    server.send(frame(b"one") + frame(b"later") + frame(b"three"))
    assert server.answers() == [b"one"]
    assert server.served == [b"one", b"later"]
    server.send(frame(b"four"))
    assert server.answers() == []

    server.pending[b"later"].resolve(b"two")
    assert server.wakes == 1
    assert server.served == [b"one", b"later"], "no handler runs inside another"
    server.session.serve_in_worker()
    assert server.answers() == [b"two", b"three"]
    assert server.session.is_interrupted
    server.session.serve()
    assert server.answers() == [b"four"]
    assert not server.session.is_interrupted


def test_the_first_requests_behind_a_pending_answer_are_served_one_per_turn(server: Server) -> None:
    later = [str(number).encode() for number in range(12)]
    server.send(frame(b"later") + b"".join(map(frame, later)))
    server.pending[b"later"].resolve(b"done")
    server.session.serve_in_worker()
    turns = [server.answers()]
    while server.session.is_interrupted:
        server.session.serve()
        turns.append(server.answers())
    assert turns == [[b"done", later[0]], *([each] for each in later[1:8]), later[8:]]
    server.send(b"".join(map(frame, later)))
    assert server.answers() == later


def test_an_incomplete_request_ends_the_separate_turns(server: Server) -> None:
    server.send(frame(b"later") + frame(b"one") + frame(b"two")[:3])
    server.pending[b"later"].resolve(b"done")
    server.session.serve_in_worker()
    assert server.answers() == [b"done", b"one"]
    server.session.serve()
    assert not server.session.is_interrupted
    server.send(frame(b"two")[3:] + frame(b"three"))
    assert server.answers() == [b"two", b"three"]


def test_it_is_idle_between_requests(server: Server) -> None:
    data = frame(b"one")
    assert server.session.is_idle
    server.send(data[:3])
    assert not server.session.is_idle
    server.send(data[3:])
    assert not server.session.is_idle, "its answer has not been taken"
    server.answers()
    assert server.session.is_idle
    server.send(frame(b"later"))
    assert not server.session.is_idle


def test_an_answer_that_has_arrived_is_sent_after_one_wake(server: Server) -> None:
    server.send(frame(b"later"))
    waiting = server.pending[b"later"]
    server.session.serve()
    assert server.answers() == []
    waiting.resolve(b"done")
    server.session.serve_in_worker()
    assert server.answers() == [b"done"]


@pytest.mark.parametrize("length", [-1, -(2**31), MAX_REQUEST + 1, 2**31 - 1])
def test_an_invalid_length_closes_the_connection(server: Server, length: int) -> None:
    server.send(frame(b"one") + pack(">i", length) + b"more")
    assert server.answers() == [b"one"]
    assert server.session.violation is not None
    assert str(length) in server.session.violation


@pytest.mark.parametrize(
    ("start", "spoken"),
    [(b"GET ", "HTTP"), (b"POST", "HTTP"), (b"\x16\x03\x01\x02", "TLS")],
)
def test_a_client_with_another_protocol_is_recognized(
    server: Server, start: bytes, spoken: str
) -> None:
    server.send(start + bytes(20))
    assert server.session.violation is not None
    assert server.session.violation.endswith(f"seems to speak {spoken}")


def test_a_frame_of_the_maximum_length_is_served(server: Server) -> None:
    server.send(frame(bytes(MAX_REQUEST)))
    assert server.answers() == [bytes(MAX_REQUEST)]
    assert server.session.violation is None


def test_after_a_violation_nothing_is_served(server: Server) -> None:
    server.send(frame(b"bad") + frame(b"two"))
    server.send(frame(b"three"))
    assert server.served == [b"bad"]
    assert server.session.violation == "bad frame"


def test_paused_session_buffers_frames_and_stops_reading_at_the_limit(server: Server) -> None:
    server.session.is_paused = True
    server.send(frame(b"x" * (MAX_BUFFERED - 4)))
    assert not server.session.should_pause_reading
    server.send(frame(b"y"))
    assert server.session.should_pause_reading
    assert server.served == []
    server.session.is_paused = False
    server.session.serve()
    assert not server.session.should_pause_reading
    assert server.answers() == [b"x" * (MAX_BUFFERED - 4), b"y"]


def test_while_an_answer_is_pending_reading_pauses_at_the_limit(server: Server) -> None:
    server.send(frame(b"later"))
    server.send(frame(bytes(MAX_BUFFERED)))
    assert server.session.should_pause_reading


def test_the_time_is_checked_after_few_requests_and_then_regularly(server: Server) -> None:
    served_at_check: list[int] = []

    def is_turn_over() -> bool:
        served_at_check.append(len(server.served))
        return len(server.served) > 30

    settings = server.settings._replace(is_turn_over=is_turn_over)
    server.session = Session(settings, CONTEXT, OWNER)
    server.send(frame(b"x") * 3)
    assert served_at_check == []
    server.send(frame(b"x") * 100)
    assert served_at_check == [3 + 4, 3 + 4 + 16, 3 + 4 + 16 + 16]
    assert server.session.is_interrupted
    assert len(server.served) == served_at_check[-1]


def test_large_answers_interrupt_serving(server: Server) -> None:
    """The answers to a client that requests much and does not read are not all built at once."""
    server.send(frame(b"big") * 4)
    assert server.session.is_interrupted
    assert len(server.served) == 2
    server.session.take_answers()
    server.session.serve()
    server.session.take_answers()
    assert len(server.served) == 4
    server.session.serve()
    assert not server.session.is_interrupted


def test_closing_abandons_a_pending_answer(server: Server) -> None:
    server.send(frame(b"later") + frame(b"two"))
    waiting = server.pending[b"later"]
    server.session.close()
    assert waiting.is_abandoned
    waiting.resolve(b"too late")
    server.session.serve()
    assert server.wakes == 0
    assert server.answers() == []


def test_closing_twice_is_harmless(server: Server) -> None:
    server.session.close()
    server.session.close()
    assert server.answers() == []


def test_only_a_bug_in_an_answer_that_arrives_after_the_end_is_encoded(server: Server) -> None:
    """The gateway reports the bug when it encodes the answer."""
    encoded: list[object] = []

    def encode(answer: object, _: Pieces) -> int:
        encoded.append(answer)
        raise ProtocolViolation("the client is gone")

    for answer in (KafkaError(ErrorCode.NOT_COORDINATOR), "an answer", LookupError("a bug")):
        waiting = Waiting[object]()
        session = Session(server.settings, CONTEXT, OWNER)
        session.postpone(PendingAnswer(waiting, encode))
        session.close()
        waiting.resolve(answer)
    assert [str(each) for each in encoded] == ["a bug"]
