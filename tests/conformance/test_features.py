"""Changes of feature levels, on brokers of their own: a real Kafka and kafkalite."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from tests.conformance.compare import differences
from tests.conformance.compared_releases import KAFKA_4_4
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios.features import SCENARIOS
from tests.oracle.fixtures import broker_under_test
from tests.oracle.jars import java_command
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, restart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


_TOOL: Final = "org.apache.kafka.tools.FeatureCommand"
_OTHER_FEATURES: Final = {
    *(name.removeprefix("feature ") for name in KAFKA_4_4 if name.startswith("feature ")),
}
"""Features whose levels differ between the brokers."""
_COMMANDS: Final = (
    "describe",
    "downgrade --feature share.version=0 --dry-run",
    "downgrade --feature share.version=0",
    "upgrade --feature share.version=1",
    "upgrade --feature group.version=4",
    "upgrade --feature no.such.feature=1",
    "downgrade --metadata 4.2",
    "downgrade --unsafe --metadata 4.2",
    "disable --feature streams.version",
    "upgrade --release-version 4.3",
    "describe",
)


def _run_tool(target: Target, command: str) -> tuple[int, list[str]]:
    """Run kafka-features.sh; return its status and output without what may differ."""
    run = subprocess.run(
        java_command(_TOOL, "--bootstrap-server", f"127.0.0.1:{target.port}", *command.split()),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = [
        re.sub(r"Epoch: \d+", "Epoch: n", line.strip())
        for line in run.stdout.splitlines()
        if not any(f"{name} " in line for name in _OTHER_FEATURES)
    ]
    return run.returncode, sorted(lines)


def test_the_tool_of_kafka_prints_the_same(brokers: tuple[Target, Target]) -> None:
    printed = [[_run_tool(target, command) for command in _COMMANDS] for target in brokers]
    real, emulated = (dict(zip(_COMMANDS, outputs, strict=True)) for outputs in printed)
    lines = {command: (real[command], emulated[command]) for command in _COMMANDS}
    assert {command for command, (one, other) in lines.items() if one != other} == set(), lines


_UPGRADE: Final = (
    "describe",
    "upgrade --release-version 4.4 --dry-run",
    "upgrade --release-version 4.4",
    "upgrade --release-version 4.4",
    "describe",
)


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[tuple[Target, Target]]:
    """Yield a real Kafka and kafkalite of release 4.4 that continue clusters of release 4.3."""
    kafka = RealKafka(tmp_path / "kafka")
    earlier_kafka = RealKafka(tmp_path / "kafka", release="4.3.1")
    kafka.port = earlier_kafka.port  # the properties of a data directory are written once
    emulator = ServedKafkalite(tmp_path / "emulator")
    earlier_emulator = ServedKafkalite(tmp_path / "emulator", options=("--as-version", "4.3"))
    try:
        for earlier, later in ((earlier_kafka, kafka), (earlier_emulator, emulator)):
            with required():
                earlier.start()
                earlier.stop()
                later.start()
        yield kafka, emulator
    finally:
        for target in (earlier_kafka, earlier_emulator, kafka, emulator):
            target.kill()


def test_the_tool_of_kafka_upgrades_a_cluster_of_an_earlier_release(
    upgraded: tuple[Target, Target],
) -> None:
    real, emulated = ([_run_tool(target, command) for command in _UPGRADE] for target in upgraded)
    assert emulated == real
    assert real[0] != real[-1]
    for target in upgraded:
        restart(target)
    real_levels, emulated_levels = (_run_tool(target, "describe") for target in upgraded)
    assert emulated_levels == real_levels == real[-1]
