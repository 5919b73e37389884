"""Client telemetry: kafkalite answers as a Kafka whose metrics reporter receives the metrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.api_keys import ApiKey
from tests.conformance.advertised import api_versions
from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import telemetry
from tests.oracle.fixtures import broker_under_test
from tests.oracle.jars import compiled
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

_APIS = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Start both brokers; both receive the metrics of clients."""
    with required():
        real = RealKafka(
            tmp_path_factory.mktemp("telemetry-kafka"),
            {**COMMON_CONFIG, "metric.reporters": "TelemetryReceiver"},
            classes=compiled(Path(__file__).parent / "telemetry_receiver"),
        )
        real.start()
    try:
        emulator = broker_under_test(
            tmp_path_factory.mktemp("telemetry"),
            {**COMMON_CONFIG, "kafkalite.client.telemetry": "true"},
        )
        emulator.start()
        yield real, emulator
        emulator.kill()
    finally:
        real.kill()


@pytest.mark.parametrize("scenario", telemetry.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, brokers: tuple[Target, Target]
) -> None:
    real, emulator = brokers
    lines = differences(play(scenario, real), play(scenario, emulator))
    assert not lines, "\n".join(lines)


def test_the_apis_are_served_but_not_advertised_without_a_receiver(
    real_kafka: RealKafka, tmp_path: Path
) -> None:
    emulator = broker_under_test(tmp_path)
    emulator.start()
    try:
        for broker in (real_kafka, emulator):
            assert not _APIS & api_versions(broker.port, 3).apis.keys()
        scenario = telemetry.a_push_without_a_request_for_the_subscription
        lines = differences(play(scenario, real_kafka), play(scenario, emulator))
        assert not lines, "\n".join(lines)
    finally:
        emulator.kill()
