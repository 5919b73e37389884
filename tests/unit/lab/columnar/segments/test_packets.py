"""Unit tests of extracting segments from packets, and flows from segments."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from kafkalite.capture.model import Endpoint, ProblemKind
from kafkalite.lab.columnar.files.pcapng import BlockScanner
from kafkalite.lab.columnar.segments.flows import Flows
from kafkalite.lab.columnar.segments.packets import SegmentReader, Segments
from tests.captures.damage import NETWORKS, TcpConnection, capture_file

BROKER = Endpoint("10.0.0.1", 9092)


def capture(network: str = "ip4", *, cut: int | None = None) -> np.ndarray:
    talks = [
        TcpConnection(Endpoint("10.0.0.2", 40000 + number), BROKER, 1_000) for number in range(3)
    ]
    for talk in talks:
        talk.request(2_000, b"\0\0\0\4abcd")
    every = capture_file([each for talk in talks for each in talk.packets], network=network)
    return np.frombuffer(every[:cut], np.uint8)


def read(data: np.ndarray) -> tuple[Segments, Segments, list[ProblemKind]]:
    problems: list[ProblemKind] = []
    scanner = BlockScanner(lambda kind, *_: problems.append(kind))
    found, _ = scanner.scan(data, 0, is_last=True)
    reader = SegmentReader(lambda kind, *_: problems.append(kind), scanner.interfaces)
    return *reader.read(data, 0, found), problems


@pytest.mark.parametrize("network", ["ip4", "ip6"])
def test_segments_that_only_acknowledge_are_separate(network: str) -> None:
    data_segments, ack_only, problems = read(capture(network))
    assert data_segments.size.tolist() == [0, 0, 8] * 3  # SYN, SYN-ACK, a request
    assert len(ack_only) == 6
    assert problems == []


@pytest.mark.parametrize("network", ["ip4", "ip6"])
def test_each_direction_of_a_connection_is_a_flow(network: str) -> None:
    data = capture(network)
    data_segments, _, _ = read(data)
    numbers, firsts = Flows().find_or_add_all(data, data_segments)
    assert numbers.tolist() == [0, 1, 0, 2, 3, 2, 4, 5, 4]
    assert firsts.tolist() == [0, 1, 3, 4, 6, 7]


def test_file_that_ends_within_a_packet_has_the_earlier_packets() -> None:
    data_segments, _, problems = read(capture(cut=-30))
    assert len(data_segments) == 9
    assert problems == [ProblemKind.TRUNCATED_BLOCK]


@pytest.mark.parametrize("network", NETWORKS)
def test_packet_truncated_within_its_headers_is_reported(network: str) -> None:
    talk = TcpConnection(Endpoint("10.0.0.2", 40_000), BROKER, 1_000)
    talk.request(2_000, b"\0\0\0\4abcd")
    (data_packet,) = (each for each in talk.packets if each.payload)
    _, packet = NETWORKS[network](data_packet)
    start = packet.index(struct.pack(">HH", 40_000, 9092))  # of TCP
    for size in range(1, start + 20):
        cut = capture_file([replace(data_packet, captured_bytes=size)], network=network, link="raw")
        data_segments, ack_only, problems = read(np.frombuffer(cut, np.uint8))
        assert (len(data_segments), len(ack_only), problems) == (
            0,
            0,
            [ProblemKind.TRUNCATED_PACKET],
        )
