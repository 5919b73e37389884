"""Unit tests of TCP connections: opening, close, continuation, reuse of ports."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.formats.capture_files import Interface, Packet
from kafkalite.capture.model import (
    Closed,
    Direction,
    Endpoint,
    Event,
    Frame,
    Gap,
    Opened,
    Problem,
)
from kafkalite.capture.reading import flows as module
from kafkalite.capture.reading.conversation import CaptureContext
from kafkalite.capture.reading.flows import Flow, Flows
from kafkalite.capture.reading.packets import Dissector
from tests.captures import damage, traffic
from tests.captures.damage import ACK, FIN, SYN, TcpConnection, TcpPacket
from tests.unit.frames import framed

if TYPE_CHECKING:
    from kafkalite.capture.reading.packets import Segment

CLIENT = Endpoint("10.0.0.1", 40_000)
MS = traffic.MS
REQUEST = framed(traffic.request_frame(8, 8, 5, traffic.commit_request("g", 1)))
RESPONSE = framed(traffic.response_frame(8, 8, 5, traffic.commit_response()))


def segment(packet: TcpPacket, comment: str | None = None) -> Segment:
    _, data = damage.NETWORKS["ip4"](packet)
    found = Dissector("f", lambda _: None).extract_segment(
        Packet(packet.at_ns, Interface(101), data, len(data), packet.at_ns, comment)
    )
    assert found is not None
    return found


class FlowTest:
    """Flows that process packets."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.flows = Flows(CaptureContext(report=self.problems.append))
        self.events: list[Event] = []
        self.now_ns = 0

    def put(self, *packets: TcpPacket) -> None:
        for packet in packets:
            self.now_ns = packet.at_ns
            self.events += self.flows.process(segment(packet))

    def skip_overdue_gaps(self, now_ns: int, *, is_forced: bool = False) -> None:
        self.events += self.flows.skip_overdue_gaps(now_ns, is_forced=is_forced)

    def finish(self) -> None:
        self.events += self.flows.finish(self.now_ns)

    @property
    def shape(self) -> str:
        """The events, one letter each: opened, request, response (a), gap, closed."""
        letters = {Opened: "o", Gap: "g", Closed: "c"}
        return "".join(
            ("q" if each.direction is Direction.REQUEST else "a")
            if isinstance(each, Frame)
            else letters[type(each)]
            for each in self.events
        )


def talk(at_ns: int = 0, initials: tuple[int, int] = (7, 70)) -> TcpConnection:
    made = TcpConnection(CLIENT, traffic.BROKER, at_ns, initials=initials)
    made.request(at_ns + MS, REQUEST)
    made.response(at_ns + 2 * MS, RESPONSE)
    return made


def test_connection_is_read_from_opening_to_close() -> None:
    flow_test, conversation = FlowTest(), talk()
    conversation.close(3 * MS)
    flow_test.put(*conversation.packets)
    assert flow_test.shape == "oqac"
    assert flow_test.problems == []
    flow_test.finish()
    assert flow_test.shape == "oqac"


def test_packets_after_a_reset_are_ignored() -> None:
    flow_test, conversation = FlowTest(), talk()
    conversation.reset(3 * MS)
    conversation.response(4 * MS, RESPONSE)
    flow_test.put(*conversation.packets)
    flow_test.finish()
    assert flow_test.shape == "oqac"
    assert flow_test.problems == []


def test_open_connection_at_the_end_is_not_closed() -> None:
    flow_test = FlowTest()
    flow_test.put(*talk().packets)
    flow_test.finish()
    assert flow_test.shape == "oqa"


@pytest.mark.parametrize("ending", ["close", "reset", ""])
def test_reused_ports_are_another_connection(ending: str) -> None:
    flow_test, first = FlowTest(), talk()
    if ending:
        getattr(first, ending)(3 * MS)
    second = talk(10 * MS, (9_000_007, 9_000_070))
    flow_test.put(*first.packets, *second.packets)
    assert flow_test.shape == "oqacoqa"
    numbers = {each.connection.number for each in flow_test.events}
    assert numbers == {0, 1}
    assert flow_test.problems == []


def test_repeated_syn_opens_no_connection() -> None:
    flow_test, conversation = FlowTest(), talk()
    first, second, *rest = conversation.packets
    flow_test.put(first, second, first, second, *rest, first)
    assert flow_test.shape == "oqa"


def test_syn_ack_alone_opens_the_connection() -> None:
    flow_test, conversation = FlowTest(), talk()
    flow_test.put(*conversation.packets[1:])
    assert flow_test.shape == "oqa"
    opened = flow_test.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.client == CLIENT
    assert opened.connection.opened_ns == conversation.packets[1].at_ns


def test_syn_ack_before_syn_opens_one_connection() -> None:
    flow_test, conversation = FlowTest(), talk()
    first, second, *rest = conversation.packets
    flow_test.put(second, first, *rest)
    assert flow_test.shape == "oqa"
    assert flow_test.problems == []


def test_gap_holds_back_events_until_it_is_skipped() -> None:
    flow_test, conversation = FlowTest(), talk()
    conversation.request(5 * MS, REQUEST)
    conversation.request(6 * MS, REQUEST)
    at = next(number for number, each in enumerate(conversation.packets) if each.at_ns == 5 * MS)
    packets = [each for number, each in enumerate(conversation.packets) if number != at]
    flow_test.put(*packets)
    assert flow_test.shape == "oqa"
    assert flow_test.flows.earliest_buffered_ns == 6 * MS
    flow_test.skip_overdue_gaps(100 * MS)
    assert flow_test.flows.earliest_buffered_ns == 6 * MS
    flow_test.skip_overdue_gaps(300 * MS)
    assert flow_test.shape == "oqagq"
    assert flow_test.flows.earliest_buffered_ns is None


def test_forced_sweep_skips_gaps_at_once() -> None:
    flow_test, conversation = FlowTest(), talk()
    at_ns = 5 * MS
    conversation.packets.append(
        TcpPacket(
            at_ns=at_ns, source=CLIENT, target=traffic.BROKER, seq=5_000, ack=0, flags=ACK,
            payload=REQUEST,
        )
    )  # fmt: skip
    flow_test.put(*conversation.packets)
    assert flow_test.flows.earliest_buffered_ns == at_ns
    flow_test.skip_overdue_gaps(at_ns, is_forced=True)
    assert flow_test.shape == "oqagq"
    assert flow_test.flows.earliest_buffered_ns is None


def test_segments_without_data_begin_no_connection() -> None:
    flow_test = FlowTest()
    flow_test.put(
        TcpPacket(at_ns=1, source=CLIENT, target=traffic.BROKER, seq=5, ack=5, flags=ACK),
        TcpPacket(at_ns=2, source=CLIENT, target=traffic.BROKER, seq=5, ack=5, flags=FIN | ACK),
    )
    flow_test.finish()
    assert flow_test.events == []
    assert flow_test.flows.count == 0


def test_ended_connections_are_dropped_after_a_while() -> None:
    flow_test = FlowTest()
    for number in range(5):
        at_ns = number * 100_000 * MS
        conversation = TcpConnection(Endpoint("10.0.0.1", 40_000 + number), traffic.BROKER, at_ns)
        conversation.reset(at_ns + MS)
        flow_test.put(*conversation.packets)
    assert flow_test.flows.count == 1


def test_number_of_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 10)
    flow_test = FlowTest()
    for number in range(100):
        flow_test.put(
            TcpPacket(
                at_ns=number, source=Endpoint("10.0.0.1", number), target=traffic.BROKER, seq=5,
                ack=0, flags=SYN,
            )
        )  # fmt: skip
        assert flow_test.flows.count <= 11


def test_connection_of_an_earlier_file_continues_at_a_boundary() -> None:
    conversation = talk()
    problems: list[Problem] = []
    flows = Flows(CaptureContext(report=problems.append))
    request, _, response, _ = conversation.packets[3:]
    note = f"opened=42 client={CLIENT}"
    torn = TcpPacket(
        at_ns=response.at_ns, source=response.source, target=response.target, seq=response.seq,
        ack=0, flags=ACK, payload=b"end" + RESPONSE,
    )  # fmt: skip
    events = [
        *flows.process(segment(request, note)),
        *flows.process(segment(torn, f"{note} inside=3")),
    ]
    assert [type(each) for each in events] == [Opened, Frame, Frame]
    opened = events[0]
    assert isinstance(opened, Opened)
    assert (opened.connection.opened_ns, opened.connection.client) == (42, CLIENT)
    assert problems == []


def test_state_of_a_regular_connection_is_returned() -> None:
    conversation = talk()
    conversation.request(5 * MS, REQUEST[:10])
    first = segment(conversation.packets[0])
    flow = Flow(first, CaptureContext(report=lambda _: None))
    flow.process(first, 0)
    assert flow.state() is None
    for packet in conversation.packets[1:]:
        flow.process(segment(packet), int(packet.source != CLIENT))
    client = (8 + len(REQUEST) + 10, REQUEST[:10], 5 * MS)
    assert flow.state() == (0, (client, (71 + len(RESPONSE), b"", None)))


def test_state_of_a_direction_with_a_gap_is_unknown() -> None:
    conversation = talk()
    conversation.response(5 * MS, RESPONSE)
    conversation.response(6 * MS, RESPONSE)
    missed = next(each for each in conversation.packets if each.at_ns == 5 * MS)
    first = segment(conversation.packets[0])
    flow = Flow(first, CaptureContext(report=lambda _: None))
    for packet in conversation.packets:
        if packet is not missed:
            # The missing segment is not acknowledged, so it may still arrive.
            flow.process(segment(replace(packet, ack=71)), int(packet.source != CLIENT))
    state = flow.state()
    assert state is not None
    assert state.sides == ((8 + len(REQUEST), b"", None), None)


def test_data_after_fin_arrives_out_of_order() -> None:
    flow_test, conversation = FlowTest(), talk()
    conversation.request(5 * MS, REQUEST)
    conversation.close(6 * MS)
    late = next(each for each in conversation.packets if each.at_ns == 5 * MS)
    packets = [each for each in conversation.packets if each is not late]
    flow_test.put(*packets)
    assert flow_test.shape == "oqa"
    flow_test.put(late)
    assert flow_test.shape == "oqaqc"
    flow_test.finish()
    assert flow_test.problems == []


def test_close_after_a_gap_takes_effect_when_the_gap_is_skipped() -> None:
    flow_test, conversation = FlowTest(), talk()
    conversation.request(5 * MS, REQUEST)
    conversation.request(6 * MS, REQUEST)
    conversation.close(7 * MS)
    flow_test.put(*(each for each in conversation.packets if each.at_ns != 5 * MS))
    assert flow_test.shape == "oqa"
    flow_test.skip_overdue_gaps(1000 * MS)
    assert flow_test.shape == "oqagqc"


def test_connections_that_are_not_kafka_are_dropped_as_well() -> None:
    flow_test = FlowTest()
    web = TcpConnection(CLIENT, traffic.BROKER, 0)
    web.request(MS, b"GET / HTTP/1.1\r\n\r\n")
    web.close(2 * MS)
    flow_test.put(*web.packets)
    assert flow_test.flows.count == 1
    later = TcpConnection(Endpoint("10.0.0.1", 41_000), traffic.BROKER, 100_000 * MS)
    flow_test.put(*later.packets)
    assert flow_test.flows.count == 1
    assert flow_test.events == []
