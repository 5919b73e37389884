"""Kernels of varints and UTF-8 equal the scalar codec and Python."""

from __future__ import annotations

import numpy as np
import pytest

from kafkalite.lab.columnar.decoding.primitives import INCOMPLETE, OVERFLOW, is_utf8, read_varint


@pytest.mark.parametrize(
    ("number", "known"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\x81\x80\x00", 1),
        (b"\xff\xff\xff\xff\x0f", 2**32 - 1),
        (b"\xff\xff\xff\xff\x10", None),
        (b"\x80\x80\x80\x80\x80\x00", None),
        (b"\x80", None),
        (b"", None),
    ],
)
def test_varint_is_limited_to_32_bits(number: bytes, known: int | None) -> None:
    value, at = read_varint(np.frombuffer(number, np.uint8), 0, len(number))
    if known is None:
        assert at == INCOMPLETE or value == OVERFLOW
    else:
        assert (value, at) == (known, len(number))


def test_utf8_check_equals_python() -> None:
    leads = [*range(0x7E, 0x82), *range(0xBF, 0xC3), 0xDF, *range(0xDF, 0xF6), 0xFF]
    seconds = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    for lead in leads:
        for second in seconds:
            for rest in (b"", b"\x80", b"\xbf\xbf", b"\x80\x7f", b"\x80\x80\x80", b"a"):
                text = b"a" + bytes([lead, second]) + rest
                try:
                    text.decode()
                except UnicodeDecodeError:
                    is_valid = False
                else:
                    is_valid = True
                assert is_utf8(np.frombuffer(text, np.uint8), 0, len(text)) == is_valid, text
