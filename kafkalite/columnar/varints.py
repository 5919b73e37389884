"""Signed varints, a vector at a time: one byte as nearly always, more of them where not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ONE_BYTE: Final = 0x80
"""Bytes below end a varint."""
_ZIGZAG: Final = np.array([number >> 1 ^ -(number & 1) for number in range(_ONE_BYTE)])
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
    if first.max(initial=0) < _ONE_BYTE:
        return _ZIGZAG.take(first), after
    # Most of the longer ones have two bytes.
    second = data.take(after, mode="clip")
    is_long = first >= _ONE_BYTE
    raw = first & ~np.uint8(_ONE_BYTE) | np.where(is_long, second, 0).astype(np.int64) << 7
    values = raw >> 1 ^ -(raw & 1)
    after += is_long
    longer = np.flatnonzero(is_long & (second >= _ONE_BYTE))
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
        going = going[byte >= _ONE_BYTE]
        if not len(going):
            break
    after[going] = -1
    signs = (raw & np.uint64(1)).astype(np.int64)
    return (raw >> np.uint64(1)).astype(np.int64) ^ -signs, after
