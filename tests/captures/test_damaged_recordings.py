"""Recordings of real clients, mutilated in every way: read as they were, less what is missing."""

# ruff: noqa: S311 - damage is to be repeatable
from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.merging import segments
from kafkalite.capture.model import Direction, Endpoint, Event, Frame, Problem, ProblemKind
from kafkalite.capture.packets import reverse, sender
from kafkalite.capture.reading import ignore, read
from tests.captures import damage
from tests.captures.damage import Wired

if TYPE_CHECKING:
    from collections.abc import Iterable

RECORDINGS = sorted((Path(__file__).parent / "kafka-4.3.1").glob("*.pcapng.gz"))
DAILY = {"java-consumer"}
"""Read with every run; the others with the long one."""

Lane = tuple[Endpoint, Direction]


def recordings() -> list[object]:
    names = {path: path.name.partition(".")[0] for path in RECORDINGS}
    return [
        pytest.param(path, id=name, marks=() if name in DAILY else [pytest.mark.endurance])
        for path, name in names.items()
    ]


def wired(path: Path) -> list[Wired]:
    """Return a recording's packets as they can be mutilated."""
    return [
        Wired(
            at_ns=each.at_ns,
            source=sender(each.flow),
            target=sender(reverse(each.flow)),
            seq=each.seq,
            ack=each.ack,
            flags=each.flags,
            payload=each.payload,
        )
        for each in segments([path], ignore)
    ]


def frames(events: Iterable[Event]) -> dict[Lane, list[bytes]]:
    found: dict[Lane, list[bytes]] = defaultdict(list)
    for event in events:
        if isinstance(event, Frame):
            found[event.connection.client, event.direction].append(event.body)
    return found


@pytest.mark.parametrize("name", damage.DAMAGES)
@pytest.mark.parametrize("recording", recordings())
def test_a_mutilated_recording_says_what_is_left_of_it(
    tmp_path: Path, recording: Path, name: str
) -> None:
    clean = frames(read([recording], ignore))
    path = tmp_path / "damaged.pcap"
    path.write_bytes(damage.kept(damage.DAMAGES[name](wired(recording), Random(1))))
    problems: list[Problem] = []
    events = list(read([path], problems.append))
    found = frames(events)
    if name in damage.HARMLESS:
        assert found == clean
        assert problems == []
        return
    is_begun_late = name in {"begun late", "without handshake"}
    assert problems or is_begun_late
    assert found.keys() <= clean.keys()
    # A connection of which no frame is left has no events; what it lacks is told all the same.
    touched = {
        (each.connection, direction)
        for each in problems
        for direction in Direction
        if each.kind is ProblemKind.GAP and direction.name.lower() in each.detail
    }
    for (client, direction), bodies in clean.items():
        rest = iter(bodies)
        left = found[client, direction]
        assert all(each in rest for each in left)
        is_touched = any(
            str(connection).startswith(f"{client} >") and way is direction
            for connection, way in touched
        )
        assert is_begun_late or is_touched or left == bodies
