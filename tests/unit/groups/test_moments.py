"""Times of day in sentences."""

from __future__ import annotations

import pytest

from kafkalite.groups.moments import time_of_day


@pytest.mark.parametrize(
    ("at_ms", "told"),
    [
        (0, "00:00:00.000"),
        (86_399_999, "23:59:59.999"),
        (1_700_000_003_120, "22:13:23.120"),
        (-1, "23:59:59.999"),
    ],
)
def test_a_moment_is_told_by_its_time_of_day(at_ms: int, told: str) -> None:
    assert time_of_day(at_ms) == told
