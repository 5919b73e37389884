"""The transactions of kafkalite after a restart equal those of a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import Entry, ScenarioCluster
from tests.conformance.scenarios.transactional_restart import inspect, prepare
from tests.oracle.target import restart

if TYPE_CHECKING:
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


def _play(target: Target) -> list[Entry]:
    # Kafka elects leaders at every restart; with one log for all replicas there is no election.
    elected = frozenset({"leader_epoch", "coordinator_epoch"})
    cluster = ScenarioCluster(target.port, "transactions-restarted", ignored=elected)
    try:
        producers = prepare(cluster)
        cluster.close()
        restart(target)
        inspect(cluster, producers)
    finally:
        cluster.close()
    return cluster.transcript


def test_transactions_after_a_restart_equal_kafkas(restartable: tuple[Target, Target]) -> None:
    lines = differences(*map(_play, restartable))
    assert not lines, "\n".join(lines)
