"""Packets to segments, and segments to flows."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from kafkalite.capture.model import Endpoint, ProblemKind
from kafkalite.columnar.blocks import BlockScanner
from kafkalite.columnar.flows import Flows
from kafkalite.columnar.packets import SegmentReader, Segments
from tests.captures.damage import NETWORKS, Talk, kept

BROKER = Endpoint("10.0.0.1", 9092)


def capture(network: str = "ip4", *, cut: int | None = None) -> np.ndarray:
    talks = [Talk(Endpoint("10.0.0.2", 40000 + number), BROKER, 1_000) for number in range(3)]
    for talk in talks:
        talk.request(2_000, b"\0\0\0\4abcd")
    every = kept([each for talk in talks for each in talk.packets], network=network)
    return np.frombuffer(every[:cut], np.uint8)


def read(data: np.ndarray) -> tuple[Segments, Segments, list[ProblemKind]]:
    told: list[ProblemKind] = []
    scanner = BlockScanner(lambda kind, *_: told.append(kind))
    found, _ = scanner.scan(data, 0, is_last=True)
    reader = SegmentReader(lambda kind, *_: told.append(kind), scanner.interfaces)
    return *reader.read(data, 0, found), told


@pytest.mark.parametrize("network", ["ip4", "ip6"])
def test_what_only_acknowledges_is_kept_apart(network: str) -> None:
    said, silent, told = read(capture(network))
    assert said.size.tolist() == [0, 0, 8] * 3  # SYN, SYN-ACK, a request
    assert len(silent) == 6
    assert told == []


@pytest.mark.parametrize("network", ["ip4", "ip6"])
def test_the_directions_of_connections_are_flows(network: str) -> None:
    data = capture(network)
    said, _, _ = read(data)
    numbers, firsts = Flows().numbered(data, said)
    assert numbers.tolist() == [0, 1, 0, 2, 3, 2, 4, 5, 4]
    assert firsts.tolist() == [0, 1, 3, 4, 6, 7]


def test_a_file_that_ends_within_a_packet_has_those_before() -> None:
    said, _, told = read(capture(cut=-30))
    assert len(said) == 9
    assert told == [ProblemKind.TRUNCATED_BLOCK]


@pytest.mark.parametrize("network", NETWORKS)
def test_a_packet_cut_within_its_headers_is_told(network: str) -> None:
    talk = Talk(Endpoint("10.0.0.2", 40_000), BROKER, 1_000)
    talk.request(2_000, b"\0\0\0\4abcd")
    (spoken,) = (each for each in talk.packets if each.payload)
    _, packet = NETWORKS[network](spoken)
    start = packet.index(struct.pack(">HH", 40_000, 9092))  # of TCP
    for size in range(1, start + 20):
        cut = kept([replace(spoken, kept=size)], network=network, link="raw")
        said, silent, told = read(np.frombuffer(cut, np.uint8))
        assert (len(said), len(silent), told) == (0, 0, [ProblemKind.TRUNCATED_PACKET])
