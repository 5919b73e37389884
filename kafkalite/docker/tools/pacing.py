"""A limit of records a second, and figures of the tools that measure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from kafkalite.client.retries import wait_until
from kafkalite.docker.tools.arguments import ToolError
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MS_PER_SECOND: Final = 1_000
BYTES_PER_MB: Final = 1024 * 1024
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"
"""The default of `--date-format`, as a pattern of Java's `SimpleDateFormat`."""
_DATE_PART: Final = re.compile(r"'([^']*)'|([a-zA-Z])\2*")
_DATE_FIELDS: Final[Mapping[str, str]] = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "EEEE": "%A",
    "EEE": "%a",
    "HH": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "a": "%p",
    "Z": "%z",
    "z": "%Z",
}
"""Field of a Java pattern → that of `strftime`."""


class Pace:
    """Lets a sender wait so that it sends no more than a number of records a second."""

    def __init__(self, records_per_second: float) -> None:
        """Create it; a number that is not positive is no limit."""
        self._rate = records_per_second
        self._clock = AdjustableClock()
        self.start_ms = self._clock.now_ms()
        """When the pace began."""

    def now_ms(self) -> int:
        """Return the time."""
        return self._clock.now_ms()

    async def wait(self, sent: int) -> None:
        """Wait until the next record may be sent after `sent` records."""
        if self._rate > 0:
            due_ms = self.start_ms + int(sent * _MS_PER_SECOND / self._rate)
            if due_ms > self._clock.now_ms():
                await wait_until(self._clock, due_ms)

    @property
    def elapsed_s(self) -> float:
        """The time since the start, at least a millisecond."""
        return max(1, self._clock.now_ms() - self.start_ms) / _MS_PER_SECOND


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of sorted values lies; 0 without values."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def date_text(time_ms: int, pattern: str = DATE_FORMAT) -> str:
    """Return a time in UTC by a pattern of Java's `SimpleDateFormat`; raises ToolError."""
    moment = datetime.fromtimestamp(time_ms / _MS_PER_SECOND, tz=UTC)

    def field(found: re.Match[str]) -> str:
        text = found[0]
        if found[1] is not None:
            return found[1] or "'"
        if text == "SSS":
            return f"{moment.microsecond // 1_000:03}"
        if text not in _DATE_FIELDS:
            raise ToolError(
                f"--date-format {pattern!r}: {text} is not one of {', '.join(_DATE_FIELDS)}, SSS"
            )
        return moment.strftime(_DATE_FIELDS[text])

    return _DATE_PART.sub(field, pattern)
