"""The arithmetic of the benchmark of the columnar reader."""

from __future__ import annotations

from tests.perf.columnar_bench import MIN_SPEEDUP_OVER_TSHARK, Speed, missed_targets, table

SPEEDS = [
    Speed("paired requests", 0.5, 1_000_000, 100_000_000),
    Speed("typed OffsetCommit", 0.5, 1_000_000, 100_000_000),
    Speed("tshark", 10.0, 500_000, 50_000_000),
]


def test_speeds_above_the_minimum_are_not_reported() -> None:
    assert missed_targets(SPEEDS) == []
    assert "| paired requests | 0.50 | 200 | 2.000 |" in table(SPEEDS)


def test_speeds_below_the_minimum_are_reported() -> None:
    slow = [
        Speed("paired requests", 5.0, 1_000_000, 1),
        Speed("typed OffsetCommit", 9.0, 900_000, 1),
    ]
    failures = missed_targets([*slow, SPEEDS[2]])
    assert failures == [
        "paired requests: 200,000 frames/s, not 1,800,000",
        "typed OffsetCommit: 100,000 frames/s, not 2,000,000",
        f"2.0 times tshark, not {MIN_SPEEDUP_OVER_TSHARK}",
    ]
