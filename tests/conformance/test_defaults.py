"""With `--defaults kafka`, default settings are described as by a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import configs
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


def test_kafkas_defaults_are_described_as_defaults(tmp_path: Path) -> None:
    with required():
        real = RealKafka(tmp_path / "kafka", {}, defaults={})
        real.start()
    try:
        emulator = ServedKafkalite(tmp_path / "kafkalite", {}, options=("--defaults", "kafka"))
        emulator.start()
        try:
            for scenario in (
                configs.broker_configs_are_described,
                configs.topic_configs_are_described_in_every_version,
                configs.group_configs_are_described_and_altered,
            ):
                lines = differences(play(scenario, real), play(scenario, emulator))
                assert not lines, "\n".join(lines)
        finally:
            emulator.kill()
    finally:
        real.kill()
