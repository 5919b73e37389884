"""TCP connections: opened, closed, gone on with, and their ports used again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture import flows as module
from kafkalite.capture.blocks import Interface, Packet
from kafkalite.capture.dialogue import Setting
from kafkalite.capture.flows import Flow, Flows
from kafkalite.capture.model import Closed, Direction, Endpoint, Event, Frame, Gap, Opened, Problem
from kafkalite.capture.packets import Dissector
from tests.captures import damage, traffic
from tests.captures.damage import ACK, FIN, SYN, Talk, Wired
from tests.unit.frames import framed

if TYPE_CHECKING:
    from kafkalite.capture.packets import Segment

CLIENT = Endpoint("10.0.0.1", 40_000)
MS = traffic.MS
REQUEST = framed(traffic.request_frame(8, 8, 5, traffic.commit_request("g", 1)))
RESPONSE = framed(traffic.response_frame(8, 8, 5, traffic.commit_response()))


def segment(packet: Wired, comment: str | None = None) -> Segment:
    _, data = damage.NETWORKS["ip4"](packet)
    found = Dissector("f", lambda _: None).segment(
        Packet(packet.at_ns, Interface(101), data, len(data), packet.at_ns, comment)
    )
    assert found is not None
    return found


class Wire:
    """Flows that packets are put into."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.flows = Flows(Setting(report=self.problems.append))
        self.events: list[Event] = []
        self.now_ns = 0

    def put(self, *packets: Wired) -> None:
        for packet in packets:
            self.now_ns = packet.at_ns
            self.events += self.flows.take(segment(packet))

    def sweep(self, now_ns: int, *, at_all: bool = False) -> None:
        self.events += self.flows.sweep(now_ns, at_all=at_all)

    def finish(self) -> None:
        self.events += self.flows.finish(self.now_ns)

    @property
    def shape(self) -> str:
        """The events, a letter each: opened, request, response, gap, closed."""
        letters = {Opened: "o", Gap: "g", Closed: "c"}
        return "".join(
            ("q" if each.direction is Direction.REQUEST else "a")
            if isinstance(each, Frame)
            else letters[type(each)]
            for each in self.events
        )


def talk(at_ns: int = 0, initials: tuple[int, int] = (7, 70)) -> Talk:
    made = Talk(CLIENT, traffic.BROKER, at_ns, initials=initials)
    made.request(at_ns + MS, REQUEST)
    made.response(at_ns + 2 * MS, RESPONSE)
    return made


def test_a_connection_from_its_opening_to_its_end() -> None:
    wire, said = Wire(), talk()
    said.close(3 * MS)
    wire.put(*said.packets)
    assert wire.shape == "oqac"
    assert wire.problems == []
    wire.finish()
    assert wire.shape == "oqac"


def test_a_reset_is_an_end_and_stragglers_behind_it_are_nothing() -> None:
    wire, said = Wire(), talk()
    said.reset(3 * MS)
    said.response(4 * MS, RESPONSE)
    wire.put(*said.packets)
    wire.finish()
    assert wire.shape == "oqac"
    assert wire.problems == []


def test_where_the_capture_ends_first_nothing_is_closed() -> None:
    wire = Wire()
    wire.put(*talk().packets)
    wire.finish()
    assert wire.shape == "oqa"


@pytest.mark.parametrize("ending", ["close", "reset", ""])
def test_ports_that_are_used_again_are_another_connection(ending: str) -> None:
    wire, first = Wire(), talk()
    if ending:
        getattr(first, ending)(3 * MS)
    second = talk(10 * MS, (9_000_007, 9_000_070))
    wire.put(*first.packets, *second.packets)
    assert wire.shape == "oqacoqa"
    numbers = {each.connection.number for each in wire.events}
    assert numbers == {0, 1}
    assert wire.problems == []


def test_an_opening_that_is_repeated_opens_nothing() -> None:
    wire, said = Wire(), talk()
    first, second, *rest = said.packets
    wire.put(first, second, first, second, *rest, first)
    assert wire.shape == "oqa"


def test_the_answer_to_an_opening_is_enough() -> None:
    wire, said = Wire(), talk()
    wire.put(*said.packets[1:])
    assert wire.shape == "oqa"
    opened = wire.events[0]
    assert isinstance(opened, Opened)
    assert opened.connection.client == CLIENT
    assert opened.connection.opened_ns == said.packets[1].at_ns


def test_the_answer_may_be_captured_before_the_opening() -> None:
    wire, said = Wire(), talk()
    first, second, *rest = said.packets
    wire.put(second, first, *rest)
    assert wire.shape == "oqa"
    assert wire.problems == []


def test_a_hole_holds_back_until_it_is_given_up() -> None:
    wire, said = Wire(), talk()
    said.request(5 * MS, REQUEST)
    said.request(6 * MS, REQUEST)
    at = next(number for number, each in enumerate(said.packets) if each.at_ns == 5 * MS)
    packets = [each for number, each in enumerate(said.packets) if number != at]
    wire.put(*packets)
    assert wire.shape == "oqa"
    assert wire.flows.low_ns == 6 * MS
    wire.sweep(100 * MS)
    assert wire.flows.low_ns == 6 * MS
    wire.sweep(300 * MS)
    assert wire.shape == "oqagq"
    assert wire.flows.low_ns is None


def test_nothing_is_waited_for_where_there_is_too_much() -> None:
    wire, said = Wire(), talk()
    at_ns = 5 * MS
    said.packets.append(
        Wired(
            at_ns=at_ns, source=CLIENT, target=traffic.BROKER, seq=5_000, ack=0, flags=ACK,
            payload=REQUEST,
        )
    )  # fmt: skip
    wire.put(*said.packets)
    assert wire.flows.low_ns == at_ns
    wire.sweep(at_ns, at_all=True)
    assert wire.shape == "oqagq"
    assert wire.flows.low_ns is None


def test_packets_that_only_acknowledge_begin_no_connection() -> None:
    wire = Wire()
    wire.put(
        Wired(at_ns=1, source=CLIENT, target=traffic.BROKER, seq=5, ack=5, flags=ACK),
        Wired(at_ns=2, source=CLIENT, target=traffic.BROKER, seq=5, ack=5, flags=FIN | ACK),
    )
    wire.finish()
    assert wire.events == []
    assert wire.flows.count == 0


def test_ended_connections_are_forgotten_in_time() -> None:
    wire = Wire()
    for number in range(5):
        at_ns = number * 100_000 * MS
        said = Talk(Endpoint("10.0.0.1", 40_000 + number), traffic.BROKER, at_ns)
        said.reset(at_ns + MS)
        wire.put(*said.packets)
    assert wire.flows.count == 1


def test_there_is_a_limit_to_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONNECTIONS", 10)
    wire = Wire()
    for number in range(100):
        wire.put(
            Wired(
                at_ns=number, source=Endpoint("10.0.0.1", number), target=traffic.BROKER, seq=5,
                ack=0, flags=SYN,
            )
        )  # fmt: skip
        assert wire.flows.count <= 11


def test_a_connection_of_an_earlier_file_goes_on_in_step() -> None:
    said = talk()
    problems: list[Problem] = []
    flows = Flows(Setting(report=problems.append))
    request, _, response, _ = said.packets[3:]
    note = f"opened=42 client={CLIENT}"
    torn = Wired(
        at_ns=response.at_ns, source=response.source, target=response.target, seq=response.seq,
        ack=0, flags=ACK, payload=b"end" + RESPONSE,
    )  # fmt: skip
    events = [
        *flows.take(segment(request, note)),
        *flows.take(segment(torn, f"{note} inside=3")),
    ]
    assert [type(each) for each in events] == [Opened, Frame, Frame]
    opened = events[0]
    assert isinstance(opened, Opened)
    assert (opened.connection.opened_ns, opened.connection.client) == (42, CLIENT)
    assert problems == []


def test_a_connection_that_is_in_order_says_where_it_is() -> None:
    said = talk()
    said.request(5 * MS, REQUEST[:10])
    first = segment(said.packets[0])
    flow = Flow(first, Setting(report=lambda _: None))
    flow.take(first, 0)
    assert flow.at_rest() is None
    for packet in said.packets[1:]:
        flow.take(segment(packet), int(packet.source != CLIENT))
    asked = (8 + len(REQUEST) + 10, REQUEST[:10], 5 * MS)
    assert flow.at_rest() == (0, (asked, (71 + len(RESPONSE), b"", None)))


def test_of_a_connection_one_direction_may_be_in_order_alone() -> None:
    said = talk()
    said.response(5 * MS, RESPONSE)
    said.response(6 * MS, RESPONSE)
    missed = next(each for each in said.packets if each.at_ns == 5 * MS)
    first = segment(said.packets[0])
    flow = Flow(first, Setting(report=lambda _: None))
    for packet in said.packets:
        if packet is not missed:
            # Nobody acknowledges what is missing: it may yet come.
            flow.take(segment(replace(packet, ack=71)), int(packet.source != CLIENT))
    rest = flow.at_rest()
    assert rest is not None
    assert rest.sides == ((8 + len(REQUEST), b"", None), None)


def test_what_is_said_last_may_come_after_the_farewell() -> None:
    wire, said = Wire(), talk()
    said.request(5 * MS, REQUEST)
    said.close(6 * MS)
    late = next(each for each in said.packets if each.at_ns == 5 * MS)
    packets = [each for each in said.packets if each is not late]
    wire.put(*packets)
    assert wire.shape == "oqa"
    wire.put(late)
    assert wire.shape == "oqaqc"
    wire.finish()
    assert wire.problems == []


def test_a_farewell_behind_a_hole_is_one_once_the_hole_is_given_up() -> None:
    wire, said = Wire(), talk()
    said.request(5 * MS, REQUEST)
    said.request(6 * MS, REQUEST)
    said.close(7 * MS)
    wire.put(*(each for each in said.packets if each.at_ns != 5 * MS))
    assert wire.shape == "oqa"
    wire.sweep(1000 * MS)
    assert wire.shape == "oqagqc"


def test_what_is_not_kafka_is_forgotten_as_well() -> None:
    wire = Wire()
    web = Talk(CLIENT, traffic.BROKER, 0)
    web.request(MS, b"GET / HTTP/1.1\r\n\r\n")
    web.close(2 * MS)
    wire.put(*web.packets)
    assert wire.flows.count == 1
    later = Talk(Endpoint("10.0.0.1", 41_000), traffic.BROKER, 100_000 * MS)
    wire.put(*later.packets)
    assert wire.flows.count == 1
    assert wire.events == []
