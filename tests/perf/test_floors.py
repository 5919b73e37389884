"""Small versions of the comparison of single requests with an echo."""

from __future__ import annotations

import pytest

from tests.perf.floors import TARGETS, missed_targets, ratios, table

# Processor time is counted in steps of 10 ms: several requests need less than one.
_COUNT = 2_000


@pytest.mark.endurance
def test_each_request_costs_more_than_its_echo() -> None:
    costs = ratios(rounds=1, count=_COUNT)
    assert costs.keys() == TARGETS.keys()
    assert all(cost > floor > 0 for cost, floor in costs.values()), costs


def test_a_ratio_above_its_target_is_reported() -> None:
    costs = {"heartbeat": (16.0, 10.0), "produce": (36.0, 10.0), "commit": (39.0, 10.0)}
    (missed,) = missed_targets(costs)
    assert missed == "Produce of one record, acks=all: 3.6 times the echo, above 3.5"
    assert "| Heartbeat | 16.0 | 10.0 | 1.6 | 1.6 |" in table(costs)
