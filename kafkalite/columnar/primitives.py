"""Kafka's varints, lengths and text, as kernels read them one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.columnar.compiled import kernel, peek_i16, peek_i32, peek_u8
from kafkalite.columnar.program import COMPACT

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Bytes

ONE_BYTE: Final = 0x80
_LAST_SHIFT: Final = 28
TOO_MUCH: Final = 1 << 40
"""Stands for a varint of more than 32 bits: larger than any, so that no frame has room for it."""
CUT: Final = -1
"""In place of where a number ends that the frame ends inside of."""


@kernel
def varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return a varint, and the position behind it."""
    value = 0
    for shift in range(0, _LAST_SHIFT + 1, 7):
        if at >= end:
            return 0, CUT
        byte = peek_u8(data, at)
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < ONE_BYTE:
            return (TOO_MUCH if value >> 32 else value), at
    return TOO_MUCH, at


@kernel
def length_at(data: Bytes, at: int, end: int, width: int) -> tuple[int, int]:
    """Return a length, -1 for null, and the position behind it."""
    if width == COMPACT:
        value, at = varint(data, at, end)
        return value - 1, at
    if at + width > end:
        return 0, CUT
    length = peek_i16(data, at) if width == 2 else peek_i32(data, at)  # noqa: PLR2004
    return length, at + width


@kernel
def is_text(data: Bytes, at: int, end: int) -> bool:
    """Whether bytes, which lie within the data, are UTF-8 as Unicode has it, and Python."""
    while at < end:
        lead = peek_u8(data, at)
        at += 1
        if lead < ONE_BYTE:
            continue
        more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3  # noqa: PLR2004
        if not 0xC2 <= lead <= 0xF4 or at + more > end:  # noqa: PLR2004
            return False
        # Nothing in more bytes than it takes, no surrogates, nothing beyond the last plane.
        least = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80  # noqa: PLR2004
        most = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF  # noqa: PLR2004
        for _ in range(more):
            if not least <= peek_u8(data, at) <= most:
                return False
            least, most = 0x80, 0xBF
            at += 1
    return True
