"""A limit of records a second, and figures of the tools that measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.retries import wait_until
from kafkalite.ports.clock import AdjustableClock

if TYPE_CHECKING:
    from collections.abc import Sequence

_MS_PER_SECOND: Final = 1_000
BYTES_PER_MB: Final = 1024 * 1024


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
