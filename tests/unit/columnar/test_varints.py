"""Varints by the vector are those of the scalar codec."""

from __future__ import annotations

import numpy as np

from kafkalite.columnar.varints import read_zigzags
from kafkalite.storage.records import varint


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
