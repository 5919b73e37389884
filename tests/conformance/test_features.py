"""Changes of feature levels, on brokers of their own: a real Kafka and kafkalite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios.features import SCENARIOS
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Start a real Kafka and the broker under test, whose levels the scenarios change."""
    with required():
        real = RealKafka(tmp_path_factory.mktemp("updated-kafka"))
        real.start()
    try:
        emulator = broker_under_test(tmp_path_factory.mktemp("updated-emulator"), COMMON_CONFIG, {})
        emulator.start()
        yield real, emulator
        emulator.kill()
    finally:
        real.kill()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, brokers: tuple[Target, Target]
) -> None:
    real, emulator = brokers
    lines = differences(play(scenario, real), play(scenario, emulator))
    assert not lines, "\n".join(lines)
