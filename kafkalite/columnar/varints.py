"""Varints, a vector at a time: one byte as nearly always, more of them where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

ONE_BYTE: Final = 0x80
"""Bytes below end a varint."""
LAST_SHIFT: Final = 28
LAST_BITS: Final = 15
"""A fifth byte has bits 28 to 31: it is this at most."""

INVALID: Final = 1 << 40
"""Stands for a varint of more than 32 bits: larger than any, so that no frame has room for it."""


def read_varints(
    data: NDArray[np.uint8], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read a varint at each position; the values, and the positions behind them.

    A position outside the data reads the last byte: it is for the caller to look at the bounds.
    """
    first = data.take(positions, mode="clip")
    values = first.astype(np.int64)
    after = positions + 1
    if first.max(initial=0) >= ONE_BYTE:
        longer = np.flatnonzero(first >= ONE_BYTE)
        values[longer], after[longer] = _read_longer(data, values[longer], after[longer])
    return values, after


def _read_longer(
    data: NDArray[np.uint8], first: NDArray[np.int64], after: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    values, after = first & ~ONE_BYTE, after.copy()
    going = np.arange(len(values))
    for shift in range(7, LAST_SHIFT + 7, 7):
        byte = data.take(after[going], mode="clip").astype(np.int64)
        values[going] |= (byte & ~ONE_BYTE) << shift
        after[going] += 1
        more = byte >= ONE_BYTE
        if shift == LAST_SHIFT:
            values[going[byte > LAST_BITS]] = INVALID
        going = going[more]
        if not len(going):
            break
    return values, after


_ZIGZAG: Final = np.array([number >> 1 ^ -(number & 1) for number in range(ONE_BYTE)])
_LAST_LONG_SHIFT: Final = 63


def read_zigzags(
    data: NDArray[np.uint8], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Read a signed varint of up to ten bytes at each position; values, and positions behind.

    One that does not end after ten bytes is told by a position before the data. As in Java, bits
    above the 64th are dropped. A position outside the data reads one of its ends.
    """
    first = data.take(positions, mode="clip")
    after = positions + 1
    if first.max(initial=0) < ONE_BYTE:
        return _ZIGZAG.take(first), after
    # Most of the longer ones have two bytes.
    second = data.take(after, mode="clip")
    is_long = first >= ONE_BYTE
    raw = first & ~np.uint8(ONE_BYTE) | np.where(is_long, second, 0).astype(np.int64) << 7
    values = raw >> 1 ^ -(raw & 1)
    after += is_long
    longer = np.flatnonzero(is_long & (second >= ONE_BYTE))
    if len(longer):
        values[longer], after[longer] = _read_long(data, positions[longer])
    return values, after


def _read_long(
    data: NDArray[np.uint8], positions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    raw = np.zeros(len(positions), dtype=np.uint64)
    after = positions.copy()
    going = np.arange(len(positions))
    for shift in range(0, _LAST_LONG_SHIFT + 1, 7):
        byte = data.take(after[going], mode="clip").astype(np.uint64)
        raw[going] |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        after[going] += 1
        going = going[byte >= ONE_BYTE]
        if not len(going):
            break
    after[going] = -1
    signs = (raw & np.uint64(1)).astype(np.int64)
    return (raw >> np.uint64(1)).astype(np.int64) ^ -signs, after
