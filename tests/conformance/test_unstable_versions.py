"""Brokers with unstable.api.versions.enable serve the versions that Kafka is still developing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.api_versions import ApiVersionsRequest
from tests.conformance.compare import differences
from tests.conformance.raw import RawClient
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import two_phase_commit
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


@pytest.fixture(scope="module", params=["true", "false"], ids=["enabled", "disabled"])
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Target, Target]]:
    """Start both brokers, with two-phase commit enabled or not."""
    config = {
        **COMMON_CONFIG,
        "unstable.api.versions.enable": "true",
        "transaction.two.phase.commit.enable": request.param,
    }
    with required():
        real = RealKafka(tmp_path_factory.mktemp("unstable-kafka"), config)
        real.start()
    try:
        emulator = broker_under_test(tmp_path_factory.mktemp("unstable"), config)
        emulator.start()
        yield real, emulator
        emulator.kill()
    finally:
        real.kill()


@pytest.mark.parametrize(
    "scenario", two_phase_commit.SCENARIOS, ids=lambda scenario: scenario.__name__
)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, brokers: tuple[Target, Target]
) -> None:
    real, emulator = brokers
    lines = differences(play(scenario, real), play(scenario, emulator))
    assert not lines, "\n".join(lines)


def _highest_versions(port: int) -> dict[int, int]:
    client = RawClient(port)
    request = ApiVersionsRequest(
        client_software_name="conformance-test", client_software_version="1"
    )
    answer = client.call(request, 4)
    client.close()
    return {row.api_key: row.max_version for row in answer.api_keys}


def test_the_highest_versions_are_those_of_kafka(brokers: tuple[Target, Target]) -> None:
    real, emulated = (_highest_versions(broker.port) for broker in brokers)
    assert {key: real[key] for key in emulated} == emulated
