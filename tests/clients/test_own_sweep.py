"""The broker survives its own sweep: disk calls, timers and calls between nodes that fail once."""

from __future__ import annotations

import pytest

from tests.clients.own_sweep import Failure, problems, sampled

pytestmark = [pytest.mark.client, pytest.mark.endurance]

_CASES = 2
_SEED = 36


def test_clients_lose_nothing_when_a_call_fails_once() -> None:
    """`python -m tests.clients.own_sweep` runs all cases."""
    found, usual = problems(None)
    assert found == []
    assert min(usual.counts.values()) > _CASES
    happened = set()
    for point in sampled(usual.counts, _SEED, _CASES):
        found, points = problems(point)
        assert found == [], point
        if points.has_happened:
            happened.add(point.failure)
    assert happened == {*Failure}
