"""A small version of the comparison of the start with its floor."""

from __future__ import annotations

import pytest

from tests.perf.start import COMMANDS, costs, missed_targets, table


@pytest.mark.endurance
def test_each_start_costs_more_than_the_floor() -> None:
    measured = costs(rounds=1)
    assert measured.keys() == COMMANDS.keys()
    assert all(cost > floor > 0 for cost, floor in measured.values()), measured


def test_a_ratio_above_its_target_is_reported() -> None:
    measured = {"console script": (0.131, 0.1), "`python -m kafkalite`": (0.129, 0.1)}
    assert missed_targets(measured) == ["start by console script: 1.31 times the floor, above 1.3"]
    assert "| console script | 131 | 100 | 1.31 | 1.3 |" in table(measured)
