"""A connection: one write for all answers of a read, and nobody else is hurt by a bad peer."""

from __future__ import annotations

import asyncio
import io
import json
from struct import pack
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.apis.context import Unsent
from kafkalite.config.broker import BrokerConfig
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.server.admission import Admission
from kafkalite.server.connection import JOINED_BYTES, Connection, gathered
from kafkalite.server.listener import Door
from kafkalite.server.logging import Level, Log
from kafkalite.testing.clock import ManualClock
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import BURST_BYTES, Owed
from tests.unit.frames import header

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.apis.context import RequestContext, Services
    from kafkalite.wire.session import Pieces

MAX_REQUEST = 10_000
MAX_KEPT = 1_000


class FakeSocket:
    def setsockopt(self, *_: object) -> None:
        return


class FakeTransport(asyncio.Transport):
    """Takes what is written, all of it or, when stuck, none."""

    def __init__(self, connection: Connection, peer: str, port: int) -> None:
        super().__init__({"socket": FakeSocket(), "peername": (peer, port)})
        self.connection = connection
        self.writes: list[bytes] = []
        self.buffered = 0
        self.is_stuck = False
        self.paused = False
        self.closed = False
        self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        del high, low

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
        if self.is_stuck:
            self.buffered += len(data)
            if self.buffered == len(data):
                self.connection.pause_writing()

    def writelines(self, list_of_data: object) -> None:
        self.write(b"".join(cast("list[bytes]", list_of_data)))

    def unstick(self) -> None:
        self.is_stuck = False
        self.buffered = 0
        self.connection.resume_writing()

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            if not self.buffered:
                asyncio.get_running_loop().call_soon(self.connection.connection_lost, None)

    def abort(self) -> None:
        self.aborted = True
        self.buffered = 0
        self.closed = False
        self.close()


class Node:
    """A node whose requests are answered with themselves, and its clients."""

    def __init__(self, **config: str) -> None:
        self.clock = ManualClock()
        self.words = io.StringIO()
        text = {key.replace("_", "."): value for key, value in config.items()}
        self.admission = Admission(BrokerConfig.from_text(text), self.clock)
        self.owed: dict[bytes, Waiting[bytes]] = {}
        self.served: list[bytes] = []
        self.door = Door(
            services=cast("Services", None),
            node_id=1,
            listener="PLAINTEXT",
            admission=self.admission,
            dispatch=self.dispatch,
            buffers=ReceiveBuffers(),
            max_request_bytes=MAX_REQUEST,
            max_kept_bytes=MAX_KEPT,
            unsent=Unsent(),
            log=Log(Level.INFO, "json", self.words),
        )
        self.clients = 0

    def dispatch(
        self, context: RequestContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | Owed:
        body = bytes(buffer[start:end])
        self.served.append(body)
        assert context.client_host.startswith("/10.0.0.")
        if body.startswith(b"bad"):
            raise ProtocolViolation("bad request")
        if body.startswith(b"fault"):
            # As an import of what is used for the first time: the loop keeps silent about it.
            raise OSError("out of descriptors")
        if body.startswith(b"later"):
            waiting = self.owed[body] = Waiting[bytes]()
            return Owed(waiting, self.finish)
        if body.startswith(b"big"):
            out.append(bytes(BURST_BYTES))
            return BURST_BYTES
        return self.finish(body, out)

    def finish(self, answer: bytes, out: Pieces) -> int:
        out.append(answer)
        return len(answer)

    def client(self, host: int = 1) -> FakeTransport:
        connection = Connection(self.door)
        self.clients += 1
        transport = FakeTransport(connection, f"10.0.0.{host}", 40_000 + self.clients)
        connection.connection_made(transport)
        return transport

    def log_lines(self) -> list[Mapping[str, str]]:
        return [json.loads(line) for line in self.words.getvalue().splitlines()]


def send(transport: FakeTransport, *bodies: bytes) -> None:
    data = b"".join(pack(">i", len(body)) + body for body in bodies)
    space = transport.connection.get_buffer(-1)
    space[: len(data)] = data
    transport.connection.buffer_updated(len(data))


async def settle() -> None:
    """Let what was left for the loop happen."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_all_answers_of_a_read_leave_in_one_write() -> None:
    client = Node().client()
    send(client, b"one", b"two", b"three")
    assert client.writes == [b"onetwothree"]


async def test_an_answer_that_comes_later_leaves_by_itself_and_lets_others_follow() -> None:
    node = Node()
    client = node.client()
    send(client, b"one", b"later", b"three")
    assert client.writes == [b"one"]
    node.owed[b"later"].resolve(b"two")
    assert client.writes == [b"one"], "its maker is in the middle of something"
    await settle()
    assert client.writes == [b"one", b"twothree"]


async def test_requests_are_told_on_connections_made_while_the_log_wants_them() -> None:
    node = Node()
    quiet = node.client()
    node.door.log.level = Level.DEBUG
    told = node.client()
    for client in (quiet, told):
        send(client, header(12, 0))
    (line,) = node.log_lines()
    assert line["event"] == "request"


async def test_a_violation_ends_the_connection_with_one_log_line() -> None:
    node = Node()
    client, other = node.client(), node.client()
    send(client, b"one", b"bad", b"three")
    await settle()
    assert client.writes == [b"one"]
    assert client.closed
    (line,) = node.log_lines()
    assert (line["level"], line["peer"], line["reason"]) == (
        "warning", "10.0.0.1:40001", "bad request",
    )  # fmt: skip
    send(other, b"fine")
    assert other.writes == [b"fine"]


async def test_a_fault_of_ours_ends_its_connection_and_is_told() -> None:
    node = Node()
    at_once, later, other = (node.client() for _ in range(3))
    send(at_once, b"fault")
    send(later, b"later", b"fault")
    node.owed[b"later"].resolve(b"done")
    await settle()
    assert (at_once.aborted, later.aborted, other.aborted) == (True, True, False)
    assert [(line["level"], line["peer"]) for line in node.log_lines()] == [
        ("error", "10.0.0.1:40001"), ("error", "10.0.0.1:40002"),
    ]  # fmt: skip
    assert all("out of descriptors" in json.dumps(line) for line in node.log_lines())


@pytest.mark.parametrize("length", [-1, MAX_REQUEST + 1])
async def test_a_bad_length_ends_the_connection_with_its_reason(length: int) -> None:
    node = Node()
    client = node.client()
    client.connection.get_buffer(-1)[:4] = pack(">i", length)
    client.connection.buffer_updated(4)
    assert client.closed
    assert str(length) in node.log_lines()[0]["reason"]


async def test_a_peer_that_does_not_read_is_not_served_and_then_not_read() -> None:
    node = Node()
    client = node.client()
    client.is_stuck = True
    send(client, b"one")
    send(client, b"two")
    assert node.served == [b"one"]
    assert not client.paused
    send(client, b"x" * MAX_KEPT)
    assert client.paused
    client.unstick()
    assert client.writes == [b"one", b"two" + b"x" * MAX_KEPT]
    assert not client.paused


async def test_large_answers_are_made_only_as_fast_as_they_leave() -> None:
    node = Node()
    client = node.client()
    client.is_stuck = True
    send(client, *[b"big"] * 8)
    assert len(node.served) < 8
    client.unstick()
    assert len(node.served) == 8
    assert sum(map(len, client.writes)) == 8 * BURST_BYTES


async def test_what_peers_leave_unread_is_counted_until_they_read_or_leave() -> None:
    node = Node()
    slow, gone = node.client(), node.client()
    for client in (slow, gone):
        client.is_stuck = True
        send(client, b"x" * 100)
    assert node.door.unsent.bytes == 200
    slow.unstick()
    assert node.door.unsent.bytes == 100
    gone.abort()
    await settle()
    assert node.door.unsent.bytes == 0


async def test_a_peer_that_leaves_abandons_its_answer() -> None:
    node = Node()
    client = node.client()
    send(client, b"later")
    client.close()
    await settle()
    assert node.owed[b"later"].is_abandoned
    node.owed[b"later"].resolve(b"late")
    await settle()
    assert client.writes == []


async def test_a_backlog_behind_an_owed_answer_is_bounded() -> None:
    node = Node()
    client = node.client()
    send(client, b"later", b"x" * MAX_KEPT)
    assert client.paused
    node.owed[b"later"].resolve(b"done")
    await settle()
    assert not client.paused
    assert client.writes == [b"done" + b"x" * MAX_KEPT]


async def test_connections_beyond_the_maximum_wait_for_a_place() -> None:
    node = Node(max_connections="2")
    first, second, third, fourth = (node.client() for _ in range(4))
    for client in (first, second, third, fourth):
        send(client, b"hello")
    assert [bool(client.writes) for client in (first, second, third, fourth)] == [
        True, True, False, False,
    ]  # fmt: skip
    fourth.close()
    second.close()
    await settle()
    assert third.writes == [b"hello"]
    assert fourth.writes == []


async def test_connections_beyond_the_maximum_of_one_address_are_closed() -> None:
    node = Node(max_connections_per_ip="1")
    first, second, other = node.client(), node.client(), node.client(host=2)
    await settle()
    assert [each.closed for each in (first, second, other)] == [False, True, False]
    first.close()
    await settle()
    assert not node.client().closed


async def test_addresses_can_have_limits_of_their_own() -> None:
    node = Node(
        max_connections_per_ip="1",
        max_connections_per_ip_overrides="10.0.0.1:2,[::1]:5, 10.0.0.3:0",
    )
    clients = [node.client(host) for host in (1, 1, 1, 2, 2, 3)]
    await settle()
    assert [each.closed for each in clients] == [False, False, True, False, True, True]


async def test_a_client_that_is_gone_already_is_let_in_and_out() -> None:
    """A connection that was reset before we saw it has no address."""
    node = Node()
    connection = Connection(node.door)
    gone = FakeTransport(connection, "", 0)
    connection.connection_made(gone)
    assert not gone.closed
    connection.connection_lost(None)
    assert node.admission.is_empty.is_set()


async def test_an_idle_connection_is_closed_after_the_limit() -> None:
    node = Node(connections_max_idle_ms="8000")
    node.admission.start()
    idle, busy = node.client(), node.client()
    for _ in range(8):
        node.clock.advance(1000)
        send(busy, b"still here")
    assert not idle.closed
    node.clock.advance(1000)
    assert idle.closed
    assert not busy.closed
    node.admission.stop()
    assert node.clock.next_deadline_ms is None


async def test_a_peer_that_takes_no_answer_is_idle_and_one_that_is_slow_is_not() -> None:
    node = Node(connections_max_idle_ms="8000")
    node.admission.start()
    stuck, slow = node.client(), node.client()
    for client in (stuck, slow):
        client.is_stuck = True
        send(client, b"x" * 100)
    for _ in range(10):
        node.clock.advance(1000)
        slow.buffered -= 1
    assert (stuck.closed, slow.closed) == (True, False)
    node.admission.stop()


async def test_a_connection_that_is_owed_an_answer_is_not_idle() -> None:
    node = Node(connections_max_idle_ms="8000")
    node.admission.start()
    client = node.client()
    send(client, b"later")
    node.clock.advance(100_000)
    assert not client.closed


async def test_idle_connections_stay_when_the_limit_is_off() -> None:
    node = Node(connections_max_idle_ms="-1")
    node.admission.start()
    client = node.client()
    node.clock.advance(10**9)
    assert not client.closed


async def test_a_node_that_stops_sends_what_it_owes_and_serves_no_more() -> None:
    node = Node()
    client = node.client()
    send(client, b"later", b"two")
    client.connection.stop_serving()
    node.owed[b"later"].resolve(b"done")
    await settle()
    assert client.writes == [b"done"]
    client.connection.close()
    await asyncio.wait_for(node.admission.is_empty.wait(), 1)


def test_small_pieces_are_joined_and_large_ones_are_left_alone() -> None:
    large = bytes(JOINED_BYTES)
    assert gathered([b"a", b"b", large, b"c", memoryview(b"d")]) == [b"ab", large, b"cd"]
    assert gathered([large, large]) == [large, large]
    assert gathered([]) == []
