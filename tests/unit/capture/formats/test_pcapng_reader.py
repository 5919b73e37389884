"""Unit tests of reading pcapng files: timestamps, block types, corrupt blocks."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.formats import pcapng
from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.capture.reading.merging import packets
from tests.captures import damage
from tests.captures.damage import CONTAINERS, FilePacket

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.capture.formats.capture_files import Packet

AT_NS = 1_700_000_000_123_456_000
PACKETS = [FilePacket(AT_NS + number * 1_000_000, bytes([number]) * 71, 90) for number in range(9)]


def read(path: Path, data: bytes) -> tuple[list[Packet], list[Problem]]:
    path.write_bytes(data)
    found: list[Problem] = []
    return list(packets(str(path), found.append)), found


@pytest.mark.parametrize("container", [each for each in CONTAINERS if "pcapng" in each])
def test_all_kinds_of_blocks_are_read(tmp_path: Path, container: str) -> None:
    found, problems = read(tmp_path / "f", CONTAINERS[container](PACKETS, 113))
    assert problems == []
    size = 90 if "simple" in container else 71  # a simple block includes the padding
    assert [each.data[:71] for each in found] == [each.data for each in PACKETS]
    assert all(len(each.data) <= size for each in found)
    assert {each.length for each in found} == {90}
    if "simple" not in container:
        assert [each.at_ns for each in found] == [each.at_ns for each in PACKETS]


@pytest.mark.parametrize(
    ("value", "ticks", "at_ns"),
    [
        (0, 7, 7_000_000_000),
        (3, 7, 7_000_000),
        (9, 7, 7),
        (12, 7_999, 7),
        (0x80 | 10, 512, 500_000_000),
        (0x80 | 127, 5, 0),
    ],
)
def test_timestamp_resolution_of_an_interface_is_used(
    tmp_path: Path, value: int, ticks: int, at_ns: int
) -> None:
    data = (
        damage.section("<")
        + damage.interface("<", 1, damage.resolution("<", value))
        + damage.enhanced_packet("<", 0, ticks, PACKETS[0])
    )
    found, problems = read(tmp_path / "f", data)
    assert problems == []
    assert found[0].at_ns == at_ns


def test_timestamp_offset_of_an_interface_is_used(tmp_path: Path) -> None:
    offset = struct.pack("<HHq", 14, 8, 1_000) + bytes(4)
    data = (
        damage.section("<")
        + damage.interface("<", 1, offset)
        + damage.enhanced_packet("<", 0, 5, PACKETS[0])
    )
    (found,), problems = read(tmp_path / "f", data)
    assert problems == []
    assert found.at_ns == 1_000_000_005_000


def test_names_and_comments_of_our_captures_are_read(tmp_path: Path) -> None:
    data = (
        pcapng.section("kafkalite", "a test")
        + pcapng.interface("broker-1", "node=1")
        + pcapng.packet(0, AT_NS, b"some data", "a comment")
        + pcapng.packet(0, AT_NS + 1, b"more")
        + damage.block("<", 5, bytes(12))
    )
    (first, second), problems = read(tmp_path / "f", data)
    assert problems == []
    assert (first.interface.name, first.interface.comment) == ("broker-1", "node=1")
    assert (first.data, first.comment, second.data, second.comment) == (
        b"some data",
        "a comment",
        b"more",
        None,
    )


@pytest.mark.parametrize("cut", [1, 4, 20, 50, 103])
def test_torn_end_loses_only_the_last_packet(tmp_path: Path, cut: int) -> None:
    found, problems = read(tmp_path / "f", CONTAINERS["pcapng"](PACKETS, 1)[:-cut])
    assert len(found) == 8
    assert [each.kind for each in problems] == [ProblemKind.TRUNCATED_BLOCK]


BLOCK = 104
FIRST = 28 + 20  # after the section header and the interface


@pytest.mark.parametrize("container", ["pcapng", "pcapng big-endian"])
@pytest.mark.parametrize("place", [4, 5, 6, 7, BLOCK - 1])
def test_reading_continues_after_a_corrupt_block(
    tmp_path: Path, container: str, place: int
) -> None:
    data = bytearray(CONTAINERS[container](PACKETS, 1))
    start = FIRST + 3 * BLOCK
    data[start + place] ^= 0x55
    found, problems = read(tmp_path / "f", bytes(data))
    assert [each.data[0] for each in found] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert {each.offset for each in problems} == {start}
    assert {each.kind for each in problems} <= {
        ProblemKind.CORRUPT_BLOCK,
        ProblemKind.TRUNCATED_BLOCK,
    }


def test_bytes_between_blocks_are_skipped(tmp_path: Path) -> None:
    data = CONTAINERS["pcapng"](PACKETS, 1)
    middle = FIRST + 4 * BLOCK
    found, problems = read(tmp_path / "f", data[:middle] + b"\xee" * 333 + data[middle:])
    assert [each.data[0] for each in found] == list(range(9))
    assert [each.offset for each in problems] == [middle]


@pytest.mark.parametrize(
    "block",
    [
        damage.enhanced_packet("<", 7, 0, PACKETS[0]),
        damage.block("<", 6, bytes(12)),
        damage.block("<", 2, bytes(12)),
        damage.block("<", 6, struct.pack("<5I", 0, 0, 0, 5000, 5000)),
        damage.block("<", 1, bytes(4)),
    ],
)
def test_inconsistent_block_is_reported_and_skipped(tmp_path: Path, block: bytes) -> None:
    data = CONTAINERS["pcapng"](PACKETS, 1)
    found, problems = read(tmp_path / "f", data[:FIRST] + block + data[FIRST:])
    assert len(found) == 9
    assert [(each.kind, each.offset) for each in problems] == [(ProblemKind.CORRUPT_BLOCK, FIRST)]


def test_simple_packet_without_interface_is_reported(tmp_path: Path) -> None:
    data = damage.section("<") + damage.block("<", 3, struct.pack("<I", 4) + b"data")
    found, problems = read(tmp_path / "f", data)
    assert found == []
    assert [each.kind for each in problems] == [ProblemKind.CORRUPT_BLOCK]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [44, 64 * 1024 * 1024 - 4])
def test_wrong_block_lengths_at_every_position_are_skipped_fast(tmp_path: Path, size: int) -> None:
    wrong = struct.pack("<III", 6, size, 0) * 90_000
    _, problems = read(tmp_path / "f", damage.section("<") + damage.interface("<", 1) + wrong)
    assert {each.kind for each in problems} <= {
        ProblemKind.CORRUPT_BLOCK,
        ProblemKind.TRUNCATED_BLOCK,
    }
    assert problems
