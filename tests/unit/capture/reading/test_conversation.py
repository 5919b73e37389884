"""Unit tests of deciding which side is the broker, and whether it is Kafka."""

from __future__ import annotations

import pytest

from kafkalite.capture.formats.comments import InterfaceNote
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
from kafkalite.capture.reading.conversation import MAX_UNDECIDED_BYTES, CaptureContext, Conversation
from kafkalite.capture.reading.reassembly import MissingBytes, Piece
from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.list_offsets import ListOffsetsRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.captures import traffic
from tests.conformance.message_sets import Message
from tests.unit.frames import framed

ENDPOINTS = (Endpoint("10.0.0.1", 40_000), Endpoint("10.0.0.2", 9092))
REQUEST = framed(traffic.request_frame(8, 8, 5, traffic.commit_request("g", 1)))
RESPONSE = framed(traffic.response_frame(8, 8, 5, traffic.commit_response()))
TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40)


def request_of(api_key: int, version: int, message: object) -> bytes:
    return framed(traffic.request_frame(api_key, version, 5, message))


def old_produce_request() -> ProduceRequest:
    data = ProduceRequest.PartitionProduceData(records=Message().encode())
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=1, topic_data=[topic])


class ConversationUnderTest:
    """A conversation and its problems."""

    def __init__(self, ports: frozenset[int] = frozenset()) -> None:
        self.problems: list[Problem] = []
        self.context = CaptureContext(report=self.problems.append, ports=ports)
        self.conversation = Conversation(
            ENDPOINTS, InterfaceNote(node=3, listener="SSL"), self.context
        )
        self._at_ns = 0

    def send(self, side: int, data: bytes) -> None:
        self._at_ns += 1
        self.conversation.process(side, (Piece(data, self._at_ns, "f", self._at_ns),))

    def skip(self, side: int, size: int) -> None:
        self._at_ns += 1
        self.conversation.process(side, (MissingBytes(size, self._at_ns),))

    @property
    def kinds(self) -> list[ProblemKind]:
        return [each.kind for each in self.problems]

    @property
    def frames(self) -> list[tuple[Direction, bytes]]:
        return [
            (each.direction, each.body)
            for each in self.conversation.events
            if isinstance(each, Frame)
        ]


BOTH = [(Direction.REQUEST, REQUEST[4:]), (Direction.RESPONSE, RESPONSE[4:])]


def test_side_that_opens_is_the_client() -> None:
    observed = ConversationUnderTest()
    observed.conversation.open(0, 100)
    observed.send(0, REQUEST)
    observed.send(1, RESPONSE)
    opened = observed.conversation.events[0]
    assert isinstance(opened, Opened)
    connection = opened.connection
    assert (connection.client, connection.broker, connection.opened_ns) == (*ENDPOINTS, 100)
    assert (connection.number, connection.node_id, connection.listener) == (0, 3, "SSL")
    assert observed.frames == BOTH
    assert observed.problems == []


@pytest.mark.parametrize("client", [0, 1])
def test_without_opening_the_side_that_sends_requests_is_the_client(client: int) -> None:
    observed = ConversationUnderTest()
    observed.send(1 - client, RESPONSE)  # its request was before the capture
    observed.send(client, REQUEST)
    observed.send(1 - client, RESPONSE)
    opened = observed.conversation.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.client == ENDPOINTS[client]
    assert opened.connection.opened_ns is None
    assert observed.frames == BOTH
    assert observed.kinds == [ProblemKind.MID_CONNECTION]


def test_known_broker_endpoint_is_a_broker_in_other_connections() -> None:
    observed = ConversationUnderTest()
    observed.send(0, REQUEST)
    again = Conversation(
        (ENDPOINTS[1], Endpoint("10.0.0.9", 50_000)), InterfaceNote(), observed.context
    )
    again.process(0, (Piece(RESPONSE, 9, "f", 9),))
    assert again.undecided_since_ns is None
    again.process(1, (Piece(REQUEST, 10, "f", 10),))
    opened = again.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.broker == ENDPOINTS[1]
    assert opened.connection.number == 1


def test_configured_port_is_the_brokers() -> None:
    observed = ConversationUnderTest(ports=frozenset((40_000,)))
    observed.send(0, b"\1")
    assert observed.conversation.undecided_since_ns is None
    observed.conversation.process(1, (Piece(REQUEST, 10, "f", 10),))
    opened = observed.conversation.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.broker == ENDPOINTS[0]


def test_lower_port_is_the_brokers_if_nothing_else_is_known() -> None:
    observed = ConversationUnderTest()
    observed.send(0, REQUEST[:20])
    assert observed.conversation.undecided_since_ns == 1
    observed.conversation.decide_client_side()
    assert observed.conversation.undecided_since_ns is None
    observed.send(0, REQUEST[20:])
    opened = observed.conversation.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.broker == ENDPOINTS[1]


@pytest.mark.parametrize(
    ("data", "kind"), [(b"GET / HTTP/1.1\r\n", ProblemKind.NOT_KAFKA), (TLS, ProblemKind.ENCRYPTED)]
)
def test_other_protocol_is_reported_once_without_events(data: bytes, kind: ProblemKind) -> None:
    observed = ConversationUnderTest()
    observed.conversation.open(0, 100)
    observed.send(0, data)
    observed.send(1, data)
    observed.conversation.finish(9, is_closed=True)
    assert observed.conversation.is_rejected
    assert observed.kinds == [kind]
    assert observed.conversation.events == []


@pytest.mark.parametrize(
    ("data", "kind"), [(b"GET / HTTP/1.1\r\n", ProblemKind.NOT_KAFKA), (TLS, ProblemKind.ENCRYPTED)]
)
def test_other_protocol_is_reported_without_opening(data: bytes, kind: ProblemKind) -> None:
    observed = ConversationUnderTest()
    observed.send(0, data)
    observed.send(1, data)
    observed.conversation.finish(9, is_closed=False)
    assert observed.kinds == [kind]
    assert observed.conversation.events == []


def test_a_given_port_is_kafka_regardless_of_the_first_bytes() -> None:
    observed = ConversationUnderTest(ports=frozenset((9092,)))
    observed.conversation.open(0, 100)
    observed.send(0, b"GET / HTTP/1.1\r\n" + REQUEST)
    observed.send(1, RESPONSE)
    assert observed.frames == BOTH
    assert observed.problems == []
    encrypted = ConversationUnderTest(ports=frozenset((9092,)))
    encrypted.conversation.open(0, 100)
    encrypted.send(0, TLS)
    assert encrypted.kinds == [ProblemKind.ENCRYPTED]


OLD_REQUESTS = [
    *(request_of(0, version, old_produce_request()) for version in range(3)),
    *(request_of(1, version, FetchRequest()) for version in range(4)),
    request_of(2, 0, ListOffsetsRequest()),
    framed(traffic.request_frame(18, 0, 5, ApiVersionsRequest()) + bytes(4)),
]


@pytest.mark.parametrize("request_bytes", OLD_REQUESTS)
def test_old_versions_are_recognised_within_a_connection(request_bytes: bytes) -> None:
    observed = ConversationUnderTest()
    observed.send(0, b"the end of a request" + request_bytes)
    assert observed.frames == [(Direction.REQUEST, request_bytes[4:])]


def test_long_data_from_the_server_without_request_is_not_kafka() -> None:
    observed = ConversationUnderTest()
    observed.conversation.open(0, 100)
    observed.send(1, bytes(MAX_UNDECIDED_BYTES + 1))
    assert observed.kinds == [ProblemKind.NOT_KAFKA]


def test_undecided_bytes_are_limited() -> None:
    observed = ConversationUnderTest()
    observed.send(0, bytes(MAX_UNDECIDED_BYTES + 1))
    assert observed.conversation.undecided_since_ns is None


def test_connection_without_data_has_no_events() -> None:
    observed = ConversationUnderTest()
    observed.conversation.open(0, 100)
    observed.conversation.finish(9, is_closed=True)
    assert observed.conversation.events == []
    assert observed.problems == []


def test_gaps_before_the_first_frame_are_reported_with_it() -> None:
    observed = ConversationUnderTest()
    observed.conversation.open(0, 100)
    observed.skip(0, 30)
    observed.send(0, REQUEST)
    observed.send(1, RESPONSE)
    observed.skip(1, 7)
    observed.conversation.finish(9, is_closed=True)
    gaps = [
        (each.direction, each.missing_bytes)
        for each in observed.conversation.events
        if isinstance(each, Gap)
    ]
    assert gaps == [(Direction.REQUEST, 30), (Direction.RESPONSE, 7)]
    assert observed.frames == BOTH
    assert isinstance(observed.conversation.events[-1], Closed)
    assert observed.kinds == [ProblemKind.GAP, ProblemKind.GAP]


def test_invalid_frame_length_is_malformed() -> None:
    observed = ConversationUnderTest()
    observed.conversation.open(0, 100)
    observed.send(0, REQUEST + b"\xff\xff\xff\xff" + REQUEST)
    assert [direction for direction, _ in observed.frames] == [Direction.REQUEST] * 2
    assert observed.kinds == [ProblemKind.MALFORMED]


def test_connection_continued_from_another_file_has_known_boundaries() -> None:
    observed = ConversationUnderTest()
    observed.conversation.resume(1, 55)
    observed.conversation.skip(0, 3)
    observed.send(0, b"end" + RESPONSE)
    observed.conversation.skip(1, 2)
    observed.send(1, b"\0\0" + REQUEST)
    opened = observed.conversation.events[0]
    assert isinstance(opened, Opened)
    assert (opened.connection.client, opened.connection.opened_ns) == (ENDPOINTS[1], 55)
    assert observed.frames == [BOTH[1], BOTH[0]]
    assert observed.problems == []


def test_partial_frames_are_returned_for_known_boundaries() -> None:
    observed = ConversationUnderTest()
    assert observed.conversation.partial_frames() is None
    observed.conversation.open(1, 100)
    observed.send(1, REQUEST + REQUEST[:6])
    observed.send(0, RESPONSE)
    partial_frames = observed.conversation.partial_frames()
    assert partial_frames is not None
    assert partial_frames == (1, ((b"", None), (REQUEST[:6], 1)))
    observed.skip(0, 5)
    assert observed.conversation.partial_frames() == (1, (None, (REQUEST[:6], 1)))
