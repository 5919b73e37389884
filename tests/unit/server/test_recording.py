"""Recorded connections work like others, and every byte is recorded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from kafkalite.capture.model import Endpoint
from kafkalite.server.connection import MAX_JOINED_BYTES, Connection
from kafkalite.server.recording import Recording
from kafkalite.wire.frames import SHARED_BUFFER_BYTES
from kafkalite.wire.session import BURST_BYTES
from tests.unit.server.test_connection import FakeTransport, ListeningNode, run_callbacks, send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.capture.recording.recorder import Recorder


class RecordingTap:
    """A recorder with one tap, which store what they receive."""

    def __init__(self) -> None:
        self.received_bytes = b""
        self.sent_bytes = b""
        self.is_closed = False
        self.is_lost = False
        self.ends: dict[str, Any] = {}
        self.directory = "a directory"

    def open(self, **ends: Endpoint | int | str) -> RecordingTap:
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


def connected(recording: Recording | None = None) -> tuple[RecordingTap, FakeTransport]:
    tap, node = RecordingTap(), ListeningNode()
    if recording is None:
        recording = Recording(cast("Recorder", tap))
    protocol = recording.protocol_of(Connection(node.context))
    transport = FakeTransport(protocol, "10.0.0.1", 40_001)
    protocol.connection_made(transport)
    return tap, transport


def receive(client: FakeTransport, data: bytes) -> None:
    """Receive bytes that may be less than a frame."""
    client.connection.get_buffer(-1)[: len(data)] = data
    client.connection.buffer_updated(len(data))


async def test_all_traffic_is_recorded() -> None:
    tap, client = connected()
    send(client, b"one", b"two")
    send(client, b"big")
    assert client.writes == [b"onetwo", bytes(BURST_BYTES)]
    assert BURST_BYTES > MAX_JOINED_BYTES, "so both ways to write were gone"
    assert tap.received_bytes == b"\0\0\0\3one\0\0\0\3two\0\0\0\3big"
    assert tap.sent_bytes == b"".join(client.writes)
    assert tap.ends["client"] == Endpoint("10.0.0.1", 40_001)
    assert (tap.ends["node_id"], tap.ends["listener"]) == (1, "PLAINTEXT")


async def test_the_end_of_a_connection_is_recorded() -> None:
    tap, client = connected()
    send(client, b"bad")
    await run_callbacks()
    assert client.closed
    assert tap.is_closed
    assert tap.received_bytes == b"\0\0\0\3bad"
    assert tap.sent_bytes == b""


async def test_the_memory_of_a_large_frame_is_released() -> None:
    context = ListeningNode().context
    settings = context.session_settings._replace(max_request_bytes=4 * SHARED_BUFFER_BYTES)
    recording = Recording(cast("Recorder", RecordingTap()))
    connection = recording.protocol_of(Connection(context._replace(session_settings=settings)))
    connection.connection_made(FakeTransport(connection, "10.0.0.1", 40_001))
    part = (2 * SHARED_BUFFER_BYTES).to_bytes(4) + bytes(SHARED_BUFFER_BYTES - 4)
    for _ in range(2):
        space = connection.get_buffer(-1)
        memory = space.obj
        space[: len(part)] = part
        del space
        connection.buffer_updated(len(part))
    connection.connection_lost(None)
    assert isinstance(memory, bytearray)
    assert memory is not settings.buffers.shared
    memory.append(0)  # raises BufferError while a view exists


async def test_after_lost_data_recording_resumes_with_a_complete_request() -> None:
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


async def test_backpressure_is_forwarded() -> None:
    tap, client = connected()
    client.is_stuck = True
    send(client, b"one")
    send(client, b"two")
    assert tap.sent_bytes == b"one"
    client.unstick()
    assert tap.sent_bytes == b"onetwo"
    assert tap.received_bytes == b"\0\0\0\3one\0\0\0\3two"


async def test_a_connected_client_is_recorded_from_its_next_request_on() -> None:
    recording = Recording()
    node, tap = ListeningNode(), RecordingTap()
    client = node.client()
    connection = client.connection
    send(client, b"zero")
    recording.start(cast("Recorder", tap), node.admission)
    assert client.connection is not connection
    assert tap.ends == {}

    send(client, b"one")
    assert tap.ends["client"] == Endpoint("10.0.0.1", 40_001)
    assert recording.stop() is cast("Recorder", tap)
    assert tap.is_closed
    assert client.connection is connection

    send(client, b"two")
    assert (tap.received_bytes, tap.sent_bytes) == (b"\0\0\0\3one", b"one")
    assert client.writes == [b"zero", b"one", b"two"]
    assert recording.stop() is None


async def test_a_request_in_progress_at_the_start_is_not_recorded() -> None:
    recording = Recording()
    node, tap = ListeningNode(), RecordingTap()
    client = node.client()
    send(client, b"later")
    recording.start(cast("Recorder", tap), node.admission)
    send(client, b"one")
    node.pending[b"later"].resolve(b"at last")
    await run_callbacks()
    assert b"".join(client.writes) == b"at lastone"
    assert tap.ends == {}
    send(client, b"two")
    assert (tap.received_bytes, tap.sent_bytes) == (b"\0\0\0\3two", b"two")


async def test_a_pending_answer_is_sent_after_the_recording_stops() -> None:
    tap, node = RecordingTap(), ListeningNode()
    recording = Recording()
    client = node.client()
    recording.start(cast("Recorder", tap), node.admission)
    send(client, b"later")
    recording.stop()
    node.pending[b"later"].resolve(b"at last")
    await run_callbacks()
    assert client.writes == [b"at last"]
    assert tap.sent_bytes == b""
    client.close()
    await run_callbacks()
    assert list(node.admission) == []


async def test_a_second_recording_is_rejected() -> None:
    tap = RecordingTap()
    recording = Recording()
    recording.start(cast("Recorder", tap), ())
    with pytest.raises(RuntimeError, match="already recorded in a directory"):
        recording.start(cast("Recorder", tap), ())


async def test_connections_are_recorded_only_during_a_recording() -> None:
    recording = Recording()
    tap, client = RecordingTap(), connected(recording)[1]
    assert isinstance(client.connection, Connection)
    recording.start(cast("Recorder", tap), ())
    connected(recording)
    assert tap.ends["client"] == Endpoint("10.0.0.1", 40_001)
