"""Clocks set back are told by both readers alike: how often, how far, and where first."""

# ruff: noqa: S311 - damage is to be repeatable
from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import ProblemKind
from kafkalite.capture.problems import Problems
from kafkalite.capture.reading import read
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from tests.captures import damage, traffic
from tests.unit.columnar.captures import columnar, scalar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.captures.damage import Wired

Jump = tuple[str, int | None, int]

SECOND_NS = 1_000_000_000


def set_back(packets: Sequence[Wired], chance: Random, times: int) -> list[Wired]:
    """Let the clock be set back in the midst, by seconds or by less than is told of."""
    steps = dict.fromkeys(chance.sample(range(1, len(packets)), times), 0)
    found, late = [], 0
    for number, packet in enumerate(packets):
        if number in steps:
            late += chance.choice([SECOND_NS // 2, 3 * SECOND_NS, 3 * SECOND_NS, 900 * SECOND_NS])
        found.append(replace(packet, at_ns=packet.at_ns - late))
    return found


def told_by_columns(data: bytes, path: Path, chunk_bytes: int) -> list[Jump]:
    jumps = []
    for table, batch in read_file(data, str(path), Options(chunk_bytes=chunk_bytes)):
        if table is Table.PROBLEMS:
            jumps += [
                (row["detail"], row["offset"], row["count"])
                for row in batch.to_pylist()
                if row["kind"] == ProblemKind.CLOCK_JUMP
            ]
    return jumps


def told_by_rows(data: bytes, path: Path) -> list[Jump]:
    path.write_bytes(data)
    problems = Problems()
    for _ in read([path], problems):
        pass
    return [
        (each.detail, each.offset, each.count)
        for each in problems
        if each.kind is ProblemKind.CLOCK_JUMP
    ]


@pytest.mark.parametrize(
    ("container", "harm"),
    [
        *((container, "without acknowledgements") for container in damage.CONTAINERS),
        *(("pcapng", harm) for harm in ("reordered", "disordered queues")),
    ],
)
def test_both_readers_tell_the_same_jumps(tmp_path: Path, container: str, harm: str) -> None:
    chance = Random(f"{container} {harm}")
    packets = traffic.packets(traffic.clean(chance, connections=4, count=60))
    packets = set_back(damage.DAMAGES[harm](packets, chance), chance, times=9)
    data = damage.kept(packets, container=container)
    path = tmp_path / "some.pcap"
    jumps = told_by_rows(data, path)
    # Simple blocks have no times: no clock is to be seen there.
    assert bool(jumps) == ("simple" not in container)
    for chunk_bytes in (1 << 16, 8 << 20):
        assert told_by_columns(data, path, chunk_bytes) == jumps


@pytest.mark.parametrize("seed", range(4))
def test_bytes_are_not_read_before_those_in_front_of_them(tmp_path: Path, seed: int) -> None:
    """A clock is set back by less than what one waits for a segment, or by more."""
    chance = Random(seed)
    packets = traffic.packets(traffic.clean(chance, connections=4, count=20))
    data = damage.kept(set_back(packets, chance, times=5))
    by_rows = scalar(data, tmp_path / "some.pcapng")
    for chunk_bytes in (1 << 16, 8 << 20):
        by_columns = columnar(data, str(tmp_path / "some.pcapng"), chunk_bytes)
        assert by_columns == by_rows


def test_a_clock_that_goes_forth_says_nothing(tmp_path: Path) -> None:
    packets = traffic.packets(traffic.clean(Random(1)))
    assert told_by_columns(damage.kept(packets), tmp_path / "a", 1 << 16) == []
