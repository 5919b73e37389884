"""DescribeConfigs names, types and defaults of settings are those of each release of Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.releases import release_names
from kafkalite.testing import Broker
from tests.conformance.described_settings import described, recorded
from tests.conformance.scenario_runs import at
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("release", release_names())
def test_settings_are_described_as_by_each_release(release: str) -> None:
    with Broker(as_version=release, defaults="kafka") as broker:
        assert described(at(broker).port) == recorded(release)


@pytest.mark.oracle
@pytest.mark.endurance
def test_the_recording_is_that_of_kafka(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path, {}, defaults={})
        kafka.start()
    try:
        assert described(kafka.port) == recorded("4.4")
    finally:
        kafka.kill()
