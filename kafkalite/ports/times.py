"""Durations, times and rates as text: `7d`, `1h30m`, `2026-03-01T12:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kafkalite.ports.clock import LATEST_MS

_UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""Units from the largest to the smallest; a duration has them in this order, each at most once."""

_DURATION = re.compile(
    "".join(rf"(?:([0-9]{{1,15}}){unit}(?![a-z]))?" for unit in _UNIT_MS), re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def duration_ms(text: str) -> int:
    """Return the milliseconds of the duration `text`; raises ValueError for other texts.

    A duration is one or more numbers with the units w, d, h, m, s, ms, from the largest unit to the
    smallest.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        raise ValueError(
            f"{text[:40]!r} is not a duration: write 7d, 12h, 30m, 10s, 250ms or 1h30m"
        )
    return sum(
        int(number) * unit_ms
        for number, unit_ms in zip(match.groups(), _UNIT_MS.values(), strict=True)
        if number
    )


def parse_rate(text: str) -> float:
    """Return the rate `text`, as in "60" and "60x"; raises ValueError for other text."""
    try:
        return float(text.removesuffix("x"))
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is not a rate: write a number, such as 60") from error


def instant_ms(text: str) -> int:
    """Return an ISO 8601 time as milliseconds since the Unix epoch; the default zone is UTC.

    Raises ValueError for other text, and for times outside of the years 1970 to 9999.
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(
            f"{text[:40]!r} is not a time: write it as 2026-03-01T12:00:00Z"
        ) from error
    return datetime_ms(time)


def datetime_ms(time: datetime) -> int:
    """Return a time as milliseconds since the Unix epoch; a time without a zone is in UTC."""
    time_in_zone = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    # Integer arithmetic: floating-point seconds lose milliseconds.
    milliseconds = (time_in_zone - _EPOCH) // _MILLISECOND
    if not 0 <= milliseconds <= LATEST_MS:
        raise ValueError(f"{time.isoformat()} is not within the years 1970 to 9999")
    return milliseconds


def datetime_of(milliseconds: int) -> datetime:
    """Return the time that is `milliseconds` after the Unix epoch, in UTC."""
    return _EPOCH + milliseconds * _MILLISECOND


def is_date(milliseconds: int) -> bool:
    """Return whether a time is in the years 1 to 9999; a file or a client can have any number."""
    try:
        datetime_of(milliseconds)
    except OverflowError:
        return False
    return True


def iso_of(milliseconds: int) -> str:
    """Return a time in ISO 8601 format, in UTC with milliseconds; the number if it is no date."""
    if not is_date(milliseconds):
        return f"{milliseconds}"
    return datetime_of(milliseconds).isoformat(timespec="milliseconds").replace("+00:00", "Z")
