"""Unit tests of scanning pcapng files."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.formats.capture_files import MAX_BLOCK_BYTES
from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.files.pcapng import BlockScanner, comment_of
from tests.captures.damage import FilePacket, block, enhanced_packet, interface, resolution, section

PACKET = FilePacket(0, b"some packet", 11)


def scan_in_chunks(data: bytes, step: int) -> tuple[list[tuple[int, int, int]], list[ProblemKind]]:
    """Return position, size and time of the packets of a file read in chunks of `step` bytes."""
    problems: list[ProblemKind] = []
    scanner = BlockScanner(lambda kind, *_: problems.append(kind))
    found: list[tuple[int, int, int]] = []
    offset, size = 0, step
    while True:
        chunk = np.frombuffer(data[offset : offset + size], np.uint8)
        is_last = offset + size >= len(data)
        packets, used = scanner.scan(chunk, offset, is_last=is_last)
        columns = (packets.block_start + offset, packets.captured, packets.at_ns)
        found += zip(*(column.tolist() for column in columns), strict=True)
        if is_last:
            return found, problems
        offset, size = offset + used, step if used else 2 * size


def test_timestamp_has_the_unit_of_its_interface() -> None:
    for order in ("<", ">"):
        head = section(order) + interface(order, 101, resolution(order, 0x80 | 10))
        found, problems = scan_in_chunks(
            head + enhanced_packet(order, 0, 1024 + 512, PACKET), 1 << 16
        )
        assert found == [(len(head), 11, 1_500_000_000)]
        assert problems == []


def test_as_many_interfaces_as_packets_are_read_fast() -> None:
    """A loop over the interfaces would take minutes."""
    count = 20_000
    units = [6, 9, 0x80 | 10]
    many = b"".join(interface("<", 101, resolution("<", units[n % 3])) for n in range(count))
    packets = b"".join(enhanced_packet("<", n, 1024, PACKET) for n in range(count))
    found, problems = scan_in_chunks(section("<") + many + packets, 8 << 20)
    assert [at_ns for _, _, at_ns in found] == [
        (1_024_000, 1024, 1_000_000_000)[n % 3] for n in range(count)
    ]
    assert problems == []


def test_packet_of_unknown_interface_is_reported() -> None:
    data = section("<") + interface("<", 101) + enhanced_packet("<", 1, 5, PACKET)
    assert scan_in_chunks(data, 1 << 16) == ([], [ProblemKind.CORRUPT_BLOCK])


def test_packet_comment_is_returned() -> None:
    comment = b"\x01\x00\x05\x00hello\0\0\0\0\0\0\0"
    data = section("<") + interface("<", 101) + enhanced_packet("<", 0, 5, PACKET, comment)
    scanner = BlockScanner(lambda *_: None)
    array = np.frombuffer(data, np.uint8)
    packets, _ = scanner.scan(array, 0, is_last=True)
    assert comment_of(array, packets, 0) == "hello"


BLOCKS = st.sampled_from(
    [
        enhanced_packet("<", 0, 7, PACKET),
        enhanced_packet("<", 0, 8, FilePacket(0, b"", 0)),
        block("<", 3, b"\x04\0\0\0abcd"),
        block("<", 0x0BAD, b"unknown!"),
        block("<", 6, b"too short"),
        section(">") + interface(">", 1) + enhanced_packet(">", 0, 9, PACKET),
        section("<") + interface("<", 1),
        b"\x06\0\0\0\x24\0\0\0",
        b"junk",
        b"odd",
    ]
)


@given(st.lists(BLOCKS, max_size=30), st.integers(48, 200))
def test_chunk_size_does_not_change_the_result(blocks: list[bytes], step: int) -> None:
    data = section("<") + interface("<", 101) + b"".join(blocks)
    assert scan_in_chunks(data, step) == scan_in_chunks(data, 1 << 20)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [44, MAX_BLOCK_BYTES - 4])
def test_wrong_block_lengths_at_every_position_are_skipped_fast(size: int) -> None:
    wrong_blocks = struct.pack("<III", 6, size, 0) * 90_000
    _, problems = scan_in_chunks(section("<") + interface("<", 101) + wrong_blocks, 1 << 21)
    assert problems
