"""Requests and their responses: in order, some unanswered, some not even requests."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalite.capture import pairing
from kafkalite.capture.model import (
    Closed,
    Connection,
    Direction,
    Endpoint,
    Event,
    Exchange,
    Frame,
    Gap,
    Problem,
    ProblemKind,
)
from kafkalite.capture.reading import exchanges
from kafkalite.protocol import codec
from tests.captures import traffic

if TYPE_CHECKING:
    import pytest

HERE = Connection(
    number=0, client=Endpoint("10.0.0.1", 5), broker=Endpoint("10.0.0.2", 9092), opened_ns=1
)


class Script:
    """Events of one connection, a nanosecond apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def ask(self, frame: bytes) -> None:
        self._say(Direction.REQUEST, frame)

    def answer(self, frame: bytes) -> None:
        self._say(Direction.RESPONSE, frame)

    def _say(self, direction: Direction, frame: bytes) -> None:
        at_ns = len(self.events)
        self.events.append(Frame(at_ns, HERE, direction, frame, "f", 10 * at_ns))

    def commit(self, correlation_id: int) -> None:
        self.ask(traffic.request_frame(8, 8, correlation_id, traffic.commit_request("g", 1)))

    def committed(self, correlation_id: int) -> None:
        self.answer(traffic.response_frame(8, 8, correlation_id, traffic.commit_response()))

    def paired(self) -> tuple[list[Exchange], list[Problem]]:
        found: list[Problem] = []
        return list(exchanges(self.events, found.append)), found


def told(found: list[Exchange]) -> list[tuple[int, int, bool]]:
    return [(each.position, each.correlation_id, each.response is not None) for each in found]


def test_a_request_gets_its_response_with_times_and_places() -> None:
    script = Script()
    script.commit(7)
    script.committed(7)
    (found,), problems = script.paired()
    assert problems == []
    assert (found.sent_ns, found.answered_ns) == (0, 1)
    assert (found.api_key, found.api_version, found.client_id) == (8, 8, "tester")
    assert found.request[found.request_start :].startswith(b"\x02g")
    assert found.response is not None
    assert found.response_start == 5


def test_pipelined_requests_are_answered_in_order() -> None:
    script = Script()
    for number in (1, 2, 3):
        script.commit(number)
    for number in (1, 2, 3):
        script.committed(number)
    found, problems = script.paired()
    assert told(found) == [(0, 1, True), (1, 2, True), (2, 3, True)]
    assert problems == []


def test_what_was_asked_before_an_answered_request_gets_no_answer_any_more() -> None:
    script = Script()
    for number in (1, 2, 3):
        script.commit(number)
    script.events.append(Gap(3, HERE, Direction.RESPONSE, 60))
    script.committed(3)
    found, problems = script.paired()
    assert told(found) == [(0, 1, False), (1, 2, False), (2, 3, True)]
    assert problems == []


def test_a_response_without_a_request_is_told() -> None:
    script = Script()
    script.committed(9)
    script.commit(1)
    script.committed(9)
    script.committed(1)
    found, problems = script.paired()
    assert told(found) == [(0, 1, True)]
    assert [(each.kind, each.offset) for each in problems] == [
        (ProblemKind.NO_REQUEST, 0),
        (ProblemKind.NO_REQUEST, 20),
    ]


def test_produce_with_acks_0_is_over_at_once() -> None:
    script = Script()
    script.ask(traffic.request_frame(0, 9, 1, traffic.produce_request(0, b"r")))
    script.commit(2)
    script.committed(2)
    found, problems = script.paired()
    assert told(found) == [(0, 1, False), (1, 2, True)]
    assert problems == []


def test_what_is_open_at_the_end_is_told_unanswered() -> None:
    closed, left = Script(), Script()
    for script in (closed, left):
        script.commit(1)
    closed.events.append(Closed(5, HERE))
    assert told(closed.paired()[0]) == told(left.paired()[0]) == [(0, 1, False)]


def test_bare_tokens_behind_an_old_handshake_are_no_requests() -> None:
    script = Script()
    handshake = codec.request_class(17)(mechanism="PLAIN")
    accepted = codec.response_class(17)(mechanisms=["PLAIN"])
    script.ask(traffic.request_frame(17, 0, 1, handshake))
    script.answer(traffic.response_frame(17, 0, 1, accepted))
    for token in (b"n,,n=user,r=abc", b"c=biws,r=abcdef,p=xyz"):
        script.ask(token)
        script.answer(b"")
    script.commit(2)
    script.committed(2)
    found, problems = script.paired()
    assert told(found) == [(0, 1, True), (1, 2, True)]
    assert problems == []


def test_behind_a_refused_handshake_come_requests() -> None:
    script = Script()
    handshake = codec.request_class(17)(mechanism="NONE")
    refused = codec.response_class(17)(error_code=33)
    script.ask(traffic.request_frame(17, 0, 1, handshake))
    script.answer(traffic.response_frame(17, 0, 1, refused))
    script.ask(b"n,,n=user")
    _, problems = script.paired()
    assert [each.kind for each in problems] == [ProblemKind.MALFORMED]


def test_a_refused_version_of_api_versions_has_a_body_of_version_0() -> None:
    script = Script()
    script.ask(traffic.request_frame(18, 3, 1, codec.request_class(18)()))
    script.answer(traffic.response_frame(18, 0, 1, codec.response_class(18)(error_code=35)))
    (found,), problems = script.paired()
    assert problems == []
    assert (found.api_version, found.response_start) == (3, 4)


def test_apis_and_versions_of_the_future_are_told_and_paired_all_the_same() -> None:
    script = Script()
    script.ask(struct.pack(">hhih", 900, 0, 1, -1) + b"\0body")
    script.answer(struct.pack(">i", 1) + b"\0answer")
    script.ask(struct.pack(">hhih", 8, 60, 2, -1) + b"\0body")
    script.answer(struct.pack(">i", 2) + b"\0answer")
    found, problems = script.paired()
    assert told(found) == [(0, 1, True), (1, 2, True)]
    assert [(each.request_start, each.response_start) for each in found] == [(11, 5), (11, 5)]
    assert [(each.kind, each.detail) for each in problems] == [
        (ProblemKind.UNKNOWN_VERSION, "API 900 v0"),
        (ProblemKind.UNKNOWN_VERSION, "OffsetCommit v60, of which 1-10 are known"),
    ]


def test_frames_that_hold_no_message_are_told() -> None:
    script = Script()
    script.ask(b"\0\1")
    script.answer(b"\0\1")
    script.commit(1)
    script.answer(struct.pack(">i", 1))  # a flexible header lacks its tagged fields
    found, problems = script.paired()
    assert told(found) == [(0, 1, True)]
    assert [each.kind for each in problems] == [ProblemKind.MALFORMED] * 3


def test_many_unanswered_requests_are_given_up_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairing, "MAX_OPEN", 3)
    script = Script()
    for number in range(5):
        script.commit(number)
    script.committed(4)
    found, problems = script.paired()
    assert told(found) == [(0, 0, False), (1, 1, False), (2, 2, False), (3, 3, False), (4, 4, True)]
    assert problems == []
    del script.events[-1]
    pairs = exchanges(script.events[:4])
    assert next(pairs).position == 0
