"""LinkedConnection: what a client and the broker notice of a disturbed link."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.server.connection import Connection
from kafkalite.server.link_rules import UNCHANGED, Shape
from kafkalite.server.linked_connection import (
    MAX_TRAVELLING_BYTES,
    LinkedConnection,
    client_id_of,
)
from kafkalite.server.recording import RecordedConnection
from kafkalite.wire.frames import SHARED_BUFFER_BYTES
from tests.unit.frames import header
from tests.unit.server.test_connection import FakeTransport, ListeningNode, run_callbacks, send

if TYPE_CHECKING:
    from kafkalite.capture.recording.recorder import Recorder

CUT, SLOW = Shape(is_cut=True), Shape(latency_ms=100)


class Owner:
    """The links of a node; each connection has the same shapes."""

    def __init__(self) -> None:
        self.node = ListeningNode()
        self.clock = self.node.clock
        self.entropy = SeededEntropy()
        self.receive_buffer = bytearray(SHARED_BUFFER_BYTES)
        self.shapes = (UNCHANGED, UNCHANGED)
        self.client_ids: list[str | None] = []
        self.removed = 0

    def reshape(self, linked: LinkedConnection) -> None:
        self.client_ids.append(linked.client_id)
        linked.change(*self.shapes)

    def remove(self, linked: LinkedConnection) -> None:
        del linked
        self.removed += 1

    def add_forgotten(self, linked: LinkedConnection) -> None:
        pass

    def client(self, incoming: Shape, outgoing: Shape) -> tuple[FakeTransport, LinkedConnection]:
        """Return a client that is connected already, whose link is disturbed then."""
        transport = self.node.client()
        linked = LinkedConnection.attach(self, cast("Connection", transport.connection))
        linked.client_id = "known"
        linked.change(incoming, outgoing)
        return transport, linked

    def new_client(
        self, incoming: Shape, outgoing: Shape
    ) -> tuple[FakeTransport, LinkedConnection]:
        """Return a client that connects by a disturbed link."""
        self.shapes = incoming, outgoing
        connection = Connection(self.node.context)
        linked = LinkedConnection(self, connection, connection)
        transport = FakeTransport(cast("Connection", linked), "10.0.0.1", 40_000)
        linked.connection_made(transport)
        return transport, linked


async def test_an_undisturbed_link_changes_nothing() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, UNCHANGED)
    send(transport, b"one", b"two")
    assert b"".join(transport.writes) == b"onetwo"
    assert not linked.is_changed
    assert linked.detach()
    assert isinstance(transport.connection, Connection)
    assert transport.connection.transport is transport
    send(transport, b"three")
    assert transport.writes[-1] == b"three"


async def test_requests_and_answers_arrive_later() -> None:
    owner = Owner()
    transport, _ = owner.client(SLOW, SLOW)
    send(transport, b"one")
    owner.clock.advance(99)
    assert owner.node.served == []
    owner.clock.advance(1)
    assert (owner.node.served, transport.writes) == ([b"one"], [])
    owner.clock.advance(100)
    assert transport.writes == [b"one"]


async def test_no_request_arrives_by_a_link_that_is_cut_to_the_node() -> None:
    owner = Owner()
    transport, linked = owner.client(CUT, UNCHANGED)
    assert transport.paused
    linked.change(UNCHANGED, UNCHANGED)
    assert not transport.paused
    send(transport, b"one")
    assert transport.writes == [b"one"]


async def test_a_request_is_handled_if_only_its_answer_is_lost() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, CUT)
    send(transport, b"one")
    assert (owner.node.served, transport.writes) == ([b"one"], [])
    linked.change(UNCHANGED, UNCHANGED)
    assert transport.writes == [b"one"]


async def test_a_new_client_is_shaped_when_its_client_id_is_known() -> None:
    owner = Owner()
    transport, linked = owner.new_client(UNCHANGED, CUT)
    await run_callbacks()
    send(transport, header(18, 4, client_id=b"shop"))
    assert linked.client_id == "shop"
    assert owner.client_ids == [None, "shop"]
    assert (len(owner.node.served), transport.writes) == (1, [])


async def test_a_new_client_of_a_cut_link_is_not_read() -> None:
    owner = Owner()
    transport, _ = owner.new_client(CUT, CUT)
    transport.paused = False  # uvloop begins to read then
    await run_callbacks()
    assert transport.paused


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_client_does_not_notice_the_end_of_a_connection_by_a_cut_link(how: str) -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, CUT)
    send(transport, b"one")
    getattr(linked.connection, how)()
    assert linked.is_closing()
    await run_callbacks()
    assert owner.node.admission.is_empty.is_set()
    assert (transport.closed, transport.writes) == (False, [])
    linked.change(UNCHANGED, UNCHANGED)
    await run_callbacks()
    assert (transport.closed, transport.writes, owner.removed) == (True, [b"one"], 1)


async def test_a_connection_closes_after_its_last_answer_has_arrived() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, SLOW)
    send(transport, b"one")
    linked.connection.close()
    assert not transport.closed
    owner.clock.advance(100)
    assert (transport.writes, transport.closed) == ([b"one"], True)
    await run_callbacks()
    assert owner.node.admission.is_empty.is_set()


async def test_requests_before_the_end_of_a_client_arrive() -> None:
    owner = Owner()
    transport, linked = owner.client(SLOW, UNCHANGED)
    send(transport, b"one")
    assert linked.eof_received() is True
    assert not transport.closed
    owner.clock.advance(100)
    assert (owner.node.served, transport.closed) == ([b"one"], True)


async def test_the_broker_forgets_a_half_open_connection() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, UNCHANGED)
    linked.half_open_links.add("l1")
    linked.forget()
    linked.forget()
    await run_callbacks()
    assert owner.node.admission.is_empty.is_set()
    assert (transport.closed, transport.paused, linked.is_changed) == (False, True, True)
    linked.write(b"lost")
    linked.half_open_links.clear()
    linked.end_if_healed()
    assert transport.closed
    assert transport.writes == []


async def test_a_forgotten_connection_of_a_slow_link_closes_after_its_last_answer() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, Shape(is_cut=True, latency_ms=100))
    send(transport, b"one")
    linked.connection.close()
    linked.change(UNCHANGED, SLOW)
    assert not transport.closed
    owner.clock.advance(100)
    await run_callbacks()
    assert (transport.closed, transport.writes, owner.removed) == (True, [b"one"], 1)


async def test_a_connection_serves_no_more_while_many_answers_are_on_their_way() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, CUT)
    send(transport, b"big")
    send(transport, b"one")
    assert linked.get_write_buffer_size() > MAX_TRAVELLING_BYTES
    await run_callbacks()
    assert owner.node.served == [b"big"]
    linked.change(UNCHANGED, UNCHANGED)
    await run_callbacks()
    assert owner.node.served == [b"big", b"one"]


async def test_a_socket_is_not_read_while_many_requests_are_on_their_way() -> None:
    owner = Owner()
    transport, linked = owner.client(SLOW, UNCHANGED)
    body = b"x" * 60_000
    for _ in range(MAX_TRAVELLING_BYTES // len(body) + 1):
        send(transport, body)
    assert transport.paused
    owner.clock.advance(100)
    await run_callbacks()
    assert not transport.paused
    assert len(owner.node.served) == MAX_TRAVELLING_BYTES // len(body) + 1
    assert not linked.is_closing()


async def test_a_recording_begins_and_ends_below_a_disturbed_link() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, UNCHANGED)
    connection = linked.connection
    recorded = RecordedConnection(connection, cast("Recorder", None), set())
    recorded.attach(connection.transport)
    assert linked.get_protocol() is recorded
    assert linked.detach()
    assert transport.connection is cast("object", recorded)
    again = LinkedConnection.attach(owner, connection)
    recorded.detach()
    assert again.get_protocol() is connection
    assert connection.transport is cast("object", again)
    again.client_id = ""
    send(transport, b"one")
    assert transport.writes == [b"one"]


def test_the_client_id_is_in_the_first_frame() -> None:
    frame = pack(">i", 99) + header(18, 4, client_id=b"shop")
    assert client_id_of(memoryview(frame)) == "shop"
    assert client_id_of(memoryview(frame[:17])) is client_id_of(memoryview(b"")) is None
    assert client_id_of(memoryview(pack(">i", 99) + header(18, 4, client_id=None))) == ""


async def test_a_connection_that_is_aborted_ends_before_its_last_answer_has_arrived() -> None:
    owner = Owner()
    transport, linked = owner.client(UNCHANGED, SLOW)
    send(transport, b"one")
    linked.connection.close()
    linked.connection.abort()
    await run_callbacks()
    assert owner.node.admission.is_empty.is_set()
    assert not transport.closed
    owner.clock.advance(100)
    assert (transport.writes, transport.closed) == ([b"one"], True)
