"""Delays double up to the maximum, and have jitter."""

from __future__ import annotations

import pytest

from kafkalite.ports.backoff import ExponentialBackoff
from kafkalite.ports.seeded_entropy import SeededEntropy

BACKOFF = ExponentialBackoff(1_000, 30_000)


@pytest.mark.parametrize(
    ("attempts", "middle_ms"),
    [(0, 1_000), (1, 2_000), (4, 16_000), (5, 30_000), (1_000_000_000, 30_000)],
)
def test_delays_double_and_are_changed_by_a_fifth(attempts: int, middle_ms: int) -> None:
    entropy = SeededEntropy()
    delays = [BACKOFF.delay_ms(attempts, entropy) for _ in range(200)]
    assert min(delays) >= 0.8 * middle_ms
    assert max(delays) <= min(1.2 * middle_ms, 30_000)
    assert max(delays) - min(delays) > 0.15 * middle_ms


def test_a_delay_is_at_most_the_maximum() -> None:
    entropy = SeededEntropy()
    assert max(BACKOFF.delay_ms(9, entropy) for _ in range(200)) == 30_000
