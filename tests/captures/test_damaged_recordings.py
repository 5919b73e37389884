"""Damaged recordings of real clients decode to the same frames, except for reported losses."""

# ruff: noqa: S311 - damage must be repeatable
from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Direction, Endpoint, Event, Frame, Problem, ProblemKind
from kafkalite.capture.reading.captures import ignore, read
from kafkalite.capture.reading.merging import segments
from kafkalite.capture.reading.packets import reverse, sender
from tests.captures import damage
from tests.captures.damage import TcpPacket

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDINGS = sorted((Path(__file__).parent / "kafka-4.3.1").glob("*.pcapng.gz"))
IN_EVERY_RUN = {"java-consumer"}
"""Recordings for every run; the others are read in the long run only."""

Stream = tuple[Endpoint, Direction]


def recordings() -> list[object]:
    names = {path: path.name.partition(".")[0] for path in RECORDINGS}
    return [
        pytest.param(path, id=name, marks=() if name in IN_EVERY_RUN else [pytest.mark.endurance])
        for path, name in names.items()
    ]


def tcp_packets(path: Path) -> list[TcpPacket]:
    """Return a recording's packets as input for damage."""
    return [
        TcpPacket(
            at_ns=segment.at_ns,
            source=sender(segment.flow),
            target=sender(reverse(segment.flow)),
            seq=segment.seq,
            ack=segment.ack,
            flags=segment.flags,
            payload=segment.payload,
        )
        for segment in segments([path], ignore)
    ]


def frames(events: Iterable[Event]) -> dict[Stream, list[bytes]]:
    bodies: dict[Stream, list[bytes]] = defaultdict(list)
    for event in events:
        if isinstance(event, Frame):
            bodies[event.connection.client, event.direction].append(event.body)
    return bodies


@pytest.mark.parametrize("name", damage.DAMAGES)
@pytest.mark.parametrize("recording", recordings())
def test_damaged_recording_decodes_except_for_reported_losses(
    tmp_path: Path, recording: Path, name: str
) -> None:
    clean = frames(read([recording], ignore))
    path = tmp_path / "damaged.pcap"
    path.write_bytes(damage.capture_file(damage.DAMAGES[name](tcp_packets(recording), Random(1))))
    problems: list[Problem] = []
    events = list(read([path], problems.append))
    damaged = frames(events)
    if name in damage.HARMLESS:
        assert damaged == clean
        assert problems == []
        return
    starts_late = name in {"late start", "without handshake"}
    assert problems or starts_late
    assert damaged.keys() <= clean.keys()
    # A connection without any readable frame has no events, but its gaps are reported.
    affected = {
        (problem.connection, direction)
        for problem in problems
        for direction in Direction
        if problem.kind is ProblemKind.GAP and direction.name.lower() in problem.detail
    }
    for (client, direction), bodies in clean.items():
        remaining = iter(bodies)
        readable = damaged[client, direction]
        assert all(body in remaining for body in readable)
        is_affected = any(
            str(connection).startswith(f"{client} >") and affected_direction is direction
            for connection, affected_direction in affected
        )
        assert starts_late or is_affected or readable == bodies
