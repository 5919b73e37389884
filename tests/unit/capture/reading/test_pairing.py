"""Unit tests of pairing requests with responses."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import TYPE_CHECKING

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
from kafkalite.capture.reading import pairing
from kafkalite.capture.reading.captures import exchanges
from kafkalite.capture.reading.pairing import PENDING_ROW_BYTES
from kafkalite.protocol import codec
from tests.captures import traffic

if TYPE_CHECKING:
    import pytest

HERE = Connection(
    number=0, client=Endpoint("10.0.0.1", 5), broker=Endpoint("10.0.0.2", 9092), opened_ns=1
)


class Script:
    """Events of one connection, one nanosecond apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.connection = HERE

    def request(self, frame: bytes, seq: int | None = None) -> None:
        self._add(Direction.REQUEST, frame, seq)

    def response(self, frame: bytes, acknowledged: int | None = None) -> None:
        self._add(Direction.RESPONSE, frame, acknowledged)

    def _add(self, direction: Direction, frame: bytes, request_seq: int | None) -> None:
        at_ns = len(self.events)
        self.events.append(
            Frame(at_ns, self.connection, direction, frame, "f", 10 * at_ns, request_seq)
        )

    def commit_request(self, correlation_id: int, seq: int | None = None) -> None:
        message = traffic.commit_request("g", 1)
        self.request(traffic.request_frame(8, 8, correlation_id, message), seq)

    def commit_response(self, correlation_id: int, acknowledged: int | None = None) -> None:
        message = traffic.commit_response()
        self.response(traffic.response_frame(8, 8, correlation_id, message), acknowledged)

    def pair(self) -> tuple[list[Exchange], list[Problem]]:
        found: list[Problem] = []
        return list(exchanges(self.events, found.append)), found


def pending_size(request: Frame) -> int:
    return len(request.body) + PENDING_ROW_BYTES


def summarize(found: list[Exchange]) -> list[tuple[int, int, bool]]:
    return [(each.position, each.correlation_id, each.response is not None) for each in found]


def test_exchange_has_times_and_body_offsets() -> None:
    script = Script()
    script.commit_request(7)
    script.commit_response(7)
    (found,), problems = script.pair()
    assert problems == []
    assert (found.sent_ns, found.answered_ns) == (0, 1)
    assert (found.api_key, found.api_version, found.client_id) == (8, 8, "tester")
    assert found.request[found.request_start :].startswith(b"\x02g")
    assert found.response is not None
    assert found.response_start == 5


def test_pipelined_requests_are_paired_in_order() -> None:
    script = Script()
    for number in (1, 2, 3):
        script.commit_request(number)
    for number in (1, 2, 3):
        script.commit_response(number)
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, True), (1, 2, True), (2, 3, True)]
    assert problems == []


def test_requests_before_an_answered_one_are_unanswered() -> None:
    script = Script()
    for number in (1, 2, 3):
        script.commit_request(number)
    script.events.append(Gap(3, HERE, Direction.RESPONSE, 60))
    script.commit_response(3)
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, False), (1, 2, False), (2, 3, True)]
    assert problems == []


def test_response_without_request_is_reported() -> None:
    script = Script()
    script.commit_response(9)
    script.commit_request(1)
    script.commit_response(9)
    script.commit_response(1)
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, True)]
    assert [(each.kind, each.offset) for each in problems] == [
        (ProblemKind.NO_REQUEST, 0),
        (ProblemKind.NO_REQUEST, 20),
    ]


def test_response_before_its_request_is_paired_and_not_earlier() -> None:
    script = Script()
    script.commit_response(7, acknowledged=100)
    script.commit_request(7, seq=0)
    (found,), problems = script.pair()
    assert (found.sent_ns, found.answered_ns) == (1, 1)
    assert problems == []


def test_response_that_acknowledges_nothing_of_a_request_is_not_paired_with_it() -> None:
    """A client that uses a correlation id again; the first request is not in the capture."""
    script = Script()
    script.commit_response(7, acknowledged=100)
    script.commit_response(7, acknowledged=200)
    script.commit_request(7, seq=100)
    script.commit_request(7, seq=200)
    found, problems = script.pair()
    assert summarize(found) == [(0, 7, True), (1, 7, False)]
    assert found[0].response_start == 5
    assert [(each.kind, each.offset) for each in problems] == [(ProblemKind.NO_REQUEST, 0)]


def test_requests_and_responses_before_an_early_pair_have_no_counterpart() -> None:
    script = Script()
    script.commit_request(1, seq=0)
    for number in (8, 9, 3):
        script.commit_response(number, acknowledged=300)
    script.commit_request(3, seq=200)
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, False), (1, 3, True)]
    assert [each.offset for each in problems] == [10, 20]


def test_waiting_responses_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("MAX_WAITING_RESPONSES", 2), ("MAX_WAITING_RESPONSE_BYTES", 100)):
        monkeypatch.setattr(pairing, name, limit)
        script = Script()
        for number in range(4):
            script.commit_response(number, acknowledged=100)
        script.commit_request(1, seq=0)
        found, problems = script.pair()
        assert summarize(found) == [(0, 1, False)]
        assert len(problems) == 4
        monkeypatch.undo()


def test_a_connection_without_responses_ends_no_request_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script()
    for number in range(3):
        script.commit_request(number)
    first = script.events[0]
    assert isinstance(first, Frame)
    monkeypatch.setattr(pairing, "MAX_PENDING_REQUEST_BYTES", 2 * pending_size(first))
    other = Script()
    other.connection = replace(HERE, number=1)
    for number in range(10, 14):
        other.commit_request(number)
        other.commit_response(number)
    script.events += other.events
    found, problems = script.pair()
    answered = [each.correlation_id for each in found if each.response is not None]
    assert answered == [10, 11, 12, 13]
    assert {each.kind for each in problems} == {ProblemKind.TOO_MANY_OPEN}


def test_bytes_of_open_requests_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    for number in range(4):
        script.commit_request(number)
    script.commit_response(3)
    first = script.events[0]
    assert isinstance(first, Frame)
    monkeypatch.setattr(pairing, "MAX_PENDING_REQUEST_BYTES", 2 * pending_size(first))
    found, problems = script.pair()
    assert summarize(found) == [(0, 0, False), (1, 1, False), (2, 2, False), (3, 3, True)]
    assert [(each.kind, each.detail) for each in problems] == [
        (ProblemKind.TOO_MANY_OPEN, "correlation id 0")
    ]


def test_produce_with_acks_0_expects_no_response() -> None:
    script = Script()
    script.request(traffic.request_frame(0, 9, 1, traffic.produce_request(0, b"r")))
    script.commit_request(2)
    script.commit_response(2)
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, False), (1, 2, True)]
    assert problems == []


def test_open_requests_at_the_end_are_unanswered() -> None:
    closed, remaining = Script(), Script()
    for script in (closed, remaining):
        script.commit_request(1)
    closed.events.append(Closed(5, HERE))
    assert summarize(closed.pair()[0]) == summarize(remaining.pair()[0]) == [(0, 1, False)]


def test_bare_tokens_after_old_handshake_are_no_requests() -> None:
    script = Script()
    handshake = codec.request_class(17)(mechanism="PLAIN")
    accepted = codec.response_class(17)(mechanisms=["PLAIN"])
    script.request(traffic.request_frame(17, 0, 1, handshake))
    script.response(traffic.response_frame(17, 0, 1, accepted))
    for token in (b"n,,n=user,r=abc", b"c=biws,r=abcdef,p=xyz"):
        script.request(token)
        script.response(b"")
    script.commit_request(2)
    script.commit_response(2)
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, True), (1, 2, True)]
    assert problems == []


def test_answers_to_bare_tokens_can_be_captured_before_the_tokens() -> None:
    script = Script()
    handshake = codec.request_class(17)(mechanism="PLAIN")
    accepted = codec.response_class(17)(mechanisms=["PLAIN"])
    script.response(traffic.response_frame(17, 0, 1, accepted), 10)
    script.request(traffic.request_frame(17, 0, 1, handshake), 0)
    for seq, token in ((100, b"n,,n=user,r=abc"), (200, b"c=biws,r=abcdef,p=xyz")):
        script.response(b"", seq + 10)
        script.request(token, seq)
    script.commit_response(2, 310)
    script.commit_request(2, 300)
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, True), (1, 2, True)]
    assert problems == []


def test_requests_follow_a_refused_handshake() -> None:
    script = Script()
    handshake = codec.request_class(17)(mechanism="NONE")
    refused = codec.response_class(17)(error_code=33)
    script.request(traffic.request_frame(17, 0, 1, handshake))
    script.response(traffic.response_frame(17, 0, 1, refused))
    script.request(b"n,,n=user")
    _, problems = script.pair()
    assert [each.kind for each in problems] == [ProblemKind.MALFORMED]


def test_unsupported_api_versions_response_has_a_body_of_version_0() -> None:
    script = Script()
    script.request(traffic.request_frame(18, 3, 1, codec.request_class(18)()))
    script.response(traffic.response_frame(18, 0, 1, codec.response_class(18)(error_code=35)))
    (found,), problems = script.pair()
    assert problems == []
    assert (found.api_version, found.response_start) == (3, 4)


def test_unknown_apis_and_versions_are_reported_and_paired() -> None:
    script = Script()
    script.request(struct.pack(">hhih", 900, 0, 1, -1) + b"\0body")
    script.response(struct.pack(">i", 1) + b"\0answer")
    script.request(struct.pack(">hhih", 8, 60, 2, -1) + b"\0body")
    script.response(struct.pack(">i", 2) + b"\0answer")
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, True), (1, 2, True)]
    assert [(each.request_start, each.response_start) for each in found] == [(11, 5), (11, 5)]
    assert [(each.kind, each.detail) for each in problems] == [
        (ProblemKind.UNKNOWN_VERSION, "API 900 v0"),
        (ProblemKind.UNKNOWN_VERSION, "OffsetCommit v60 (known versions: 0-10)"),
    ]


def test_frames_without_valid_header_are_reported() -> None:
    script = Script()
    script.request(b"\0\1")
    script.response(b"\0\1")
    script.commit_request(1)
    script.response(struct.pack(">i", 1))  # a flexible header lacks its tagged fields
    found, problems = script.pair()
    assert summarize(found) == [(0, 1, True)]
    assert [each.kind for each in problems] == [ProblemKind.MALFORMED] * 3


def test_oldest_open_requests_are_unanswered_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairing, "MAX_PENDING_REQUESTS", 3)
    script = Script()
    for number in range(5):
        script.commit_request(number)
    script.commit_response(4)
    found, problems = script.pair()
    assert summarize(found) == [
        (0, 0, False),
        (1, 1, False),
        (2, 2, False),
        (3, 3, False),
        (4, 4, True),
    ]
    assert [(each.kind, each.detail) for each in problems] == [
        (ProblemKind.TOO_MANY_OPEN, "correlation id 0"),
        (ProblemKind.TOO_MANY_OPEN, "correlation id 1"),
    ]
    del script.events[-1]
    pairs = exchanges(script.events[:4])
    assert next(pairs).position == 0
