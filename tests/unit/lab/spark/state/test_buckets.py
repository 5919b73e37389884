"""Lengths of buckets: of a capture, and of a part of it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.lab.spark.state.buckets import bucket_us_of_part, choose_bucket_ms


@pytest.mark.parametrize(
    ("duration_ms", "bucket_ms"),
    [(0, 1), (60, 1), (5_000, 100), (9_999, 100), (60_000, 1_000), (400_000, 5_000)],
)
def test_short_capture_has_short_buckets(duration_ms: int, bucket_ms: int) -> None:
    assert choose_bucket_ms(10_000, duration_ms) == bucket_ms


def test_bucket_is_not_longer_than_configured() -> None:
    assert choose_bucket_ms(10_000, 86_400_000) == 10_000
    assert choose_bucket_ms(30, 1_000) == 20
    assert choose_bucket_ms(3, 150) == 3


def part(duration_us: int) -> pa.Table:
    return pa.table({"start_us": pa.array([7, 7 + duration_us], pa.int64())})


@given(
    duration_us=st.integers(0, 10**12),
    fraction=st.floats(0, 1),
    max_ms=st.integers(1, 20_000),
    retention_ms=st.integers(1, 20_000),
)
def test_bucket_of_a_part_divides_that_of_the_capture(
    duration_us: int, fraction: float, max_ms: int, retention_ms: int
) -> None:
    of_capture_us = choose_bucket_ms(max_ms, duration_us // 1_000) * 1_000
    of_part = part(int(duration_us * fraction))
    assert of_capture_us % bucket_us_of_part(of_part, max_ms * 1_000) == 0
    # A bucket of accepted offsets is at most as long as the retention.
    of_offsets_us = min(of_capture_us, retention_ms * 1_000)
    assert of_offsets_us % bucket_us_of_part(of_part, min(max_ms, retention_ms) * 1_000) == 0


def test_part_has_at_most_ten_times_as_many_buckets_as_a_capture() -> None:
    assert bucket_us_of_part(part(400_000_000), 10_000_000) == 1_000_000
    assert bucket_us_of_part(part(400_000_000), 2_500_000) == 100_000
    assert bucket_us_of_part(part(3_600_000_000), 10_000_000) == 10_000_000
    assert bucket_us_of_part(part(0)[:0], 10_000_000) == 1_000
