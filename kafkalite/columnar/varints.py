"""Unsigned varints, a vector at a time: one byte as nearly always, up to five where not."""

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
