"""ExponentialBackoff: delays between retries that double, with random jitter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.ports.entropy import Entropy

_JITTER: Final = 0.2
_RANDOM_STEPS: Final = 1 << 20


class ExponentialBackoff(NamedTuple):
    """Delays as those of Kafka's ExponentialBackoff with a jitter of 20 %."""

    initial_ms: int
    max_ms: int

    def delay_ms(self, attempts: int, entropy: Entropy) -> int:
        """Return the initial delay, doubled `attempts` times and changed by up to 20 %.

        It is at most `max_ms`.
        """
        doubled_ms = self.initial_ms
        for _ in range(attempts):
            if doubled_ms >= self.max_ms:
                break
            doubled_ms *= 2
        share = entropy.integer(_RANDOM_STEPS) / _RANDOM_STEPS
        factor = 1 - _JITTER + 2 * _JITTER * share
        return min(int(min(doubled_ms, self.max_ms) * factor), self.max_ms)
