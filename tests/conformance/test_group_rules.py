"""Details of groups and offsets, compared with a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.recordings import renewed
from tests.conformance.scenario_runs import ConcurrentRuns, compared
from tests.conformance.scenarios import (
    classic_rules,
    group_records,
    group_waits,
    offset_rules,
    session_renewals,
    share_groups,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

SCENARIOS = (*classic_rules.SCENARIOS, *offset_rules.SCENARIOS, *group_records.SCENARIOS)
WAITING = (*group_waits.WAITING, *share_groups.WAITING)


@pytest.mark.parametrize("scenario", renewed(SCENARIOS), ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: Target, emulator: Target
) -> None:
    assert compared(scenario, real_kafka, emulator) == ""


@pytest.fixture(scope="module")
def runs(real_kafka: Target, emulator: Target) -> ConcurrentRuns:
    """Run all waiting scenarios concurrently."""
    return ConcurrentRuns(WAITING, real_kafka, emulator)


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in WAITING])
def test_kafkalite_waits_as_long_as_kafka_does(
    scenario: str, runs: ConcurrentRuns, attempt: int
) -> None:
    lines = runs.differences(scenario, attempt)
    assert not lines, "\n".join(lines)


@pytest.fixture(scope="module")
def lives(real_kafka: Target, emulator: Target) -> ConcurrentRuns:
    """Run all cases of sessions concurrently, apart from the others, whose timers they delay."""
    return ConcurrentRuns(session_renewals.WAITING, real_kafka, emulator)


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in session_renewals.WAITING])
def test_sessions_are_renewed_as_in_kafka(
    scenario: str, lives: ConcurrentRuns, attempt: int
) -> None:
    lines = lives.differences(scenario, attempt)
    assert not lines, "\n".join(lines)
