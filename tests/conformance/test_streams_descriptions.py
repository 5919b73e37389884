"""Descriptions of topologies that Kafka's plugin stores in memory, compared with a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios.streams_roles import (
    a_description_is_requested_once,
    topologies_are_described,
)
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle

_CONFIG = {
    **COMMON_CONFIG,
    "group.streams.topology.description.plugin.class": (
        "org.apache.kafka.server.streams.InMemoryTopologyDescriptionPlugin"
    ),
}


def test_descriptions_are_stored_as_in_kafka(tmp_path: Path) -> None:
    with required():
        kafka = RealKafka(tmp_path / "kafka", _CONFIG)
        kafka.start()
    emulator = broker_under_test(tmp_path / "kafkalite", _CONFIG)
    try:
        emulator.start()
        lines = [
            line
            for scenario in (topologies_are_described, a_description_is_requested_once)
            for line in differences(*(play(scenario, target) for target in (kafka, emulator)))
        ]
    finally:
        emulator.kill()
        kafka.kill()
    assert not lines, "\n".join(lines)
