"""The state of kafkalite after a restart equals that of a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import Entry, ScenarioCluster
from tests.conformance.scenarios.restart import inspect, prepare
from tests.oracle.target import restart

if TYPE_CHECKING:
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


def _play(target: Target) -> list[Entry]:
    # Kafka elects leaders at every restart; with one log for all replicas there is no election.
    cluster = ScenarioCluster(target.port, "restarted", ignored=frozenset({"leader_epoch"}))
    try:
        before = prepare(cluster)
        cluster.close()
        restart(target)
        inspect(cluster, before)
    finally:
        cluster.close()
    return cluster.transcript


def test_the_state_after_a_restart_equals_kafkas(restartable: tuple[Target, Target]) -> None:
    lines = differences(*map(_play, restartable))
    assert not lines, "\n".join(lines)
