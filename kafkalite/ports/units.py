"""Units of time."""

from __future__ import annotations

from typing import Final

NANOSECONDS_PER_SECOND: Final = 1_000_000_000
NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
NANOSECONDS_PER_MICROSECOND: Final = 1_000
MICROSECONDS_PER_SECOND: Final = 1_000_000
