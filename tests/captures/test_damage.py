"""Mutilated captures decode as the clean one does, less what is reported to be missing."""

# ruff: noqa: S311 - damage is to be repeatable
from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Direction, Frame, Gap, Problem, ProblemKind
from kafkalite.capture.reading import read
from tests.captures import damage, traffic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kafkalite.capture.model import Event
    from tests.captures.damage import Wired
    from tests.captures.traffic import Said

SEEDS = range(2)


def events_of(path: Path, data: bytes) -> tuple[list[Event], list[Problem]]:
    path.write_bytes(data)
    found: list[Problem] = []
    return list(read([path], found.append)), found


def frames_of(events: Sequence[Event], port: int) -> dict[Direction, list[bytes]]:
    bodies: dict[Direction, list[bytes]] = {Direction.REQUEST: [], Direction.RESPONSE: []}
    for event in events:
        if isinstance(event, Frame) and event.connection.client.port == port:
            bodies[event.direction].append(event.body)
    return bodies


def in_order(part: Sequence[bytes], whole: Sequence[bytes]) -> bool:
    """Whether `part` is `whole` with some left out."""
    rest = iter(whole)
    return all(each in rest for each in part)


def clean_traffic(seed: int) -> tuple[list[Said], list[Wired]]:
    said = traffic.clean(Random(seed))
    return said, traffic.packets(said)


@pytest.mark.parametrize(
    ("network", "link", "container"),
    [
        *((network, link, "pcap") for network in damage.NETWORKS for link in damage.LINKS),
        *(("ip6", "vlan", container) for container in damage.CONTAINERS),
    ],
)
def test_headers_and_files_of_every_kind_say_the_same(
    tmp_path: Path, network: str, link: str, container: str
) -> None:
    said = traffic.clean(Random(3), connections=2, count=6)
    data = damage.kept(traffic.packets(said), network=network, link=link, container=container)
    events, problems = events_of(tmp_path / "some.pcap", data)
    assert problems == []
    for each in said:
        assert frames_of(events, each.client.port) == each.frames


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", damage.HARMLESS)
def test_what_loses_nothing_changes_nothing(tmp_path: Path, name: str, seed: int) -> None:
    said, packets = clean_traffic(seed)
    events, problems = events_of(
        tmp_path / "some.pcap", damage.kept(damage.HARMLESS[name](packets, Random(seed)))
    )
    assert problems == []
    for each in said:
        assert frames_of(events, each.client.port) == each.frames
    times = [event.at_ns for event in events]
    if name != "disordered queues":
        assert times == sorted(times)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", damage.LOSSY)
def test_what_is_lost_is_reported_and_the_rest_is_read(
    tmp_path: Path, name: str, seed: int
) -> None:
    said, packets = clean_traffic(seed)
    events, problems = events_of(
        tmp_path / "some.pcap", damage.kept(damage.LOSSY[name](packets, Random(seed)))
    )
    gaps = [event for event in events if isinstance(event, Gap)]
    told = {problem.kind for problem in problems}
    is_late = name in {"begun late", "without handshake"}
    assert told <= {
        ProblemKind.GAP,
        ProblemKind.MID_CONNECTION,
        ProblemKind.TRUNCATED_PACKET,
    }
    assert bool(gaps) != is_late
    for each in said:
        found = frames_of(events, each.client.port)
        for direction in Direction:
            whole = each.frames[direction]
            assert in_order(found[direction], whole)
            is_touched = is_late or any(
                gap.direction is direction and gap.connection.client.port == each.client.port
                for gap in gaps
            )
            if not is_touched:
                assert found[direction] == whole
    times = [event.at_ns for event in events]
    assert times == sorted(times)
