"""Unit tests of reading classic pcap files, also corrupt ones."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.reading.merging import packets
from tests.captures.damage import CONTAINERS, FilePacket

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.capture.formats.capture_files import Packet

AT_NS = 1_700_000_000_123_456_789
PACKETS = [FilePacket(AT_NS + number * 1_000_000, bytes([number]) * 70, 90) for number in range(9)]


def read(path: Path, data: bytes) -> tuple[list[Packet], list[Problem]]:
    path.write_bytes(data)
    found: list[Problem] = []
    return list(packets(str(path), found.append)), found


@pytest.mark.parametrize(
    ("container", "unit_ns"),
    [("pcap", 1000), ("pcap big-endian", 1000), ("pcap ns", 1), ("pcap ns big-endian", 1)],
)
def test_all_byte_orders_and_units_are_read(tmp_path: Path, container: str, unit_ns: int) -> None:
    found, problems = read(tmp_path / "f", CONTAINERS[container](PACKETS, 113))
    assert problems == []
    assert [each.data for each in found] == [each.data for each in PACKETS]
    assert [each.at_ns for each in found] == [each.at_ns // unit_ns * unit_ns for each in PACKETS]
    assert {each.length for each in found} == {90}
    assert {each.interface.link_type for each in found} == {113}
    assert [each.offset for each in found] == [24 + number * 86 for number in range(9)]


def test_checksum_bits_of_the_link_type_are_ignored(tmp_path: Path) -> None:
    data = bytearray(CONTAINERS["pcap"](PACKETS, 1))
    data[20:24] = struct.pack("<I", 0x54000001)
    found, problems = read(tmp_path / "f", bytes(data))
    assert problems == []
    assert found[0].interface.link_type == 1


@pytest.mark.parametrize("cut", [1, 15, 16, 40, 85])
def test_torn_end_loses_only_the_last_packet(tmp_path: Path, cut: int) -> None:
    found, problems = read(tmp_path / "f", CONTAINERS["pcap"](PACKETS, 1)[:-cut])
    assert len(found) == 8
    assert [each.kind for each in problems] == [ProblemKind.TRUNCATED_BLOCK]


def test_torn_header_is_reported(tmp_path: Path) -> None:
    found, problems = read(tmp_path / "f", CONTAINERS["pcap"](PACKETS, 1)[:20])
    assert found == []
    assert [each.kind for each in problems] == [ProblemKind.TRUNCATED_BLOCK]


@pytest.mark.parametrize("container", ["pcap", "pcap big-endian"])
@pytest.mark.parametrize("at", [0, 4, 8])
def test_reading_continues_after_a_corrupt_record(tmp_path: Path, container: str, at: int) -> None:
    data = bytearray(CONTAINERS[container](PACKETS, 1))
    start = 24 + 3 * 86
    data[start + at : start + at + 4] = b"\xff\xff\xff\xff"
    found, problems = read(tmp_path / "f", bytes(data))
    if at == 0:
        # A wrong time is valid in the container; clock jumps are reported by the dissector.
        assert len(found) == 9
        assert problems == []
        return
    assert [each.data[0] for each in found] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert [(each.kind, each.offset) for each in problems] == [(ProblemKind.CORRUPT_BLOCK, start)]


def test_reading_continues_after_a_corrupt_first_record(tmp_path: Path) -> None:
    data = bytearray(CONTAINERS["pcap"](PACKETS, 1))
    data[24:40] = b"\xff" * 16
    found, problems = read(tmp_path / "f", bytes(data))
    assert [each.data[0] for each in found] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [each.kind for each in problems] == [ProblemKind.CORRUPT_BLOCK]
