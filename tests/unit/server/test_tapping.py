"""A recorded connection: serves as any other, and every byte passes the tap once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kafkalite.capture.model import Endpoint
from kafkalite.server.connection import JOINED_BYTES
from kafkalite.server.tapping import RecordedConnection
from kafkalite.wire.frames import SHARED_BYTES
from kafkalite.wire.session import BURST_BYTES
from tests.unit.server.test_connection import FakeTransport, Node, send, settle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.recorder import Recorder


class HeardTap:
    """A recorder and its one tap, which keep what they hear."""

    def __init__(self) -> None:
        self.received_bytes = b""
        self.sent_bytes = b""
        self.is_closed = False
        self.is_lost = False
        self.ends: dict[str, Any] = {}

    def open(self, **ends: Endpoint | int | str) -> HeardTap:
        self.ends = ends
        return self

    def begin(self) -> None:
        self.is_lost = False
        self.received_bytes = self.sent_bytes = b""

    def received(self, data: memoryview) -> None:
        self.received_bytes += bytes(data)

    def sent(self, pieces: Sequence[bytes | memoryview]) -> None:
        self.sent_bytes += b"".join(pieces)

    def close(self) -> None:
        self.is_closed = True


def connected() -> tuple[HeardTap, FakeTransport]:
    tap, node = HeardTap(), Node()
    connection = RecordedConnection(node.door._replace(recorder=cast("Recorder", tap)))
    transport = FakeTransport(connection, "10.0.0.1", 40_001)
    connection.connection_made(transport)
    return tap, transport


def receive(client: FakeTransport, data: bytes) -> None:
    """Bring bytes that may be less than a frame."""
    client.connection.get_buffer(-1)[: len(data)] = data
    client.connection.buffer_updated(len(data))


async def test_what_is_served_is_what_is_recorded() -> None:
    tap, client = connected()
    send(client, b"one", b"two")
    send(client, b"big")
    assert client.writes == [b"onetwo", bytes(BURST_BYTES)]
    assert BURST_BYTES > JOINED_BYTES, "so both ways to write were gone"
    assert tap.received_bytes == b"\0\0\0\3one\0\0\0\3two\0\0\0\3big"
    assert tap.sent_bytes == b"".join(client.writes)
    assert tap.ends["client"] == Endpoint("10.0.0.1", 40_001)
    assert (tap.ends["node_id"], tap.ends["listener"]) == (1, "PLAINTEXT")


async def test_what_ends_a_connection_is_recorded_too() -> None:
    tap, client = connected()
    send(client, b"bad")
    await settle()
    assert client.closed
    assert tap.is_closed
    assert tap.received_bytes == b"\0\0\0\3bad"
    assert tap.sent_bytes == b""


async def test_the_memory_of_a_large_frame_is_not_held_on_to() -> None:
    recorder = cast("Recorder", HeardTap())
    door = Node().door._replace(recorder=recorder, max_request_bytes=4 * SHARED_BYTES)
    connection = RecordedConnection(door)
    connection.connection_made(FakeTransport(connection, "10.0.0.1", 40_001))
    part = (2 * SHARED_BYTES).to_bytes(4) + bytes(SHARED_BYTES - 4)
    for _ in range(2):
        space = connection.get_buffer(-1)
        memory = space.obj
        space[: len(part)] = part
        del space
        connection.buffer_updated(len(part))
    connection.connection_lost(None)
    assert isinstance(memory, bytearray)
    assert memory is not door.buffers.shared
    memory.append(0)  # BufferError where somebody still looks at it


async def test_what_was_lost_is_recorded_again_from_a_whole_request_on() -> None:
    tap, client = connected()
    send(client, b"one")
    tap.is_lost = True
    receive(client, b"\0\0\0\5thr")
    assert not tap.is_lost, "nothing was under way before"
    tap.is_lost = True
    receive(client, b"ee")
    assert tap.is_lost
    send(client, b"four")
    assert not tap.is_lost
    assert tap.received_bytes == b"\0\0\0\4four"
    assert tap.sent_bytes == b"four"


async def test_backpressure_passes_the_tap() -> None:
    tap, client = connected()
    client.is_stuck = True
    send(client, b"one")
    send(client, b"two")
    assert tap.sent_bytes == b"one"
    client.unstick()
    assert tap.sent_bytes == b"onetwo"
    assert tap.received_bytes == b"\0\0\0\3one\0\0\0\3two"
