"""The limit of records a second."""

from __future__ import annotations

from kafkalite.docker.tools.pacing import Pace, percentile


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
