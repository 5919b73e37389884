"""Brokers with short timeouts: expired and full groups, transaction timeouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.scenario_runs import ConcurrentRuns
from tests.conformance.scenarios import groups_with_short_timeouts, transactions_with_short_timeouts
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

WAITING = (*groups_with_short_timeouts.WAITING, *transactions_with_short_timeouts.WAITING)


@pytest.fixture(scope="module")
def runs_by_scenario(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Mapping[str, ConcurrentRuns]]:
    """Start both brokers and run all scenarios; name of a scenario → the runs that it is in."""
    config = {
        **COMMON_CONFIG,
        **groups_with_short_timeouts.SHORT_TIMEOUTS,
        **transactions_with_short_timeouts.SHORT_TIMEOUTS,
    }
    with required():
        real = RealKafka(tmp_path_factory.mktemp("short-timeouts-kafka"), config)
        real.start()
    try:
        emulator = broker_under_test(tmp_path_factory.mktemp("short-timeouts-emulator"), config)
        emulator.start()
        try:
            # One after the other: concurrent scenarios would be too slow on two processors.
            yield {
                scenario.__name__: runs
                for scenarios in (
                    groups_with_short_timeouts.WAITING,
                    transactions_with_short_timeouts.WAITING,
                )
                for runs in [ConcurrentRuns(scenarios, real, emulator)]
                for scenario in scenarios
            }
        finally:
            emulator.kill()
    finally:
        real.kill()


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in WAITING])
def test_brokers_with_short_timeouts_answer_the_same(
    scenario: str, runs_by_scenario: Mapping[str, ConcurrentRuns], attempt: int
) -> None:
    lines = runs_by_scenario[scenario].differences(scenario, attempt)
    assert not lines, "\n".join(lines)
