"""The limit of records a second."""

from __future__ import annotations

import pytest

from kafkalite.docker.tools.arguments import ToolError
from kafkalite.docker.tools.pacing import Pace, date_text, percentile


async def test_a_sender_waits_until_its_time() -> None:
    pace = Pace(1_000)
    await pace.wait(20)
    assert pace.now_ms() - pace.start_ms >= 20
    assert pace.elapsed_s >= 0.02


async def test_no_limit_needs_no_time() -> None:
    await Pace(-1).wait(1_000_000_000)


def test_percentiles_are_values() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert percentile([1.0], 0.999) == 1.0
    assert percentile([], 0.5) == 0.0


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2026-01-02 03:04:05:006"),
        ("dd.MM.yy 'at' HH''mm", "02.01.26 at 03'04"),
    ],
)
def test_times_have_the_form_of_a_pattern(pattern: str, text: str) -> None:
    assert date_text(1_767_323_045_006, pattern) == text


def test_unknown_fields_of_a_pattern_are_refused() -> None:
    with pytest.raises(ToolError, match="--date-format 'QQ': QQ is not one of yyyy, yy,"):
        date_text(0, "QQ")
