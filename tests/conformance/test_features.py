"""Changes of feature levels, on brokers of their own: a real Kafka and kafkalite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios.features import SCENARIOS, groups_are_disabled_from_the_start
from tests.conformance.tool_runs import run_with_each, tool_sides
from tests.kafka_tools.case import Case
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.releases import LATEST_PATCH
from tests.oracle.requirements import required
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import COMMON_CONFIG, restart

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conformance.scenario_runs import Scenario
    from tests.kafka_tools.sides import Result
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


_LOWEST: Final = {
    "group.version": "0",
    "share.version": "0",
    "streams.version": "0",
    "transaction.version": "0",
    "eligible.leader.replicas.version": "0",
}


def test_level_0_of_every_feature_is_that_of_kafka(tmp_path: Path) -> None:
    with required():
        real = RealKafka(tmp_path / "kafka", features=_LOWEST)
        real.start()
    try:
        emulator = broker_under_test(tmp_path / "emulator", COMMON_CONFIG, _LOWEST)
        emulator.start()
        played = [play(groups_are_disabled_from_the_start, each) for each in (real, emulator)]
        emulator.kill()
    finally:
        real.kill()
    lines = differences(*played)
    assert not lines, "\n".join(lines)


_COMMANDS: Final = (
    "describe",
    "downgrade --feature share.version=0 --dry-run",
    "downgrade --feature share.version=0",
    "upgrade --feature share.version=1",
    "upgrade --feature share.version=2",
    "upgrade --feature group.version=4",
    "upgrade --feature no.such.feature=1",
    "downgrade --metadata 4.2",
    "downgrade --unsafe --metadata 4.2",
    "disable --feature streams.version",
    "upgrade --release-version 4.3",
    "upgrade --release-version 4.4",
    "describe",
)


def _print_with_each(brokers: tuple[Target, Target], *commands: str) -> list[list[Result | None]]:
    """Run commands of kafka-features.sh; return the results at both brokers."""
    # No command has the address of a controller.
    addresses = [(broker.bootstrap, broker.bootstrap) for broker in brokers]
    with required(), tool_sides(addresses) as sides:
        return [
            run_with_each(sides, Case("kafka-features", command, unordered=True))
            for command in commands
        ]


def test_the_tool_of_kafka_prints_the_same(brokers: tuple[Target, Target]) -> None:
    printed = list(zip(_COMMANDS, _print_with_each(brokers, *_COMMANDS), strict=True))
    for command, (described, _) in printed:
        if command == "describe":
            assert described is not None
            assert any("share.version" in line for line in described.output), printed
    different = [command for command, (real, emulated) in printed if real != emulated]
    assert not different, printed


_UPGRADE: Final = (
    "describe",
    "upgrade --feature eligible.leader.replicas.version=1",
    "upgrade --release-version 4.4 --dry-run",
    "upgrade --release-version 4.4",
    "upgrade --release-version 4.4",
    "describe",
)


@pytest.fixture(params=["3.9", "4.3"])
def upgraded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Target, Target]]:
    """Yield a real Kafka and kafkalite of release 4.4 that continue clusters of an earlier one."""
    earlier_release = request.param
    kafka = RealKafka(tmp_path / "kafka")
    earlier_kafka = RealKafka(tmp_path / "kafka", release=LATEST_PATCH[earlier_release])
    kafka.port = earlier_kafka.port  # the properties of a data directory are written once
    emulator = ServedKafkalite(tmp_path / "emulator")
    earlier_emulator = ServedKafkalite(
        tmp_path / "emulator", options=("--as-version", earlier_release)
    )
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
    real, emulated = zip(*_print_with_each(upgraded, *_UPGRADE), strict=True)
    assert emulated == real
    assert real[0] != real[-1]
    for target in upgraded:
        restart(target)
    ((real_levels, emulated_levels),) = _print_with_each(upgraded, "describe")
    assert emulated_levels == real_levels == real[-1]
