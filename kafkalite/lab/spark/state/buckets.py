"""Lengths of buckets of time: of a whole capture, and of a part of it before the whole is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.ports.units import MICROSECONDS_PER_MILLISECOND

if TYPE_CHECKING:
    import pyarrow as pa

_MIN_BUCKETS: Final = 50
"""Minimum number of buckets of a capture, unless buckets would be shorter than 1 ms."""


def choose_bucket_ms(max_ms: int, duration_ms: int) -> int:
    """Return the length of a bucket: `max_ms`, or less if the capture would have few buckets.

    A shorter length is 1, 2 or 5 times a power of ten.
    """
    target_ms = duration_ms // _MIN_BUCKETS
    if target_ms >= max_ms:
        return max_ms
    unit_ms: int = 10 ** (len(str(max(1, target_ms))) - 1)
    return min(
        max_ms, unit_ms * max(step for step in (1, 2, 5) if unit_ms * step <= max(1, target_ms))
    )


def bucket_us_of_part(rows: pa.Table, max_us: int) -> int:
    """Return a length that divides that of the buckets of a capture, which includes these requests.

    It is a power of ten in milliseconds. `max_us` is the maximum length of a bucket.
    """
    if not rows.num_rows:
        return MICROSECONDS_PER_MILLISECOND
    start_us = np.asarray(rows["start_us"])
    target_ms = int(start_us.max() - start_us.min()) // MICROSECONDS_PER_MILLISECOND // _MIN_BUCKETS
    length_ms = 1
    while (
        10 * length_ms <= target_ms
        and max_us % (10 * length_ms * MICROSECONDS_PER_MILLISECOND) == 0
    ):
        length_ms *= 10
    return length_ms * MICROSECONDS_PER_MILLISECOND
