"""Formatting of timestamps in explain events."""

from __future__ import annotations

_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


def time_of_day(at_ms: int) -> str:
    """Return the time of day of a timestamp (ms since the Unix epoch) in UTC: "12:00:03.120"."""
    in_day = at_ms % _DAY_MS
    hours, minutes = in_day // _HOUR_MS, in_day // _MINUTE_MS % 60
    seconds, millis = in_day // _SECOND_MS % 60, in_day % _SECOND_MS
    return f"{hours:02}:{minutes:02}:{seconds:02}.{millis:03}"
