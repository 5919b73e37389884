"""Formatting of timestamps."""

from __future__ import annotations

import pytest

from kafkalite.groups.timestamps import time_of_day


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (0, "00:00:00.000"),
        (86_399_999, "23:59:59.999"),
        (1_700_000_003_120, "22:13:23.120"),
        (-1, "23:59:59.999"),
    ],
)
def test_a_timestamp_is_formatted_as_time_of_day(at_ms: int, expected: str) -> None:
    assert time_of_day(at_ms) == expected
