"""Unit tests of writing captures: they are read back, and must equal the written bytes."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.capture.formats.capture_files import Packet, open_window
from kafkalite.capture.formats.comments import PacketNote, parse_packet_note
from kafkalite.capture.formats.pcapng_reader import packets
from kafkalite.capture.model import Closed, Endpoint, Frame, Opened
from kafkalite.capture.recording.capture_writer import (
    CaptureOptions,
    CaptureWriter,
    OpenedConnection,
)
from kafkalite.capture.recording.frame_policy import FramePolicy
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.capture.recorded import BROKER, CLIENT, events_of, frames_of
from tests.unit.frames import framed, request_frame, response_frame

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kafkalite.capture.model import Problem

NS = 1_795_328_756_000_000_000
ENDS = OpenedConnection(CLIENT, BROKER, 1, "PLAINTEXT")
LONG_NAMES = [
    MetadataRequest.MetadataRequestTopic(name="x" * 100 + str(number)) for number in range(1500)
]
HELLO = request_frame(
    ApiVersionsRequest(client_software_name="lib", client_software_version="1"),
    3,
    correlation_id=1,
)
WELCOME = response_frame(ApiVersionsResponse(), 3, correlation_id=1)
LARGE = request_frame(MetadataRequest(topics=LONG_NAMES), 4, correlation_id=2)
ANSWER = response_frame(MetadataResponse(), 4, correlation_id=2)

HOSTILE = st.builds(
    lambda key, version, body: framed(pack(">hhih", key, version, 1, -1) + body),
    st.sampled_from([0, 1, 3, 17, 18, 19, 32, 33, 36, 38, 39, 40, 41, 44, 51, 58, 78, 999]),
    st.integers(0, 14),
    st.binary(max_size=200),
)


def new_capture(directory: Path, **options: object) -> CaptureWriter:
    warnings: list[str] = []
    capture = CaptureWriter(str(directory), CaptureOptions(**options), warnings.append)  # type: ignore[arg-type]
    capture.begin(NS)
    return capture


def packets_of(path: Path) -> list[Packet]:
    problems: list[Problem] = []
    with open_window(str(path), problems.append) as file:
        assert file.buffer_bytes(4)
        found = list(packets(file))
    assert problems == []
    return found


def test_written_connection_is_read_back(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.open_connection(7, NS + 1, ENDS)
    capture.write_received(7, NS + 2, HELLO)
    capture.write_sent(7, NS + 3, WELCOME)
    capture.write_received(7, NS + 4, LARGE)
    capture.write_sent(7, NS + 5, ANSWER)
    capture.close_connection(7, NS + 6)
    capture.close(NS + 7)
    events = events_of(tmp_path)
    frames = [each for each in events if isinstance(each, Frame)]
    assert [each.body for each in frames] == [each[4:] for each in (HELLO, WELCOME, LARGE, ANSWER)]
    assert [each.at_ns for each in frames] == [NS + 2, NS + 3, NS + 4, NS + 5]
    connection = frames[0].connection
    assert (connection.client, connection.broker) == (CLIENT, BROKER)
    assert (connection.node_id, connection.listener) == (1, "PLAINTEXT")
    assert connection.opened_ns == NS + 1
    assert isinstance(events[0], Opened)
    assert isinstance(events[-1], Closed)


@given(st.lists(st.integers(1, 170_000), max_size=12))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rotation_loses_no_bytes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("rotated")
    capture = new_capture(directory, file_bytes=100_000)
    capture.open_connection(0, NS, ENDS)
    stream = HELLO + LARGE * 2
    at = 0
    for nth, size in enumerate([*sizes, len(stream)]):
        capture.write_received(0, NS + nth, stream[at : at + size])
        at += size
    for nth, frame in enumerate((WELCOME, ANSWER, ANSWER)):
        capture.write_sent(0, NS + 50 + nth, frame)
    capture.close_connection(0, NS + 60)
    capture.close(NS + 61)
    assert len(list(directory.iterdir())) >= 2
    assert frames_of(directory) == [
        each[4:] for each in (HELLO, LARGE, LARGE, WELCOME, ANSWER, ANSWER)
    ]


def test_next_file_introduces_open_connections(tmp_path: Path) -> None:
    capture = new_capture(tmp_path, file_bytes=66_000)
    capture.open_connection(0, NS, ENDS)
    capture.write_received(0, NS + 1, HELLO)
    capture.write_received(0, NS + 2, LARGE[:70_000])
    capture.write_sent(0, NS + 3, WELCOME)
    capture.write_received(0, NS + 4, LARGE[70_000:])
    capture.close(NS + 5)
    first, second = sorted(tmp_path.iterdir())
    notes = [parse_packet_note(each.comment) for each in packets_of(first)]
    assert [each.software for each in notes] == [None, None, None, "lib", None]
    later_notes = [parse_packet_note(each.comment) for each in packets_of(second)]
    introduced = PacketNote(
        opened=NS, client="127.0.0.1:40000", software="lib", software_version="1"
    )
    assert later_notes[0] == introduced
    assert later_notes[1].inside == len(LARGE) - 65_480
    assert later_notes[1].opened == NS
    assert later_notes[2:] == [PacketNote()] * (len(later_notes) - 2)


def test_file_can_have_only_the_end_of_a_connection(tmp_path: Path) -> None:
    capture = new_capture(tmp_path, file_s=1)
    capture.open_connection(0, NS, ENDS)
    capture.write_received(0, NS, HELLO)
    capture.close_connection(0, NS + 2_000_000_000)
    capture.close(NS + 2_000_000_000)
    _, second = sorted(tmp_path.iterdir())
    notes = [parse_packet_note(each.comment) for each in packets_of(second)]
    assert [each.opened for each in notes] == [NS, None, None]


def test_each_node_and_listener_is_an_interface(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    listeners = [(1, "A"), (2, "A"), (1, "B"), (1, "A")]
    for number, listener in enumerate(listeners):
        ends = OpenedConnection(Endpoint("127.0.0.1", 1000 + number), BROKER, *listener)
        capture.open_connection(number, NS, ends)
    capture.close(NS)
    (path,) = tmp_path.iterdir()
    names = [each.interface.name for each in packets_of(path)][::3]
    assert names == ["node-1-A", "node-2-A", "node-1-B", "node-1-A"]


def test_invalid_address_is_replaced(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.open_connection(
        0, NS, OpenedConnection(Endpoint("", 0), Endpoint("fe80::1%eth0", 70_000), -1, "X")
    )
    capture.write_received(0, NS, HELLO)
    capture.close(NS)
    (frame,) = (each for each in events_of(tmp_path) if isinstance(each, Frame))
    assert frame.connection.node_id == -1


def test_unknown_connections_are_ignored(tmp_path: Path) -> None:
    capture = new_capture(tmp_path)
    capture.open_connection(0, NS, ENDS)
    capture.drop_connections()
    capture.write_received(0, NS, HELLO)
    capture.write_sent(5, NS, WELCOME)
    capture.close_connection(0, NS)
    capture.close(NS)
    assert frames_of(tmp_path) == []


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=300) | HOSTILE), max_size=12))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_hostile_bytes_do_not_stop_writing_and_are_complete(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, bytes]]
) -> None:
    directory = tmp_path_factory.mktemp("hostile")
    warnings: list[str] = []
    capture = CaptureWriter(str(directory), CaptureOptions(max_field_bytes=2), warnings.append)
    capture.begin(NS)
    capture.open_connection(0, NS, ENDS)
    for is_request, data in steps:
        (capture.write_received if is_request else capture.write_sent)(0, NS, data)
    capture.close_connection(0, NS)
    capture.close(NS)
    (path,) = directory.iterdir()
    assert warnings == []
    whole = sum(len(each.data) - 40 for each in packets_of(path)[3:-3])
    assert whole == sum(len(data) for _, data in steps)


def test_internal_error_stops_only_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    capture = CaptureWriter(str(tmp_path), CaptureOptions(), warnings.append)
    capture.begin(NS)
    with monkeypatch.context() as patched:
        patched.setattr(FramePolicy, "request_treatment", lambda *_: 1 / 0)
        capture.open_connection(0, NS, ENDS)
        capture.write_received(0, NS, HELLO)
    capture.open_connection(1, NS, ENDS._replace(client=Endpoint("127.0.0.1", 2)))
    capture.write_received(0, NS, HELLO)
    capture.write_received(1, NS, HELLO)
    capture.close(NS)
    assert frames_of(tmp_path) == [HELLO[4:]]
    assert len(warnings) == 1
    assert "stopped recording 127.0.0.1:40000" in warnings[0]


def test_memory_per_connection_is_small(tmp_path: Path) -> None:
    import tracemalloc  # noqa: PLC0415 - slows everything down once imported

    capture = new_capture(tmp_path)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    count = 500
    for number in range(count):
        capture.open_connection(number, NS, ENDS._replace(client=Endpoint("127.0.0.1", number)))
        capture.write_received(number, NS, HELLO)
        capture.write_sent(number, NS, WELCOME)
        capture.flush()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    capture.close(NS)
    assert grown / count < 8_000
