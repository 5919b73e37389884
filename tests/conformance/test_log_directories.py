"""Two log directories of one node: kafkalite answers as Kafka, also after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenario_runs import compared
from tests.conformance.scenarios import log_directories
from tests.conformance.scenarios.log_directories import directories_after_a_restart
from tests.oracle.fixtures import broker_under_test, running_targets
from tests.oracle.real_kafka import RealKafka
from tests.oracle.target import COMMON_CONFIG, Target, restart

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.scenario_cluster import Entry

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


def test_two_log_directories_are_those_of_kafka(tmp_path: Path) -> None:
    def config(name: str) -> dict[str, str]:
        paths = (str(tmp_path / name / each) for each in ("first", "second"))
        return {**COMMON_CONFIG, "log.dirs": ",".join(paths)}

    real = RealKafka(tmp_path / "kafka", config("kafka"))
    emulator = broker_under_test(tmp_path / "emulator", config("emulator"))
    with running_targets(real, emulator):
        for scenario in log_directories.SCENARIOS:
            lines = compared(scenario, real, emulator)
            assert not lines, f"{scenario.__name__}:\n{lines}"
        for target in (real, emulator):
            restart(target)
        lines = "\n".join(differences(*map(_described_again, (real, emulator))))
        assert not lines, lines


def _described_again(target: Target) -> list[Entry]:
    cluster = ScenarioCluster(target.port, "restarted")
    try:
        directories_after_a_restart(cluster)
    finally:
        cluster.close()
    return cluster.transcript
