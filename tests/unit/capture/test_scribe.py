"""A whole capture, made in this process: what is read back is what passed."""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.capture.blocks import Packet, window
from kafkalite.capture.judging import Judge
from kafkalite.capture.model import Closed, Endpoint, Frame, Opened
from kafkalite.capture.notes import PacketNote, packet_note
from kafkalite.capture.scribe import CaptureOptions, Ends, Scribe
from kafkalite.capture.sections import packets
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.capture.recorded import BROKER, CLIENT, events_of, frames_of
from tests.unit.frames import framed, request_frame, response_frame

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from kafkalite.capture.model import Problem

NS = 1_795_328_756_000_000_000
ENDS = Ends(CLIENT, BROKER, 1, "PLAINTEXT")
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


def begun(directory: Path, **options: object) -> Scribe:
    told: list[str] = []
    scribe = Scribe(str(directory), CaptureOptions(**options), told.append)  # type: ignore[arg-type]
    scribe.begin(NS)
    return scribe


def packets_of(path: Path) -> list[Packet]:
    problems: list[Problem] = []
    with window(str(path), problems.append) as file:
        assert file.has(4)
        found = list(packets(file))
    assert problems == []
    return found


def test_a_conversation_is_read_back(tmp_path: Path) -> None:
    scribe = begun(tmp_path)
    scribe.opened(7, NS + 1, ENDS)
    scribe.received(7, NS + 2, HELLO)
    scribe.sent(7, NS + 3, WELCOME)
    scribe.received(7, NS + 4, LARGE)
    scribe.sent(7, NS + 5, ANSWER)
    scribe.closed(7, NS + 6)
    scribe.close(NS + 7)
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
def test_rotation_loses_nothing_wherever_it_falls(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("rotated")
    scribe = begun(directory, file_bytes=100_000)
    scribe.opened(0, NS, ENDS)
    stream = HELLO + LARGE * 2
    at = 0
    for nth, size in enumerate([*sizes, len(stream)]):
        scribe.received(0, NS + nth, stream[at : at + size])
        at += size
    for nth, frame in enumerate((WELCOME, ANSWER, ANSWER)):
        scribe.sent(0, NS + 50 + nth, frame)
    scribe.closed(0, NS + 60)
    scribe.close(NS + 61)
    assert len(list(directory.iterdir())) >= 2
    assert frames_of(directory) == [
        each[4:] for each in (HELLO, LARGE, LARGE, WELCOME, ANSWER, ANSWER)
    ]


def test_a_file_introduces_connections_that_go_on(tmp_path: Path) -> None:
    scribe = begun(tmp_path, file_bytes=66_000)
    scribe.opened(0, NS, ENDS)
    scribe.received(0, NS + 1, HELLO)
    scribe.received(0, NS + 2, LARGE[:70_000])
    scribe.sent(0, NS + 3, WELCOME)
    scribe.received(0, NS + 4, LARGE[70_000:])
    scribe.close(NS + 5)
    first, second = sorted(tmp_path.iterdir())
    told = [packet_note(each.comment) for each in packets_of(first)]
    assert [each.software for each in told] == [None, None, None, "lib", None]
    again = [packet_note(each.comment) for each in packets_of(second)]
    introduced = PacketNote(
        opened=NS, client="127.0.0.1:40000", software="lib", software_version="1"
    )
    assert again[0] == introduced
    assert again[1].inside == len(LARGE) - 65_480
    assert again[1].opened == NS
    assert again[2:] == [PacketNote()] * (len(again) - 2)


def test_the_end_of_a_connection_may_be_all_a_file_has(tmp_path: Path) -> None:
    scribe = begun(tmp_path, file_s=1)
    scribe.opened(0, NS, ENDS)
    scribe.received(0, NS, HELLO)
    scribe.closed(0, NS + 2_000_000_000)
    scribe.close(NS + 2_000_000_000)
    _, second = sorted(tmp_path.iterdir())
    notes = [packet_note(each.comment) for each in packets_of(second)]
    assert [each.opened for each in notes] == [NS, None, None]


def test_each_door_is_an_interface(tmp_path: Path) -> None:
    scribe = begun(tmp_path)
    doors = [(1, "A"), (2, "A"), (1, "B"), (1, "A")]
    for number, door in enumerate(doors):
        ends = Ends(Endpoint("127.0.0.1", 1000 + number), BROKER, *door)
        scribe.opened(number, NS, ends)
    scribe.close(NS)
    (path,) = tmp_path.iterdir()
    names = [each.interface.name for each in packets_of(path)][::3]
    assert names == ["node-1-A", "node-2-A", "node-1-B", "node-1-A"]


def test_an_address_that_is_none_is_nowhere(tmp_path: Path) -> None:
    scribe = begun(tmp_path)
    scribe.opened(0, NS, Ends(Endpoint("", 0), Endpoint("fe80::1%eth0", 70_000), -1, "X"))
    scribe.received(0, NS, HELLO)
    scribe.close(NS)
    (frame,) = (each for each in events_of(tmp_path) if isinstance(each, Frame))
    assert frame.connection.node_id == -1


def test_connections_that_are_not_known_are_passed_over(tmp_path: Path) -> None:
    scribe = begun(tmp_path)
    scribe.opened(0, NS, ENDS)
    scribe.lose_all()
    scribe.received(0, NS, HELLO)
    scribe.sent(5, NS, WELCOME)
    scribe.closed(0, NS)
    scribe.close(NS)
    assert frames_of(tmp_path) == []


@given(st.lists(st.tuples(st.booleans(), st.binary(max_size=300) | HOSTILE), max_size=12))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_can_stop_it_nor_are_any_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, bytes]]
) -> None:
    directory = tmp_path_factory.mktemp("hostile")
    told: list[str] = []
    scribe = Scribe(str(directory), CaptureOptions(snap_records=2), told.append)
    scribe.begin(NS)
    scribe.opened(0, NS, ENDS)
    for is_request, data in steps:
        (scribe.received if is_request else scribe.sent)(0, NS, data)
    scribe.closed(0, NS)
    scribe.close(NS)
    (path,) = directory.iterdir()
    assert told == []
    whole = sum(len(each.data) - 40 for each in packets_of(path)[3:-3])
    assert whole == sum(len(data) for _, data in steps)


def test_a_fault_of_ours_costs_one_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    scribe = Scribe(str(tmp_path), CaptureOptions(), told.append)
    scribe.begin(NS)
    with monkeypatch.context() as patched:
        patched.setattr(Judge, "request", lambda *_: 1 / 0)
        scribe.opened(0, NS, ENDS)
        scribe.received(0, NS, HELLO)
    scribe.opened(1, NS, ENDS._replace(client=Endpoint("127.0.0.1", 2)))
    scribe.received(0, NS, HELLO)
    scribe.received(1, NS, HELLO)
    scribe.close(NS)
    assert frames_of(tmp_path) == [HELLO[4:]]
    assert len(told) == 1
    assert "127.0.0.1:40000 is recorded no further" in told[0]


def test_what_a_connection_keeps_is_little(tmp_path: Path) -> None:
    import tracemalloc  # noqa: PLC0415 - slows everything down once it is there

    scribe = begun(tmp_path)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    count = 500
    for number in range(count):
        scribe.opened(number, NS, ENDS._replace(client=Endpoint("127.0.0.1", number)))
        scribe.received(number, NS, HELLO)
        scribe.sent(number, NS, WELCOME)
        scribe.flush()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    scribe.close(NS)
    assert grown / count < 8_000
