"""Durations, instants and rates as people write them: `7d`, `1h30m`, `2026-03-01T12:00:00Z`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from kafkalite.ports.clock import LATEST_MS

_UNIT_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
"""From the largest to the smallest; a duration names them in this order, each at most once."""

_DURATION = re.compile(
    "".join(rf"(?:([0-9]{{1,15}}){unit}(?![a-z]))?" for unit in _UNIT_MS), re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def duration_ms(text: str) -> int:
    """Return the milliseconds that `text` writes; ValueError when it writes none.

    Numbers with units: w, d, h, m, s, ms; together from the largest to the smallest.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        raise ValueError(
            f"{text[:40]!r} is not a duration: write 7d, 12h, 30m, 10s, 250ms or 1h30m"
        )
    return sum(
        int(number) * unit_ms
        for number, unit_ms in zip(found.groups(), _UNIT_MS.values(), strict=True)
        if number
    )


def rate_from(text: str) -> float:
    """Return the rate that `text` writes; ValueError when it writes no number."""
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is not a rate: write a number, such as 60") from error


def instant_ms(text: str) -> int:
    """Return milliseconds since the Unix epoch for an ISO 8601 time, UTC unless it says otherwise.

    ValueError when `text` is none, or one outside of the years 1970 to 9999.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise ValueError(
            f"{text[:40]!r} is not a time: write it as 2026-03-01T12:00:00Z"
        ) from error
    return datetime_ms(moment)


def datetime_ms(moment: datetime) -> int:
    """Return milliseconds since the Unix epoch; a time without a zone is UTC's."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    # As whole numbers: floating-point seconds lose milliseconds.
    ms = (aware - _EPOCH) // _MS
    if not 0 <= ms <= LATEST_MS:
        raise ValueError(f"{moment.isoformat()} is not within the years 1970 to 9999")
    return ms


def datetime_of(ms: int) -> datetime:
    """Return the time so many milliseconds after the Unix epoch, in UTC."""
    return _EPOCH + ms * _MS


def iso_of(ms: int) -> str:
    """Return a time as ISO 8601 writes it, in UTC with milliseconds."""
    return datetime_of(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
