"""Varints by the vector are those of the scalar codec."""

from __future__ import annotations

import numpy as np

from kafkalite.columnar.varints import INVALID, read_varints
from kafkalite.protocol.straightline import encode_varint


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
