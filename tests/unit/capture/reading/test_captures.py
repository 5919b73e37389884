"""Unit tests of reading captures: several files, damage, time order, memory."""

# ruff: noqa: S311 - random damage must be reproducible
from __future__ import annotations

import tracemalloc
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.capture.model import (
    Direction,
    Endpoint,
    Event,
    Frame,
    Opened,
    Problem,
    ProblemKind,
)
from kafkalite.capture.reading import captures as reading
from kafkalite.capture.reading.captures import exchanges, ignore, read
from tests.captures import damage, traffic
from tests.captures.damage import ACK, TcpPacket
from tests.effort import examples
from tests.unit.frames import framed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.captures.traffic import GeneratedConnection

MS = traffic.MS
FILE = st.sampled_from(sorted(damage.CONTAINERS))


def events_of(*paths: Path, ports: Sequence[int] = ()) -> tuple[list[Event], list[Problem]]:
    found: list[Problem] = []
    return list(read(paths, found.append, ports=ports)), found


def bodies(events: Sequence[Event], recorded: GeneratedConnection) -> dict[Direction, list[bytes]]:
    found: dict[Direction, list[bytes]] = {Direction.REQUEST: [], Direction.RESPONSE: []}
    for event in events:
        if isinstance(event, Frame) and event.connection.client == recorded.client:
            found[event.direction].append(event.body)
    return found


@pytest.mark.parametrize("files", [2, 7])
@pytest.mark.parametrize("container", ["pcap", "pcapng", "pcap gz"])
def test_connections_continue_over_files(tmp_path: Path, files: int, container: str) -> None:
    recorded = traffic.clean(Random(1))
    packets = damage.segment(traffic.packets(recorded), Random(0), 500)
    size = len(packets) // files + 1
    for number in range(files):
        part = packets[number * size : (number + 1) * size]
        (tmp_path / f"ring{number:03}").write_bytes(damage.capture_file(part, container=container))
    events, problems = events_of(tmp_path)
    assert problems == []
    for each in recorded:
        assert bodies(events, each) == each.frames
    assert sum(isinstance(event, Opened) for event in events) == len(recorded)


def test_captures_of_several_machines_are_merged(tmp_path: Path) -> None:
    recorded = traffic.clean(Random(2), connections=4)
    for number, each in enumerate(recorded):
        path = tmp_path / f"machine-{number % 2}-{number}"
        path.write_bytes(damage.capture_file(each.tcp.packets))
    events, problems = events_of(tmp_path)
    assert problems == []
    times = [event.at_ns for event in events]
    assert times == sorted(times)
    for each in recorded:
        assert bodies(events, each) == each.frames


def test_later_file_alone_is_read_from_the_first_found_frame(tmp_path: Path) -> None:
    recorded = traffic.clean(Random(3), connections=2)
    packets = traffic.packets(recorded)
    path = tmp_path / "late"
    path.write_bytes(damage.capture_file(packets[len(packets) // 2 :]))
    events, problems = events_of(path)
    assert {each.kind for each in problems} == {ProblemKind.MID_CONNECTION}
    for each in recorded:
        found = bodies(events, each)[Direction.REQUEST]
        assert found
        assert found == each.frames[Direction.REQUEST][-len(found) :]


def test_reused_ports_are_separate_connections(tmp_path: Path) -> None:
    (recorded,) = traffic.clean(Random(4), connections=1)
    for packets in (
        recorded.tcp.packets,
        damage.remove_close(recorded.tcp.packets, Random(0)),
    ):
        path = tmp_path / "again"
        path.write_bytes(damage.capture_file(damage.repeat_connections(packets)))
        events, problems = events_of(path)
        assert problems == []
        opened = [event for event in events if isinstance(event, Opened)]
        assert [each.connection.number for each in opened] == [0, 1]
        for number in (0, 1):
            here = [each for each in events if each.connection.number == number]
            assert bodies(here, recorded) == recorded.frames


def test_exchanges_equal_the_written_frames(tmp_path: Path) -> None:
    recorded = traffic.clean(Random(5))
    path = tmp_path / "f"
    path.write_bytes(damage.capture_file(traffic.packets(recorded)))
    found = list(exchanges(read([path], ignore)))
    for each in recorded:
        here = [pair for pair in found if pair.connection.client == each.client]
        here.sort(key=lambda pair: pair.position)
        assert [pair.request for pair in here] == each.frames[Direction.REQUEST]
        answered = [pair.response for pair in here if pair.response is not None]
        assert answered == each.frames[Direction.RESPONSE]
        assert [pair.correlation_id for pair in here] == list(range(len(here)))
        for pair in here:
            assert pair.answered_ns is None or pair.answered_ns > pair.sent_ns


def test_clock_set_back_is_reported_and_no_frame_is_lost(tmp_path: Path) -> None:
    recorded = traffic.clean(Random(6), connections=1)
    packets = traffic.packets(recorded)
    half = len(packets) // 2
    back = 3_600_000 * MS
    late = [replace(each, at_ns=each.at_ns - back) for each in packets[half:]]
    path = tmp_path / "f"
    path.write_bytes(damage.capture_file([*packets[:half], *late]))
    events, problems = events_of(path)
    assert [each.kind for each in problems] == [ProblemKind.CLOCK_JUMP]
    assert bodies(events, recorded[0]) == recorded[0].frames
    assert events[-1].at_ns < events[0].at_ns


def test_configured_port_decides_the_broker(tmp_path: Path) -> None:
    recorded = traffic.clean(Random(7), connections=1)[0]
    packets = [
        replace(each, source=each.target, target=each.source)
        for each in recorded.tcp.packets
        if each.payload and each.target == recorded.client
    ]
    path = tmp_path / "f"
    path.write_bytes(damage.capture_file(packets))  # without any requests
    events, problems = events_of(path, ports=[traffic.BROKER.port])
    assert events == []
    assert [each.kind for each in problems] == [ProblemKind.NOT_KAFKA]


def test_other_protocols_are_reported_without_events(tmp_path: Path) -> None:
    recorded = traffic.clean(Random(8), connections=1)[0]
    web = damage.TcpConnection(
        Endpoint("10.9.8.7", 50_000), Endpoint("10.1.2.3", 80), traffic.START_NS
    )
    web.request(traffic.START_NS + MS, b"GET / HTTP/1.1\r\n\r\n")
    web.response(traffic.START_NS + 2 * MS, b"HTTP/1.1 200 OK\r\n\r\n")
    secret = damage.TcpConnection(Endpoint("10.9.8.7", 50_001), traffic.BROKER, traffic.START_NS)
    secret.request(
        traffic.START_NS + MS, b"\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03" + bytes(230)
    )
    packets = sorted(
        (*recorded.tcp.packets, *web.packets, *secret.packets), key=lambda each: each.at_ns
    )
    path = tmp_path / "f"
    path.write_bytes(damage.capture_file(packets))
    events, problems = events_of(path)
    assert bodies(events, recorded) == recorded.frames
    assert {event.connection.client for event in events} == {recorded.client}
    assert {(each.kind, each.connection) for each in problems} == {
        (ProblemKind.NOT_KAFKA, "10.9.8.7:50000 > 10.1.2.3:80"),
        (ProblemKind.ENCRYPTED, "10.9.8.7:50001 > 10.1.2.3:9092"),
    }


def test_unfilled_gap_does_not_buffer_everything(tmp_path: Path) -> None:
    """Fifty megabytes follow a gap that is never acknowledged."""
    client = Endpoint("10.9.8.7", 40_000)
    talk = damage.TcpConnection(client, traffic.BROKER, traffic.START_NS, initials=(0, 0))
    payload = framed(traffic.request_frame(0, 9, 1, traffic.produce_request(-1, bytes(50_000))))
    behind = (
        TcpPacket(
            at_ns=traffic.START_NS + (1 + number) * 1000,
            source=client,
            target=traffic.BROKER,
            seq=1 + 777 + number * len(payload),
            ack=1,
            flags=ACK,
            payload=payload,
        )
        for number in range(1000)
    )
    packets = [*talk.packets, *behind]
    path = tmp_path / "f"
    path.write_bytes(damage.capture_file(packets))
    tracemalloc.start()
    try:
        count = sum(isinstance(each, Frame) for each in read([path], ignore))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 1000
    assert peak < 30_000_000


def test_buffered_events_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection waits for a retransmission; the others do not wait forever."""
    monkeypatch.setattr(reading, "MAX_BUFFERED_BYTES", 20_000)
    recorded = traffic.clean(Random(9), connections=2, count=60)
    holed, other = recorded
    first = next(each for each in holed.tcp.packets if each.payload)
    quiet = [each for each in holed.tcp.packets if each.source == holed.client and each != first]
    packets = sorted((*quiet, *other.tcp.packets), key=lambda each: each.at_ns)
    path = tmp_path / "f"
    path.write_bytes(damage.capture_file(packets))
    sizes = []

    class Watched(reading._EventBuffer):
        def add(self, events: Iterable[Event]) -> None:
            super().add(events)
            sizes.append(self.size)

    monkeypatch.setattr(reading, "_EventBuffer", Watched)
    list(read([path], ignore))
    assert 20_000 < max(sizes) < 100_000


@settings(
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(
    seed=st.integers(0, 10_000),
    damages=st.lists(st.sampled_from(sorted(damage.DAMAGES)), max_size=3),
    container=FILE,
    edits=st.lists(
        st.tuples(st.floats(0, 1), st.binary(max_size=9), st.integers(0, 40)), max_size=4
    ),
)
def test_damage_does_not_raise_and_all_frames_are_original(
    tmp_path: Path,
    seed: int,
    damages: list[str],
    container: str,
    edits: list[tuple[float, bytes, int]],
) -> None:
    chance = Random(seed)
    recorded = traffic.clean(chance, connections=2, count=8)
    packets: Sequence[TcpPacket] = traffic.packets(recorded)
    for name in damages:
        packets = damage.DAMAGES[name](packets, chance)
    data = damage.capture_file(packets, container=container)
    for place, put, dropped in edits:
        at = int(place * len(data))
        data = data[:at] + put + data[at + dropped :]
    path = tmp_path / "f"
    path.write_bytes(data)
    events, _ = events_of(path)
    list(exchanges(events))
    if not edits:
        for each in recorded:
            for direction, found in bodies(events, each).items():
                rest = iter(each.frames[direction])
                assert all(body in rest for body in found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    head=st.sampled_from(
        [
            b"",
            damage.capture_file([]),
            damage.capture_file([], container="pcap"),
            damage.capture_file([], container="pcap ns big-endian", link="raw"),
            damage.capture_file([], container="pcapng big-endian", link="raw"),
            b"\x1f\x8b\x08\x00",
        ]
    ),
    data=st.binary(max_size=400),
)
def test_arbitrary_bytes_do_not_raise(tmp_path: Path, head: bytes, data: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(head + data)
    events, problems = events_of(path)
    assert events == []
    assert problems or not data or not head
