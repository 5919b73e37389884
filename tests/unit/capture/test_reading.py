"""Captures read: across files, at any damage, in the order of time, within bounds."""

# ruff: noqa: S311 - damage is to be repeatable
from __future__ import annotations

import tracemalloc
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalite.capture import reading
from kafkalite.capture.model import (
    Direction,
    Endpoint,
    Event,
    Frame,
    Opened,
    Problem,
    ProblemKind,
)
from kafkalite.capture.reading import exchanges, ignore, read
from tests.captures import damage, traffic
from tests.captures.damage import ACK, Wired
from tests.effort import examples
from tests.unit.frames import framed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from tests.captures.traffic import Said

MS = traffic.MS
FILE = st.sampled_from(sorted(damage.CONTAINERS))


def events_of(*paths: Path, ports: Sequence[int] = ()) -> tuple[list[Event], list[Problem]]:
    found: list[Problem] = []
    return list(read(paths, found.append, ports=ports)), found


def bodies(events: Sequence[Event], said: Said) -> dict[Direction, list[bytes]]:
    found: dict[Direction, list[bytes]] = {Direction.REQUEST: [], Direction.RESPONSE: []}
    for event in events:
        if isinstance(event, Frame) and event.connection.client == said.client:
            found[event.direction].append(event.body)
    return found


@pytest.mark.parametrize("files", [2, 7])
@pytest.mark.parametrize("container", ["pcap", "pcapng", "pcap gz"])
def test_connections_go_on_from_file_to_file(tmp_path: Path, files: int, container: str) -> None:
    said = traffic.clean(Random(1))
    packets = damage.segmented(traffic.packets(said), Random(0), 500)
    size = len(packets) // files + 1
    for number in range(files):
        part = packets[number * size : (number + 1) * size]
        (tmp_path / f"ring{number:03}").write_bytes(damage.kept(part, container=container))
    events, problems = events_of(tmp_path)
    assert problems == []
    for each in said:
        assert bodies(events, each) == each.frames
    assert sum(isinstance(event, Opened) for event in events) == len(said)


def test_captures_of_several_machines_are_one(tmp_path: Path) -> None:
    said = traffic.clean(Random(2), connections=4)
    for number, each in enumerate(said):
        path = tmp_path / f"machine-{number % 2}-{number}"
        path.write_bytes(damage.kept(each.talk.packets))
    events, problems = events_of(tmp_path)
    assert problems == []
    times = [event.at_ns for event in events]
    assert times == sorted(times)
    for each in said:
        assert bodies(events, each) == each.frames


def test_a_later_file_alone_is_read_from_where_frames_can_be_told(tmp_path: Path) -> None:
    said = traffic.clean(Random(3), connections=2)
    packets = traffic.packets(said)
    path = tmp_path / "late"
    path.write_bytes(damage.kept(packets[len(packets) // 2 :]))
    events, problems = events_of(path)
    assert {each.kind for each in problems} == {ProblemKind.MID_CONNECTION}
    for each in said:
        found = bodies(events, each)[Direction.REQUEST]
        assert found
        assert found == each.frames[Direction.REQUEST][-len(found) :]


def test_ports_used_again_are_connections_of_their_own(tmp_path: Path) -> None:
    (said,) = traffic.clean(Random(4), connections=1)
    for packets in (said.talk.packets, damage.without_farewell(said.talk.packets, Random(0))):
        path = tmp_path / "again"
        path.write_bytes(damage.kept(damage.again(packets)))
        events, problems = events_of(path)
        assert problems == []
        opened = [event for event in events if isinstance(event, Opened)]
        assert [each.connection.number for each in opened] == [0, 1]
        for number in (0, 1):
            here = [each for each in events if each.connection.number == number]
            assert bodies(here, said) == said.frames


def test_exchanges_have_what_was_asked_and_answered(tmp_path: Path) -> None:
    said = traffic.clean(Random(5))
    path = tmp_path / "f"
    path.write_bytes(damage.kept(traffic.packets(said)))
    found = list(exchanges(read([path], ignore)))
    for each in said:
        here = [pair for pair in found if pair.connection.client == each.client]
        here.sort(key=lambda pair: pair.position)
        assert [pair.request for pair in here] == each.frames[Direction.REQUEST]
        answered = [pair.response for pair in here if pair.response is not None]
        assert answered == each.frames[Direction.RESPONSE]
        assert [pair.correlation_id for pair in here] == list(range(len(here)))
        for pair in here:
            assert pair.answered_ns is None or pair.answered_ns > pair.sent_ns


def test_a_clock_that_is_set_back_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    said = traffic.clean(Random(6), connections=1)
    packets = traffic.packets(said)
    half = len(packets) // 2
    back = 3_600_000 * MS
    late = [replace(each, at_ns=each.at_ns - back) for each in packets[half:]]
    path = tmp_path / "f"
    path.write_bytes(damage.kept([*packets[:half], *late]))
    events, problems = events_of(path)
    assert [each.kind for each in problems] == [ProblemKind.CLOCK_JUMP]
    assert bodies(events, said[0]) == said[0].frames
    assert events[-1].at_ns < events[0].at_ns


def test_a_known_port_tells_who_the_broker_is(tmp_path: Path) -> None:
    said = traffic.clean(Random(7), connections=1)[0]
    packets = [
        replace(each, source=each.target, target=each.source)
        for each in said.talk.packets
        if each.payload and each.target == said.client
    ]
    path = tmp_path / "f"
    path.write_bytes(damage.kept(packets))  # what looks like requests is not even there
    events, problems = events_of(path, ports=[traffic.BROKER.port])
    assert events == []
    assert [each.kind for each in problems] == [ProblemKind.NOT_KAFKA]


def test_other_traffic_is_told_and_leaves_no_trace(tmp_path: Path) -> None:
    said = traffic.clean(Random(8), connections=1)[0]
    web = damage.Talk(Endpoint("10.9.8.7", 50_000), Endpoint("10.1.2.3", 80), traffic.START_NS)
    web.request(traffic.START_NS + MS, b"GET / HTTP/1.1\r\n\r\n")
    web.response(traffic.START_NS + 2 * MS, b"HTTP/1.1 200 OK\r\n\r\n")
    secret = damage.Talk(Endpoint("10.9.8.7", 50_001), traffic.BROKER, traffic.START_NS)
    secret.request(
        traffic.START_NS + MS, b"\x16\x03\x01\x00\xf0\x01\x00\x00\xec\x03\x03" + bytes(230)
    )
    packets = sorted(
        (*said.talk.packets, *web.packets, *secret.packets), key=lambda each: each.at_ns
    )
    path = tmp_path / "f"
    path.write_bytes(damage.kept(packets))
    events, problems = events_of(path)
    assert bodies(events, said) == said.frames
    assert {event.connection.client for event in events} == {said.client}
    assert {(each.kind, each.connection) for each in problems} == {
        (ProblemKind.NOT_KAFKA, "10.9.8.7:50000 > 10.1.2.3:80"),
        (ProblemKind.ENCRYPTED, "10.9.8.7:50001 > 10.1.2.3:9092"),
    }


def test_a_hole_that_nothing_fills_does_not_keep_everything(tmp_path: Path) -> None:
    """Fifty megabytes follow a hole that is never acknowledged."""
    client = Endpoint("10.9.8.7", 40_000)
    talk = damage.Talk(client, traffic.BROKER, traffic.START_NS, initials=(0, 0))
    payload = framed(traffic.request_frame(0, 9, 1, traffic.produce_request(-1, bytes(50_000))))
    behind = (
        Wired(
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
    path.write_bytes(damage.kept(packets))
    tracemalloc.start()
    try:
        count = sum(isinstance(each, Frame) for each in read([path], ignore))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 1000
    assert peak < 30_000_000


def test_events_are_held_back_only_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection waits for a retransmission; the others do not wait for it for ever."""
    monkeypatch.setattr(reading, "MAX_HELD_BYTES", 20_000)
    said = traffic.clean(Random(9), connections=2, count=60)
    holed, other = said
    first = next(each for each in holed.talk.packets if each.payload)
    quiet = [each for each in holed.talk.packets if each.source == holed.client and each != first]
    packets = sorted((*quiet, *other.talk.packets), key=lambda each: each.at_ns)
    path = tmp_path / "f"
    path.write_bytes(damage.kept(packets))
    sizes = []

    class Watched(reading._Held):
        def add(self, events: Iterable[Event]) -> None:
            super().add(events)
            sizes.append(self.size)

    monkeypatch.setattr(reading, "_Held", Watched)
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
def test_no_damage_raises_and_every_frame_is_one_that_was_said(
    tmp_path: Path,
    seed: int,
    damages: list[str],
    container: str,
    edits: list[tuple[float, bytes, int]],
) -> None:
    chance = Random(seed)
    said = traffic.clean(chance, connections=2, count=8)
    packets: Sequence[Wired] = traffic.packets(said)
    for name in damages:
        packets = damage.DAMAGES[name](packets, chance)
    data = damage.kept(packets, container=container)
    for place, put, dropped in edits:
        at = int(place * len(data))
        data = data[:at] + put + data[at + dropped :]
    path = tmp_path / "f"
    path.write_bytes(data)
    events, _ = events_of(path)
    list(exchanges(events))
    if not edits:
        for each in said:
            for direction, found in bodies(events, each).items():
                rest = iter(each.frames[direction])
                assert all(body in rest for body in found)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    head=st.sampled_from(
        [
            b"",
            damage.kept([]),
            damage.kept([], container="pcap"),
            damage.kept([], container="pcap ns big-endian", link="raw"),
            damage.kept([], container="pcapng big-endian", link="raw"),
            b"\x1f\x8b\x08\x00",
        ]
    ),
    data=st.binary(max_size=400),
)
def test_no_bytes_raise(tmp_path: Path, head: bytes, data: bytes) -> None:
    path = tmp_path / "f"
    path.write_bytes(head + data)
    events, problems = events_of(path)
    assert events == []
    assert problems or not data or not head
