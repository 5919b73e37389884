"""Who the broker is, and whether it is Kafka."""

from __future__ import annotations

import pytest

from kafkalite.capture.dialogue import UNDECIDED_BYTES, Dialogue, Setting
from kafkalite.capture.model import (
    Closed,
    Direction,
    Endpoint,
    Frame,
    Gap,
    Opened,
    Problem,
    ProblemKind,
)
from kafkalite.capture.notes import InterfaceNote
from kafkalite.capture.reassembly import Hole, Piece
from tests.captures import traffic
from tests.unit.frames import framed

ENDS = (Endpoint("10.0.0.1", 40_000), Endpoint("10.0.0.2", 9092))
REQUEST = framed(traffic.request_frame(8, 8, 5, traffic.commit_request("g", 1)))
RESPONSE = framed(traffic.response_frame(8, 8, 5, traffic.commit_response()))
TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)


class Overheard:
    """A dialogue, and the problems with it."""

    def __init__(self, ports: frozenset[int] = frozenset()) -> None:
        self.problems: list[Problem] = []
        self.setting = Setting(report=self.problems.append, ports=ports)
        self.dialogue = Dialogue(ENDS, InterfaceNote(node=3, listener="SSL"), self.setting)
        self._at_ns = 0

    def say(self, side: int, data: bytes) -> None:
        self._at_ns += 1
        self.dialogue.run(side, (Piece(data, self._at_ns, "f", self._at_ns),))

    def miss(self, side: int, size: int) -> None:
        self._at_ns += 1
        self.dialogue.run(side, (Hole(size, self._at_ns),))

    @property
    def kinds(self) -> list[ProblemKind]:
        return [each.kind for each in self.problems]

    @property
    def frames(self) -> list[tuple[Direction, bytes]]:
        return [
            (each.direction, each.body) for each in self.dialogue.events if isinstance(each, Frame)
        ]


BOTH = [(Direction.REQUEST, REQUEST[4:]), (Direction.RESPONSE, RESPONSE[4:])]


def test_who_opens_is_the_client() -> None:
    heard = Overheard()
    heard.dialogue.open(0, 100)
    heard.say(0, REQUEST)
    heard.say(1, RESPONSE)
    opened = heard.dialogue.events[0]
    assert isinstance(opened, Opened)
    connection = opened.connection
    assert (connection.client, connection.broker, connection.opened_ns) == (*ENDS, 100)
    assert (connection.number, connection.node_id, connection.listener) == (0, 3, "SSL")
    assert heard.frames == BOTH
    assert heard.problems == []


@pytest.mark.parametrize("client", [0, 1])
def test_without_an_opening_it_is_who_sends_requests(client: int) -> None:
    heard = Overheard()
    heard.say(1 - client, RESPONSE)  # its request was before the capture
    heard.say(client, REQUEST)
    heard.say(1 - client, RESPONSE)
    opened = heard.dialogue.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.client == ENDS[client]
    assert opened.connection.opened_ns is None
    assert heard.frames == BOTH
    assert heard.kinds == [ProblemKind.MID_CONNECTION]


def test_a_broker_that_was_one_before_is_one_again() -> None:
    heard = Overheard()
    heard.say(0, REQUEST)
    again = Dialogue((ENDS[1], Endpoint("10.0.0.9", 50_000)), InterfaceNote(), heard.setting)
    again.run(0, (Piece(RESPONSE, 9, "f", 9),))
    assert again.undecided_since_ns is None
    again.run(1, (Piece(REQUEST, 10, "f", 10),))
    opened = again.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.broker == ENDS[1]
    assert opened.connection.number == 1


def test_a_port_may_be_known_for_brokers() -> None:
    heard = Overheard(ports=frozenset((40_000,)))
    heard.say(0, b"\1")
    assert heard.dialogue.undecided_since_ns is None
    heard.dialogue.run(1, (Piece(REQUEST, 10, "f", 10),))
    opened = heard.dialogue.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.broker == ENDS[0]


def test_where_nothing_else_tells_the_lower_port_is_the_brokers() -> None:
    heard = Overheard()
    heard.say(0, REQUEST[:20])
    assert heard.dialogue.undecided_since_ns == 1
    heard.dialogue.settle()
    assert heard.dialogue.undecided_since_ns is None
    heard.say(0, REQUEST[20:])
    opened = heard.dialogue.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.broker == ENDS[1]


@pytest.mark.parametrize(
    ("data", "kind"), [(b"GET / HTTP/1.1\r\n", ProblemKind.NOT_KAFKA), (TLS, ProblemKind.ENCRYPTED)]
)
def test_what_is_not_kafka_is_told_once_and_no_event(data: bytes, kind: ProblemKind) -> None:
    heard = Overheard()
    heard.dialogue.open(0, 100)
    heard.say(0, data)
    heard.say(1, data)
    heard.dialogue.finish(9, is_closed=True)
    assert heard.dialogue.is_refused
    assert heard.kinds == [kind]
    assert heard.dialogue.events == []


@pytest.mark.parametrize(
    ("data", "kind"), [(b"GET / HTTP/1.1\r\n", ProblemKind.NOT_KAFKA), (TLS, ProblemKind.ENCRYPTED)]
)
def test_so_it_is_where_a_capture_starts_within(data: bytes, kind: ProblemKind) -> None:
    heard = Overheard()
    heard.say(0, data)
    heard.say(1, data)
    heard.dialogue.finish(9, is_closed=False)
    assert heard.kinds == [kind]
    assert heard.dialogue.events == []


def test_a_server_that_speaks_without_end_before_its_client_is_not_kafka() -> None:
    heard = Overheard()
    heard.dialogue.open(0, 100)
    heard.say(1, bytes(UNDECIDED_BYTES + 1))
    assert heard.kinds == [ProblemKind.NOT_KAFKA]


def test_undecided_bytes_are_kept_up_to_a_limit() -> None:
    heard = Overheard()
    heard.say(0, bytes(UNDECIDED_BYTES + 1))
    assert heard.dialogue.undecided_since_ns is None


def test_a_connection_that_says_nothing_is_none() -> None:
    heard = Overheard()
    heard.dialogue.open(0, 100)
    heard.dialogue.finish(9, is_closed=True)
    assert heard.dialogue.events == []
    assert heard.problems == []


def test_gaps_are_told_where_they_are_and_those_before_the_first_frame_with_it() -> None:
    heard = Overheard()
    heard.dialogue.open(0, 100)
    heard.miss(0, 30)
    heard.say(0, REQUEST)
    heard.say(1, RESPONSE)
    heard.miss(1, 7)
    heard.dialogue.finish(9, is_closed=True)
    gaps = [
        (each.direction, each.missing_bytes)
        for each in heard.dialogue.events
        if isinstance(each, Gap)
    ]
    assert gaps == [(Direction.REQUEST, 30), (Direction.RESPONSE, 7)]
    assert heard.frames == BOTH
    assert isinstance(heard.dialogue.events[-1], Closed)
    assert heard.kinds == [ProblemKind.GAP, ProblemKind.GAP]


def test_a_length_that_cannot_be_is_malformed() -> None:
    heard = Overheard()
    heard.dialogue.open(0, 100)
    heard.say(0, REQUEST + b"\xff\xff\xff\xff" + REQUEST)
    assert [direction for direction, _ in heard.frames] == [Direction.REQUEST] * 2
    assert heard.kinds == [ProblemKind.MALFORMED]


def test_a_connection_that_goes_on_from_another_file_is_in_step() -> None:
    heard = Overheard()
    heard.dialogue.resume(1, 55)
    heard.dialogue.skip(0, 3)
    heard.say(0, b"end" + RESPONSE)
    heard.dialogue.skip(1, 2)
    heard.say(1, b"\0\0" + REQUEST)
    opened = heard.dialogue.events[0]
    assert isinstance(opened, Opened)
    assert (opened.connection.client, opened.connection.opened_ns) == (ENDS[1], 55)
    assert heard.frames == [BOTH[1], BOTH[0]]
    assert heard.problems == []


def test_what_is_in_order_can_be_carried_on_elsewhere() -> None:
    heard = Overheard()
    assert heard.dialogue.rests() is None
    heard.dialogue.open(1, 100)
    heard.say(1, REQUEST + REQUEST[:6])
    heard.say(0, RESPONSE)
    rests = heard.dialogue.rests()
    assert rests is not None
    assert rests == (1, ((b"", None), (REQUEST[:6], 1)))
    heard.miss(0, 5)
    assert heard.dialogue.rests() == (1, (None, (REQUEST[:6], 1)))
