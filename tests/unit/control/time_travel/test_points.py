"""Points in the past as numbers, texts and times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kafkalite.control.time_travel.points import Point, TimeTravelError, point_of

NOW_MS = 1_000_000_000_000


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        (42, Point(end_offset=42)),
        ("42", Point(end_offset=42)),
        ("5m", Point(time_ms=NOW_MS - 300_000)),
        ("-1h30m", Point(time_ms=NOW_MS - 5_400_000)),
        ("2001-09-09T01:46:40Z", Point(time_ms=NOW_MS)),
        (datetime(2001, 9, 9, 1, 46, 39, tzinfo=UTC), Point(time_ms=NOW_MS - 1000)),
    ],
)
def test_a_point_is_an_offset_a_duration_or_a_time(
    when: int | str | datetime, expected: Point
) -> None:
    assert point_of(when, NOW_MS) == expected


@pytest.mark.parametrize(
    ("when", "text"),
    [
        ("yesterday", "'yesterday' is no point in time: write an offset, such as 42"),
        (-1, "'-1' is no point in time"),
        ("2001-09-09T01:46:41Z", "2001-09-09T01:46:41.000Z is after now, which is 2001-09-09T01"),
        ("5000w", "'5000w' before now is before 1970"),
    ],
)
def test_other_values_and_the_future_are_refused(when: int | str, text: str) -> None:
    with pytest.raises(TimeTravelError, match=text):
        point_of(when, NOW_MS)
