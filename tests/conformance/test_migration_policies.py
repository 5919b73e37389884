"""Under each `group.consumer.migration.policy` groups migrate as on a real Kafka.

The policy can only be set at the start, so each policy but the default needs separate brokers. One
scenario is run for each; `python -m tests.conformance.test_migration_policies` runs all scenarios.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import ScenarioCluster
from tests.conformance.scenarios import migration
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

POLICIES = ("disabled", "upgrade", "downgrade")
"""All policies except `bidirectional`, which all other migration scenarios use."""


def _differences(
    directory: Path, policy: str, scenarios: Sequence[Callable[[ScenarioCluster], None]]
) -> list[str]:
    config = {**COMMON_CONFIG, "group.consumer.migration.policy": policy}
    targets: list[Target] = []
    lines: list[str] = []
    try:
        with required():
            targets += [
                RealKafka(directory / "kafka", config),
                broker_under_test(directory / "emulator", config),
            ]
            for target in targets:
                target.start()
        for scenario in scenarios:
            transcripts = []
            for target in targets:
                cluster = ScenarioCluster(target.port, scenario.__name__.replace("_", "-"))
                try:
                    scenario(cluster)
                finally:
                    cluster.close()
                transcripts.append(cluster.transcript)
            lines += [
                f"{policy}: {scenario.__name__}{difference}"
                for difference in differences(*transcripts)
            ]
    finally:
        for target in targets:
            target.kill()
    return lines


@pytest.mark.parametrize("policy", POLICIES)
def test_a_migration_policy_has_the_same_effect_as_in_kafka(policy: str, tmp_path: Path) -> None:
    lines = _differences(tmp_path, policy, [migration.the_migration_policy_is_applied])
    assert not lines, "\n".join(lines)


def main() -> None:
    """Run every scenario of migration under every policy."""
    lines = []
    for policy in (*POLICIES, "bidirectional"):
        with tempfile.TemporaryDirectory() as directory:
            lines += _differences(Path(directory), policy, migration.SCENARIOS)
    sys.stdout.write("\n".join([*lines, f"{len(lines)} differences\n"]))


if __name__ == "__main__":
    main()
