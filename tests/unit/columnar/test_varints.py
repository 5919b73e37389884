"""Varints by the vector are those of the scalar codec."""

from __future__ import annotations

import numpy as np

from kafkalite.columnar.varints import INVALID, read_varints, read_zigzags
from kafkalite.protocol.straightline import encode_varint
from kafkalite.storage.records import varint


def read(data: bytes, *positions: int) -> list[tuple[int, int]]:
    values, after = read_varints(np.frombuffer(data, np.uint8), np.array(positions))
    return list(zip(values.tolist(), after.tolist(), strict=True))


def test_short_and_long_ones_are_read_together() -> None:
    numbers = [0, 1, 127, 128, 16383, 16384, 2**28 - 1, 2**28, 2**32 - 1]
    written = [encode_varint(number) for number in numbers]
    starts = np.cumsum([0, *map(len, written)]).tolist()

    assert read(b"".join(written), *starts[:-1]) == list(zip(numbers, starts[1:], strict=True))


def test_one_with_more_bytes_than_it_needs_is_read() -> None:
    assert read(b"\x81\x80\x00", 0) == [(1, 3)]


def test_more_than_32_bits_are_invalid() -> None:
    assert read(b"\xff\xff\xff\xff\x10" + b"\x80" * 5, 0, 5) == [(INVALID, 5), (INVALID, 10)]


def test_a_position_outside_reads_the_last_byte() -> None:
    assert read(b"\x05", 9) == [(5, 10)]


def test_signed_ones_of_up_to_64_bits_are_read_together() -> None:
    numbers = [0, -1, 1, 63, -64, 64, -65, 2**31, -(2**31), 2**63 - 1, -(2**63)]
    written = [varint(number) for number in numbers]
    starts = np.cumsum([0, *map(len, written)])

    values, after = read_zigzags(np.frombuffer(b"".join(written), np.uint8), starts[:-1])

    assert values.tolist() == numbers
    assert after.tolist() == starts[1:].tolist()


def test_a_signed_one_that_does_not_end_stands_before_the_data() -> None:
    _, after = read_zigzags(np.frombuffer(b"\x80" * 11 + b"\x00", np.uint8), np.array([0, 2, 3]))

    assert after.tolist() == [-1, 12, 12]
