"""Where a share group begins, according to its configuration."""

from __future__ import annotations

import pytest

from kafkalite.apis.shares.reading import OffsetReset, parse_offset_reset

DAY_MS = 24 * 60 * 60 * 1000


@pytest.mark.parametrize(
    ("text", "reset"),
    [
        ("latest", OffsetReset("latest")),
        ("earliest", OffsetReset("earliest")),
        ("by_duration:PT1H", OffsetReset("by_duration", 3_600_000)),
        ("by_duration:P2DT3M", OffsetReset("by_duration", 2 * DAY_MS + 180_000)),
        ("by_duration:pt1.5s", OffsetReset("by_duration", 1_500)),
        ("by_duration:PT0.0005S", OffsetReset("by_duration", 0)),
    ],
)
def test_a_reset_is_an_end_of_the_log_or_a_duration(text: str, reset: OffsetReset) -> None:
    assert parse_offset_reset(text) == reset


def test_an_invalid_duration_raises() -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_offset_reset("by_duration:tomorrow")
