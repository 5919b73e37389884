"""Connection: one write for all answers of a read; a bad client does not affect others."""

from __future__ import annotations

import asyncio
import io
import json
from struct import pack
from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.image import MetadataImage
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.server.admission import Admission
from kafkalite.server.client_warnings import INTERVAL_MS, ClientWarnings
from kafkalite.server.connection import (
    LARGE_READ_BYTES,
    MAX_JOINED_BYTES,
    Connection,
    join_small_pieces,
)
from kafkalite.server.listener import ListenerContext
from kafkalite.server.logging import Level, Log
from kafkalite.server.memory_queue import MemoryQueue
from kafkalite.server.recording import RecordedConnection, Recording
from kafkalite.server.scheduler import READ_TURN_S, Scheduler
from kafkalite.testing.clock import ManualClock
from kafkalite.wire.frames import ReceiveBuffers
from kafkalite.wire.session import BURST_BYTES, PendingAnswer, SessionSettings
from tests.unit.nodes import node_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from kafkalite.gateway.call import ConnectionContext
    from kafkalite.security.sasl.authenticator import Authenticator
    from kafkalite.server.sasl_listener import SaslListener
    from kafkalite.wire.session import Pieces, Session

MAX_REQUEST = 70_000
MAX_BUFFERED = 1_000


class FakeSocket:
    def setsockopt(self, *_: object) -> None:
        return


class FakeTransport(asyncio.Transport):
    """A transport that accepts everything, or nothing when it is stuck."""

    def __init__(self, connection: Connection | RecordedConnection, peer: str, port: int) -> None:
        super().__init__({"socket": FakeSocket(), "peername": (peer, port)})
        self.connection = connection
        self.writes: list[bytes] = []
        self.buffered = 0
        self.is_stuck = False
        self.paused = False
        self.closed = False
        self.aborted = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.connection = cast("Connection", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.connection

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


class ListeningNode:
    """A node that answers requests with their own bytes, and its clients."""

    def __init__(self, listeners: Sequence[str] = ("PLAINTEXT",), **config: str) -> None:
        """`config` are settings, with underscores in place of points."""
        self.clock = ManualClock()
        self.log_output = io.StringIO()
        log = Log(Level.INFO, "json", self.log_output)
        text = {key.replace("_", "."): value for key, value in config.items()}
        self.config = broker_config = BrokerConfig.from_text(text)
        self.admission = Admission(broker_config, self.clock, listeners)
        self.pending: dict[bytes, Waiting[bytes]] = {}
        self.served: list[bytes] = []
        buffers = ReceiveBuffers()
        loop = asyncio.get_running_loop()
        scheduler = Scheduler(loop, buffers)
        self.context = ListenerContext(
            node=node_of(clock=self.clock, image=MetadataImage()),
            listener=listeners[0],
            admission=self.admission,
            session_settings=SessionSettings(
                buffers=buffers,
                serve=self.dispatch,
                serve_in_worker=self.dispatch,
                wake=Connection.wake,
                max_request_bytes=MAX_REQUEST,
                max_buffered_bytes=MAX_BUFFERED,
                is_turn_over=scheduler.is_turn_over,
            ),
            scheduler=scheduler,
            memory_queue=MemoryQueue(loop, buffers, lambda: list(self.admission)),
            log=log,
            warn_about_client=ClientWarnings(self.clock, log.warning).warn,
            protocol_of=Recording().protocol_of,
        )
        self.clients = 0

    def dispatch(
        self, context: ConnectionContext, buffer: bytearray, start: int, end: int, out: Pieces
    ) -> int | PendingAnswer:
        body = bytes(buffer[start:end])
        self.served.append(body)
        assert context.client_host.startswith("/10.0.0.")
        if body.startswith(b"bad"):
            raise ProtocolViolation("bad request")
        if body.startswith(b"fault"):
            # Like an import on first use: the loop does not report it.
            raise OSError("out of descriptors")
        if body.startswith(b"later"):
            waiting = self.pending[body] = Waiting[bytes]()
            return PendingAnswer(waiting, self.finish)
        if body.startswith(b"much"):
            # Like the step that throttles clients.
            assert context.connection is not None
            context.connection.mute(1000)
            answered = Waiting[bytes]()
            answered.resolve(body)
            return PendingAnswer(answered, self.finish)
        if body.startswith(b"big"):
            out.append(bytes(BURST_BYTES))
            return BURST_BYTES
        return self.finish(body, out)

    def finish(self, answer: bytes, out: Pieces) -> int:
        out.append(answer)
        return len(answer)

    def client(self, host: int = 1, listener: str | None = None) -> FakeTransport:
        context = self.context
        if listener is not None:
            context = context._replace(listener=listener)
        connection = Connection(context)
        self.clients += 1
        transport = FakeTransport(connection, f"10.0.0.{host}", 40_000 + self.clients)
        connection.connection_made(transport)
        return transport

    def log_lines(self) -> list[Mapping[str, str]]:
        return [json.loads(line) for line in self.log_output.getvalue().splitlines()]


def send(transport: FakeTransport, *bodies: bytes) -> None:
    data = b"".join(pack(">i", len(body)) + body for body in bodies)
    space = transport.connection.get_buffer(-1)
    space[: len(data)] = data
    transport.connection.buffer_updated(len(data))


async def run_callbacks() -> None:
    """Run the scheduled callbacks of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_all_answers_of_a_read_are_sent_in_one_write() -> None:
    client = ListeningNode().client()
    send(client, b"one", b"two", b"three")
    assert client.writes == [b"onetwothree"]


async def test_a_later_answer_is_sent_when_it_arrives() -> None:
    node = ListeningNode()
    client = node.client()
    send(client, b"one", b"later", b"three")
    assert client.writes == [b"one"]
    node.pending[b"later"].resolve(b"two")
    assert client.writes == [b"one"], "its maker is in the middle of something"
    await run_callbacks()
    assert client.writes == [b"one", b"twothree"]


class RefusingSasl:
    """The authentication of clients that do not acknowledge that they were refused."""

    unacknowledged_refusal = "OAUTHBEARER: it has expired"

    def new_gate(self, context: ConnectionContext, *_: object) -> RefusingSasl:
        context.authenticator = cast("Authenticator", self)
        return self

    def attach(self, session: Session) -> None:
        """Change nothing."""


class BrokenSasl:
    """A listener with SASL whose gates cannot be made."""

    def new_gate(self, *_: object) -> NoReturn:
        raise TypeError("no gate")


async def test_a_connection_without_its_gate_serves_nothing_and_closes() -> None:
    node = ListeningNode()
    node.context = node.context._replace(sasl=cast("SaslListener", BrokenSasl()))
    client = node.client()
    assert client.aborted
    send(client, b"one")
    client.connection.resume_writing()
    await run_callbacks()
    assert (client.writes, node.served) == ([], [])
    assert ["no gate" in str(line["exception"]) for line in node.log_lines()] == [True]
    assert list(node.admission) == []
    node.context = node.context._replace(sasl=None)
    other = node.client()
    send(other, b"two")
    assert other.writes == [b"two"]


async def test_a_violation_closes_the_connection_with_one_log_line() -> None:
    node = ListeningNode()
    client, other = node.client(), node.client()
    send(client, b"one", b"bad", b"three")
    await run_callbacks()
    assert client.writes == [b"one"]
    assert client.closed
    (line,) = node.log_lines()
    assert (line["level"], line["peer"], line["reason"]) == (
        "warning", "10.0.0.1:40001", "bad request",
    )  # fmt: skip
    (entry,) = node.context.node.history.about("10.0.0.1", of=Entity.CLIENT)
    assert (entry.kind, entry.text) == ("refused", "connection closed: bad request")
    assert entry.facts == {"listener": "PLAINTEXT", "reason": "bad request"}
    send(other, b"fine")
    assert other.writes == [b"fine"]


async def test_a_client_that_disconnects_after_a_refusal_is_reported() -> None:
    node = ListeningNode()
    node.context = node.context._replace(sasl=cast("SaslListener", RefusingSasl()))
    node.client().close()
    await run_callbacks()
    (line,) = node.log_lines()
    assert (line["event"], line["reason"]) == ("connection closed", "OAUTHBEARER: it has expired")
    (entry,) = node.context.node.history.about("10.0.0.1", of=Entity.CLIENT)
    assert entry.facts["reason"] == "OAUTHBEARER: it has expired"


async def test_repeated_violations_of_an_address_are_counted() -> None:
    node = ListeningNode()
    for _ in range(5):
        send(node.client(), b"bad")
    await run_callbacks()
    (first,) = node.log_lines()
    assert (first["peer"], first["reason"]) == ("10.0.0.1:40001", "bad request")
    node.clock.advance(INTERVAL_MS)
    _, second = node.log_lines()
    assert (second["peer"], second["reason"]) == ("10.0.0.1:40005", "bad request")
    assert second["repeated"] == 4  # type: ignore[comparison-overlap]  # a number


async def test_a_bug_closes_its_connection_and_is_logged() -> None:
    node = ListeningNode()
    immediate, later, other = (node.client() for _ in range(3))
    send(immediate, b"fault")
    send(later, b"later", b"fault")
    node.pending[b"later"].resolve(b"done")
    await run_callbacks()
    assert (immediate.aborted, later.aborted, other.aborted) == (True, True, False)
    assert [(line["level"], line["peer"]) for line in node.log_lines()] == [
        ("error", "10.0.0.1:40001"), ("error", "10.0.0.1:40002"),
    ]  # fmt: skip
    assert all("out of descriptors" in json.dumps(line) for line in node.log_lines())


@pytest.mark.parametrize("length", [-1, MAX_REQUEST + 1])
async def test_an_invalid_length_closes_the_connection_with_its_reason(length: int) -> None:
    node = ListeningNode()
    client = node.client()
    client.connection.get_buffer(-1)[:4] = pack(">i", length)
    client.connection.buffer_updated(4)
    assert client.closed
    assert str(length) in node.log_lines()[0]["reason"]


async def test_a_client_that_does_not_read_is_not_served_and_then_not_read() -> None:
    node = ListeningNode()
    client = node.client()
    client.is_stuck = True
    send(client, b"one")
    send(client, b"two")
    assert node.served == [b"one"]
    assert not client.paused
    send(client, b"x" * MAX_BUFFERED)
    assert client.paused
    client.unstick()
    assert client.writes == [b"one", b"two" + b"x" * MAX_BUFFERED]
    assert not client.paused


async def test_large_answers_are_built_only_as_fast_as_they_are_sent() -> None:
    node = ListeningNode()
    client = node.client()
    client.is_stuck = True
    send(client, *[b"big"] * 8)
    assert len(node.served) < 8
    client.unstick()
    await run_callbacks()
    assert len(node.served) == 8
    assert sum(map(len, client.writes)) == 8 * BURST_BYTES


async def test_unread_answers_are_counted_until_clients_read_or_disconnect() -> None:
    node = ListeningNode()
    slow, gone = node.client(), node.client()
    for client in (slow, gone):
        client.is_stuck = True
        send(client, b"x" * 100)
    assert node.context.node.unread_answers.bytes == 200
    slow.unstick()
    assert node.context.node.unread_answers.bytes == 100
    gone.abort()
    await run_callbacks()
    assert node.context.node.unread_answers.bytes == 0


async def test_a_disconnect_abandons_the_pending_answer() -> None:
    node = ListeningNode()
    client = node.client()
    send(client, b"later")
    client.close()
    await run_callbacks()
    assert node.pending[b"later"].is_abandoned
    node.pending[b"later"].resolve(b"late")
    await run_callbacks()
    assert client.writes == []


async def test_a_muted_connection_sends_its_answer_and_serves_later() -> None:
    node = ListeningNode()
    client, other = node.client(), node.client()
    send(client, b"much", b"next", b"last")
    await run_callbacks()
    assert client.writes == [b"much"]
    send(client, b"more")
    send(other, b"other")
    assert other.writes == [b"other"]
    node.clock.advance(999)
    assert node.served == [b"much", b"other"]
    node.clock.advance(1)
    await run_callbacks()
    assert client.writes == [b"much", b"next", b"last", b"more"]


async def test_the_longest_of_several_times_mutes_a_connection() -> None:
    node = ListeningNode()
    client = node.client()
    connection = cast("Connection", client.connection)
    for duration_ms in (500, 2000, 100):
        connection.mute(duration_ms)
    send(client, b"next")
    node.clock.advance(1999)
    assert node.served == []
    node.clock.advance(1)
    assert node.served == [b"next"]


async def test_a_muted_connection_that_closes_serves_nothing() -> None:
    node = ListeningNode()
    client = node.client()
    send(client, b"much", b"next")
    await run_callbacks()
    client.close()
    await run_callbacks()
    node.clock.advance(1000)
    assert node.served == [b"much"]


async def test_bytes_behind_a_muted_connection_are_limited() -> None:
    node = ListeningNode()
    client = node.client()
    send(client, b"much", b"x" * MAX_BUFFERED)
    await run_callbacks()
    assert client.paused
    node.clock.advance(1000)
    assert not client.paused


async def test_a_muted_connection_is_not_idle() -> None:
    node = ListeningNode()
    client = node.client()
    send(client, b"much")
    await run_callbacks()
    tick = node.admission.tick + 1
    connection = cast("Connection", client.connection)
    assert not connection.is_idle(tick)
    node.clock.advance(1000)
    assert connection.is_idle(tick)


async def test_bytes_behind_a_pending_answer_are_limited() -> None:
    node = ListeningNode()
    client = node.client()
    send(client, b"later", b"x" * MAX_BUFFERED)
    assert client.paused
    node.pending[b"later"].resolve(b"done")
    await run_callbacks()
    assert not client.paused
    assert client.writes == [b"done" + b"x" * MAX_BUFFERED]


async def test_a_client_without_an_address_is_accepted() -> None:
    """A connection that was reset before it was accepted has no address."""
    node = ListeningNode()
    connection = Connection(node.context)
    gone = FakeTransport(connection, "", 0)
    connection.connection_made(gone)
    assert not gone.closed
    connection.connection_lost(None)
    assert node.admission.is_empty.is_set()


async def test_an_ipv4_client_of_a_socket_for_both_families_has_its_own_address() -> None:
    node = ListeningNode()
    connection = Connection(node.context)
    connection.connection_made(FakeTransport(connection, "::ffff:10.1.2.3", 5))
    assert connection.host == "10.1.2.3"
    connection.connection_lost(None)


async def test_an_idle_connection_is_closed_after_the_limit() -> None:
    node = ListeningNode(connections_max_idle_ms="8000")
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


async def test_a_client_that_takes_no_bytes_is_idle_and_a_slow_one_is_not() -> None:
    node = ListeningNode(connections_max_idle_ms="8000")
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


async def test_a_connection_with_a_pending_answer_is_not_idle() -> None:
    node = ListeningNode(connections_max_idle_ms="8000")
    node.admission.start()
    client = node.client()
    send(client, b"later")
    node.clock.advance(100_000)
    assert not client.closed


async def test_idle_connections_remain_without_a_limit() -> None:
    node = ListeningNode(connections_max_idle_ms="-1")
    node.admission.start()
    client = node.client()
    node.clock.advance(10**9)
    assert not client.closed


async def test_a_stopping_node_sends_pending_answers_and_serves_no_more() -> None:
    node = ListeningNode()
    client = node.client()
    send(client, b"later", b"two")
    (connection,) = node.admission
    connection.stop_serving()
    node.pending[b"later"].resolve(b"done")
    await run_callbacks()
    assert client.writes == [b"done"]
    connection.close()
    await asyncio.wait_for(node.admission.is_empty.wait(), 1)


def test_only_small_pieces_are_joined() -> None:
    large = bytes(MAX_JOINED_BYTES)
    assert join_small_pieces([b"a", b"b", large, b"c", memoryview(b"d")]) == [b"ab", large, b"cd"]
    assert join_small_pieces([large, large]) == [large, large]
    assert join_small_pieces([]) == []


class Waiter:
    """A queued connection without work."""

    def continue_turn(self) -> None:
        return


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stop the scheduler's time; the only element is the time."""
    time = [1000.0]
    monkeypatch.setattr("kafkalite.server.scheduler.perf_counter", lambda: time[0])
    return time


@pytest.mark.usefixtures("time")
async def test_a_client_that_has_sent_much_is_queued() -> None:
    node = ListeningNode()
    flood, light = node.client(), node.client()
    send(flood, *[bytes(8_000)] * 9)
    assert len(node.served) == 9, "the queue is empty"
    node.context.scheduler.enqueue(Waiter())
    send(flood, b"in its turn")
    send(light, b"at once")
    assert node.served[9:] == [b"at once"]
    await run_callbacks()
    assert node.served[9:] == [b"at once", b"in its turn"]
    node.context.scheduler.enqueue(Waiter())
    send(flood, b"little now")
    assert node.served[11:] == [b"little now"]


async def test_other_sockets_are_polled_after_a_read_turn(time: list[float]) -> None:
    node = ListeningNode()
    flood = node.client()
    large = bytes(LARGE_READ_BYTES)
    send(flood, large)
    assert not flood.paused
    time[0] += READ_TURN_S
    send(flood, large)
    assert flood.paused, "the event loop polls before it reads again"
    assert len(node.served) == 2
    await run_callbacks()
    assert not flood.paused
    send(flood, large)
    assert not flood.paused, "a new read turn has begun"
    time[0] += READ_TURN_S
    send(flood, b"little now")
    assert not flood.paused
    assert len(node.served) == 4


async def test_a_read_turn_includes_the_large_reads_of_all_clients(time: list[float]) -> None:
    node = ListeningNode()
    first, second, light = node.client(), node.client(), node.client()
    send(first, bytes(LARGE_READ_BYTES))
    time[0] += READ_TURN_S
    send(first, bytes(LARGE_READ_BYTES))
    send(second, bytes(LARGE_READ_BYTES - 4))
    send(light, b"small")
    assert [len(body) for body in node.served] == [LARGE_READ_BYTES, LARGE_READ_BYTES, 5]
    assert second.paused
    await run_callbacks()
    assert len(node.served) == 4
    assert not second.paused


async def test_an_answer_that_arrives_before_the_next_poll_is_sent(time: list[float]) -> None:
    node = ListeningNode()
    client = node.client()
    send(client, bytes(LARGE_READ_BYTES), b"later")
    time[0] += READ_TURN_S
    send(client, bytes(LARGE_READ_BYTES))
    node.pending[b"later"].resolve(b"answer")
    await run_callbacks()
    assert client.writes[1:] == [b"answer" + bytes(LARGE_READ_BYTES)]
    assert not client.paused


async def test_a_violation_after_a_read_turn_closes_the_connection(time: list[float]) -> None:
    node = ListeningNode()
    client = node.client()
    send(client, bytes(LARGE_READ_BYTES))
    time[0] += READ_TURN_S
    send(client, bytes(LARGE_READ_BYTES), b"bad")
    await run_callbacks()
    assert client.closed
    assert not node.context.scheduler.is_busy
