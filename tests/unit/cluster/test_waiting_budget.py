"""The memory of waiting requests."""

from __future__ import annotations

from kafkalite.cluster.waiting_budget import WaitingBudget


def test_memory_that_is_not_free_is_not_reserved() -> None:
    budget = WaitingBudget(10)
    assert budget.take(6)
    assert not budget.take(5)
    assert budget.take(4)
    assert not budget.take(1)
    budget.release(6)
    assert budget.take(6)
