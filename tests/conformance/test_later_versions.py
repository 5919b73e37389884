"""The versions that Kafka 4.4 added, at a real Kafka 4.4 and at kafkalite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.scenario_runs import compared
from tests.conformance.scenarios.later_versions import SCENARIOS

if TYPE_CHECKING:
    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.real_kafka import RealKafka
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance, pytest.mark.timeout(240)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: RealKafka, emulator: Target
) -> None:
    assert compared(scenario, real_kafka, emulator) == ""
