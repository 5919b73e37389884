"""Blocks of pcapng files, found in runs."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.blocks import MAX_BLOCK_BYTES
from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.blocks import BlockScanner, comment_of
from tests.captures.damage import Kept, block, enhanced, interface, resolution, section

KEPT = Kept(0, b"some packet", 11)


def scanned(data: bytes, step: int) -> tuple[list[tuple[int, int, int]], list[ProblemKind]]:
    """Return where packets are, how long and when, as a file comes in chunks of a size."""
    problems: list[ProblemKind] = []
    scanner = BlockScanner(lambda kind, *_: problems.append(kind))
    found: list[tuple[int, int, int]] = []
    offset, size = 0, step
    while True:
        chunk = np.frombuffer(data[offset : offset + size], np.uint8)
        is_last = offset + size >= len(data)
        packets, used = scanner.scan(chunk, offset, is_last=is_last)
        columns = (packets.at + offset, packets.captured, packets.at_ns)
        found += zip(*(column.tolist() for column in columns), strict=True)
        if is_last:
            return found, problems
        offset, size = offset + used, step if used else 2 * size


def test_a_time_is_what_its_interface_counts() -> None:
    for order in ("<", ">"):
        head = section(order) + interface(order, 101, resolution(order, 0x80 | 10))
        found, problems = scanned(head + enhanced(order, 0, 1024 + 512, KEPT), 1 << 16)
        assert found == [(len(head), 11, 1_500_000_000)]
        assert problems == []


def test_interfaces_may_be_as_many_as_packets() -> None:
    """Each is not gone through by itself: that would take minutes for these."""
    count = 20_000
    units = [6, 9, 0x80 | 10]
    many = b"".join(interface("<", 101, resolution("<", units[n % 3])) for n in range(count))
    said = b"".join(enhanced("<", n, 1024, KEPT) for n in range(count))
    found, problems = scanned(section("<") + many + said, 8 << 20)
    assert [at_ns for _, _, at_ns in found] == [
        (1_024_000, 1024, 1_000_000_000)[n % 3] for n in range(count)
    ]
    assert problems == []


def test_a_packet_of_no_interface_is_told() -> None:
    data = section("<") + interface("<", 101) + enhanced("<", 1, 5, KEPT)
    assert scanned(data, 1 << 16) == ([], [ProblemKind.CORRUPT_BLOCK])


def test_a_comment_is_read() -> None:
    comment = b"\x01\x00\x05\x00hello\0\0\0\0\0\0\0"
    data = section("<") + interface("<", 101) + enhanced("<", 0, 5, KEPT, comment)
    scanner = BlockScanner(lambda *_: None)
    array = np.frombuffer(data, np.uint8)
    packets, _ = scanner.scan(array, 0, is_last=True)
    assert comment_of(array, packets, 0) == "hello"


BLOCKS = st.sampled_from(
    [
        enhanced("<", 0, 7, KEPT),
        enhanced("<", 0, 8, Kept(0, b"", 0)),
        block("<", 3, b"\x04\0\0\0abcd"),
        block("<", 0x0BAD, b"unknown!"),
        block("<", 6, b"too short"),
        section(">") + interface(">", 1) + enhanced(">", 0, 9, KEPT),
        section("<") + interface("<", 1),
        b"\x06\0\0\0\x24\0\0\0",
        b"junk",
        b"odd",
    ]
)


@given(st.lists(BLOCKS, max_size=30), st.integers(48, 200))
def test_how_a_file_comes_in_chunks_changes_nothing(blocks: list[bytes], step: int) -> None:
    data = section("<") + interface("<", 101) + b"".join(blocks)
    assert scanned(data, step) == scanned(data, 1 << 20)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [44, MAX_BLOCK_BYTES - 4])
def test_blocks_that_lie_at_every_byte_are_passed_in_one_go(size: int) -> None:
    lies = struct.pack("<III", 6, size, 0) * 90_000
    _, problems = scanned(section("<") + interface("<", 101) + lies, 1 << 21)
    assert problems
