"""Damaged captures decode to the same frames as clean ones, except for reported losses."""

# ruff: noqa: S311 - damage must be repeatable
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Direction, Frame, Gap, Problem, ProblemKind
from kafkalite.capture.reading.captures import read
from tests.captures import damage, traffic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.model import Event
    from tests.captures.damage import TcpPacket
    from tests.captures.traffic import GeneratedConnection

SEEDS = range(2)


def events_of(path: Path, data: bytes) -> tuple[list[Event], list[Problem]]:
    path.write_bytes(data)
    problems: list[Problem] = []
    return list(read([path], problems.append)), problems


def frames_of(events: Sequence[Event], port: int) -> dict[Direction, list[bytes]]:
    bodies: dict[Direction, list[bytes]] = {Direction.REQUEST: [], Direction.RESPONSE: []}
    for event in events:
        if isinstance(event, Frame) and event.connection.client.port == port:
            bodies[event.direction].append(event.body)
    return bodies


def is_subsequence(items: Sequence[bytes], sequence: Sequence[bytes]) -> bool:
    """Whether `items` is a subsequence of `sequence`."""
    remaining = iter(sequence)
    return all(item in remaining for item in items)


def clean_traffic(seed: int) -> tuple[list[GeneratedConnection], list[TcpPacket]]:
    connections = traffic.clean(Random(seed))
    return connections, traffic.packets(connections)


@pytest.mark.parametrize(
    ("network", "link", "container"),
    [
        *((network, link, "pcap") for network in damage.NETWORKS for link in damage.LINKS),
        *(("ip6", "vlan", container) for container in damage.CONTAINERS),
    ],
)
def test_every_kind_of_header_and_file_decodes_to_the_same_frames(
    tmp_path: Path, network: str, link: str, container: str
) -> None:
    connections = traffic.clean(Random(3), connections=2, count=6)
    data = damage.capture_file(
        traffic.packets(connections), network=network, link=link, container=container
    )
    events, problems = events_of(tmp_path / "some.pcap", data)
    assert problems == []
    for connection in connections:
        assert frames_of(events, connection.client.port) == connection.frames


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", damage.HARMLESS)
def test_damage_without_loss_does_not_change_frames(tmp_path: Path, name: str, seed: int) -> None:
    connections, packets = clean_traffic(seed)
    events, problems = events_of(
        tmp_path / "some.pcap", damage.capture_file(damage.HARMLESS[name](packets, Random(seed)))
    )
    assert problems == []
    for connection in connections:
        assert frames_of(events, connection.client.port) == connection.frames
    times = [event.at_ns for event in events]
    if name != "disordered queues":
        assert times == sorted(times)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", damage.LOSSY)
def test_losses_are_reported_and_other_frames_are_read(
    tmp_path: Path, name: str, seed: int
) -> None:
    connections, packets = clean_traffic(seed)
    events, problems = events_of(
        tmp_path / "some.pcap", damage.capture_file(damage.LOSSY[name](packets, Random(seed)))
    )
    gaps = [event for event in events if isinstance(event, Gap)]
    reported = {problem.kind for problem in problems}
    starts_late = name in {"late start", "without handshake"}
    assert reported <= {
        ProblemKind.GAP,
        ProblemKind.MID_CONNECTION,
        ProblemKind.TRUNCATED_PACKET,
    }
    assert bool(gaps) != starts_late
    for connection in connections:
        frames = frames_of(events, connection.client.port)
        for direction in Direction:
            expected = connection.frames[direction]
            assert is_subsequence(frames[direction], expected)
            is_affected = starts_late or any(
                gap.direction is direction and gap.connection.client.port == connection.client.port
                for gap in gaps
            )
            if not is_affected:
                assert frames[direction] == expected
    times = [event.at_ns for event in events]
    assert times == sorted(times)
