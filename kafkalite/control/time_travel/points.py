"""Point: a moment in the past, as an offset of one log or as a time."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from kafkalite.control.command_table import CommandError
from kafkalite.ports.clock import LATEST_MS
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.times import datetime_ms, duration_ms, instant_ms, iso_of

_AGO: Final = re.compile(r"-?(?=[0-9])(?:[0-9]+(?:ms|[wdhms]))+", re.ASCII)
_OFFSET_OF_LOG: Final = re.compile(
    r"(?P<log>[\w.-]+-[0-9]{1,10}):(?P<offset>[0-9]{1,19})", re.ASCII
)
_MAX_OFFSET: Final = 2**63 - 1


class TimeTravelError(CommandError):
    """An earlier state that cannot be known; the text is one sentence."""


class Point(NamedTuple):
    """A moment in the past: an offset or a time."""

    end_offset: int | None = None
    """The records before this offset count."""
    time_ms: int | None = None
    """The records that were written until this time count, the time itself included."""
    log: str | None = None
    """Topic, dash and partition of the log that has the offset; None if that is not given."""

    def __str__(self) -> str:
        """Return the point as in a sentence."""
        if self.time_ms is None:
            on_log = "" if self.log is None else f" of {self.log}"
            return f"offset {self.end_offset}{on_log}"
        return iso_of(self.time_ms)


def point_of(when: int | str | datetime, now_ms: int) -> Point:
    """Return the point that a number (an offset), a text or a time means.

    A text is an offset, an offset of a log, such as `__consumer_offsets-7:42`, a duration before
    now, such as `5m` or `-5m`, or a time in ISO 8601. Raises
    TimeTravelError for another one, and for a time after `now_ms`.
    """
    try:
        point = _parsed(when, now_ms)
    except ValueError as error:
        raise TimeTravelError(str(error)) from error
    if point.time_ms is not None and not 0 <= point.time_ms <= now_ms:
        raise TimeTravelError(f"{point} is after now, which is {iso_of(now_ms)}")
    return point


def _parsed(when: int | str | datetime, now_ms: int) -> Point:
    if isinstance(when, datetime):
        return Point(time_ms=datetime_ms(when))
    text = f"{when}".strip()
    if text.isascii() and text.isdigit() and int(text) <= _MAX_OFFSET:
        return Point(end_offset=int(text))
    named = _OFFSET_OF_LOG.fullmatch(text)
    if named is not None and int(named["offset"]) <= _MAX_OFFSET:
        return Point(end_offset=int(named["offset"]), log=named["log"])
    if _AGO.fullmatch(text):
        ago_ms = duration_ms(text.removeprefix("-"))
        if ago_ms > now_ms:
            raise ValueError(f"{text[:40]!r} before now is before 1970")
        return Point(time_ms=now_ms - ago_ms)
    try:
        return Point(time_ms=instant_ms(text))
    except ValueError as error:
        raise ValueError(
            f"{text[:40]!r} is no point in time: write an offset, such as 42, a duration before "
            "now, such as 5m, or a time, such as 2026-03-01T12:00:00Z"
        ) from error


LATEST: Final = Point(time_ms=LATEST_MS)
"""The point after all records."""
