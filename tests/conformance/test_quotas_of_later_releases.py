"""The scenarios of quotas on the releases of Kafka after the emulated one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.later_releases import RELEASES
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import client_quotas
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

_LATER = [release.version for release in RELEASES.values() if release.version is not None]


@pytest.fixture(scope="module", params=_LATER)
def later_kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealKafka]:
    """Run a Kafka of a later release."""
    kafka = RealKafka(tmp_path_factory.mktemp("later"), release=request.param)
    try:
        with required():
            kafka.start()
        yield kafka
    finally:
        kafka.kill()


@pytest.mark.parametrize(
    "scenario", client_quotas.SCENARIOS, ids=lambda scenario: scenario.__name__
)
def test_quotas_are_administered_as_in_later_releases(
    scenario: Scenario, later_kafka: RealKafka, emulator: Target
) -> None:
    lines = differences(play(scenario, later_kafka), play(scenario, emulator))
    assert not lines, "\n".join(lines)
