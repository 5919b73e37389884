"""Where a share group begins to read a partition of which nothing is kept yet (KIP-932)."""

from __future__ import annotations

import re
from typing import NamedTuple

LATEST = "latest"
EARLIEST = "earliest"
_BY_DURATION = "by_duration"
_ISO_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?", re.IGNORECASE
)


class Reset(NamedTuple):
    """A choice of where to begin: an end of the log, or so long ago."""

    kind: str
    duration_ms: int = 0


def parse_reset(text: str) -> Reset:
    """Return what `share.auto.offset.reset` says; the text was validated when it was set."""
    kind, _, duration = text.partition(":")
    if kind != _BY_DURATION:
        return Reset(kind)
    found = _ISO_DURATION.fullmatch(duration)
    if found is None:
        raise ValueError(f"not a duration: {duration}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    fraction_ms = int((found[5] or "").ljust(9, "0")) // 1_000_000
    whole_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return Reset(kind, whole_s * 1000 + fraction_ms)
