"""Under each `group.consumer.migration.policy` groups mix and change as on a real Kafka.

The policy is a matter of the broker's start, so each but the default takes brokers of its own. They
play one scenario; `python -m tests.conformance.test_migration_policies` plays all of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenarios import migration
from tests.conformance.world import World
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

POLICIES = ("disabled", "upgrade", "downgrade")
"""Those besides `bidirectional`, which every scenario of migration meets in the common brokers."""


def _differences(
    directory: Path, policy: str, scenarios: Sequence[Callable[[World], None]]
) -> list[str]:
    config = {**COMMON_CONFIG, "group.consumer.migration.policy": policy}
    targets: list[Target] = []
    found: list[str] = []
    try:
        with required():
            targets += [
                RealKafka(directory / "kafka", config),
                broker_under_test(directory / "accused", config),
            ]
            for target in targets:
                target.start()
        for scenario in scenarios:
            transcripts = []
            for target in targets:
                world = World(target.port, scenario.__name__.replace("_", "-"))
                try:
                    scenario(world)
                finally:
                    world.close()
                transcripts.append(world.transcript)
            found += [f"{policy}: {scenario.__name__}{each}" for each in differences(*transcripts)]
    finally:
        for target in targets:
            target.kill()
    return found


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_means_what_it_means_to_kafka(policy: str, tmp_path: Path) -> None:
    found = _differences(tmp_path, policy, [migration.a_policy_decides_who_may_mix])
    assert not found, "\n".join(found)


def main() -> None:
    """Play every scenario of migration under every policy."""
    found = []
    for policy in (*POLICIES, "bidirectional"):
        with tempfile.TemporaryDirectory() as directory:
            found += _differences(Path(directory), policy, migration.SCENARIOS)
    sys.stdout.write("\n".join([*found, f"{len(found)} differences\n"]))


if __name__ == "__main__":
    main()
