"""Kernels that read Kafka's varints, lengths and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.columnar.decoding.decode_program import COMPACT
from kafkalite.lab.columnar.kernels import kernel, peek_i16, peek_i32, peek_u8

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Bytes

HIGH_BIT: Final = 0x80
"""The highest bit of a byte. It is set in every byte of a varint but the last, in bytes of text
that are not ASCII, and in the first byte of a negative number."""
_LAST_SHIFT: Final = 28
OVERFLOW: Final = 1 << 40
"""Represents a varint of more than 32 bits; larger than any frame."""
INCOMPLETE: Final = -1
"""Returned as the end of a number if the frame ends within it."""


@kernel
def read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return a varint or OVERFLOW, and the position after it or INCOMPLETE.

    The varint is unsigned, as in compact lengths and tags.
    """
    value = 0
    for shift in range(0, _LAST_SHIFT + 1, 7):
        if at >= end:
            return 0, INCOMPLETE
        byte = peek_u8(data, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < HIGH_BIT:
            return (OVERFLOW if value >> 32 else value), at
    return OVERFLOW, at


@kernel
def read_length(data: Bytes, at: int, end: int, width: int) -> tuple[int, int]:
    """Return a length, or -1 for null, and the position after it or INCOMPLETE."""
    if width == COMPACT:
        value, at = read_varint(data, at, end)
        return value - 1, at
    if at + width > end:
        return 0, INCOMPLETE
    length = peek_i16(data, at) if width == 2 else peek_i32(data, at)  # noqa: PLR2004
    return length, at + width


@kernel
def is_utf8(data: Bytes, at: int, end: int) -> bool:
    """Whether bytes are valid UTF-8 by the rules of Python; `end` must be within the data."""
    while at < end:
        lead = peek_u8(data, at)
        at += 1
        if lead < HIGH_BIT:
            continue
        continuation_bytes = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3  # noqa: PLR2004
        if not 0xC2 <= lead <= 0xF4 or at + continuation_bytes > end:  # noqa: PLR2004
            return False
        # Overlong encodings, surrogates and code points above U+10FFFF are invalid.
        low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80  # noqa: PLR2004
        high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF  # noqa: PLR2004
        for _ in range(continuation_bytes):
            if not low <= peek_u8(data, at) <= high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True
