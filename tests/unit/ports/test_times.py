"""Durations, times and rates as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.ports.clock import LATEST_MS
from kafkalite.ports.times import (
    datetime_ms,
    datetime_of,
    duration_ms,
    instant_ms,
    iso_of,
    parse_rate,
)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("7d", 604_800_000),
        ("12h", 43_200_000),
        ("30m", 1_800_000),
        ("10s", 10_000),
        ("250ms", 250),
        ("1h30m", 5_400_000),
        ("2w1d1h1m1s1ms", 1_299_661_001),
        ("1m5ms", 60_005),
        (" 0s ", 0),
    ],
)
def test_a_duration_has_numbers_with_units(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "7",
        "d",
        "-7d",
        "+7d",
        "7 d",
        "30m1h",
        "1h1h",
        "7D",
        "1.5h",
        "7days",
        "\u0667d",
        "1mss",
    ],
)
def test_other_text_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write 7d"):
        duration_ms(text)


@given(st.text(max_size=12) | st.from_regex(r"[0-9dhms ]{0,12}", fullmatch=True))
def test_any_text_is_a_duration_or_raises_value_error(text: str) -> None:
    try:
        assert duration_ms(text) >= 0
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017 - most are refused, some are not


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-03-01T12:00:00Z", 1_772_366_400_000),
        ("2026-03-01T13:00:00+01:00", 1_772_366_400_000),
        ("2026-03-01T12:00:00.123", 1_772_366_400_123),
        ("2026-03-01", 1_772_323_200_000),
        ("1970-01-01", 0),
    ],
)
def test_the_default_time_zone_is_utc(text: str, ms: int) -> None:
    assert instant_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "now", "12:00", "2026-13-01", "1969-12-31", "9999-12-31T23:00:00-02:00"]
)
def test_other_text_is_not_a_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time|is not within"):
        instant_ms(text)


def test_the_zone_of_a_datetime_is_used() -> None:
    zone = timezone(timedelta(hours=2))
    assert datetime_ms(datetime(1970, 1, 1, 2, 0, 0, 7_000, tzinfo=zone)) == 7
    assert datetime_of(7) == datetime(1970, 1, 1, 0, 0, 0, 7_000, tzinfo=UTC)


@given(st.integers(0, LATEST_MS))
def test_printed_times_can_be_parsed(ms: int) -> None:
    assert instant_ms(iso_of(ms)) == ms
    assert datetime_ms(datetime_of(ms)) == ms


def test_milliseconds_are_always_printed() -> None:
    assert iso_of(1_772_366_400_000) == "2026-03-01T12:00:00.000Z"
    assert iso_of(-1) == "1969-12-31T23:59:59.999Z"
    assert [iso_of(each) for each in (2**63, -(2**63), 10**15)] == [
        "9223372036854775808", "-9223372036854775808", "1000000000000000",
    ]  # fmt: skip


def test_a_rate_is_a_number() -> None:
    assert parse_rate("0.5") == 0.5
    with pytest.raises(ValueError, match="'fast' is not a rate: write a number"):
        parse_rate("fast")
