"""Times of day, for the sentences that explain what befell a group."""

from __future__ import annotations

_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


def time_of_day(at_ms: int) -> str:
    """Return a moment (ms since the Unix epoch) as "12:00:03.120", in UTC."""
    in_day = at_ms % _DAY_MS
    hours, minutes = in_day // _HOUR_MS, in_day // _MINUTE_MS % 60
    seconds, millis = in_day // _SECOND_MS % 60, in_day % _SECOND_MS
    return f"{hours:02}:{minutes:02}:{seconds:02}.{millis:03}"
