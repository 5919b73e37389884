"""After a restart kafkalite knows of transactions what a real Kafka knows after one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenarios.transactional_restart import inspect, prepare
from tests.conformance.world import Entry, World
from tests.oracle.target import restart

if TYPE_CHECKING:
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]


def _play(target: Target) -> list[Entry]:
    # Kafka elects anew for every restart; with one log for all replicas there is no election.
    elected = frozenset({"leader_epoch", "coordinator_epoch"})
    world = World(target.port, "transactions-restarted", ignored=elected)
    try:
        producers = prepare(world)
        world.close()
        restart(target)
        inspect(world, producers)
    finally:
        world.close()
    return world.transcript


def test_transactions_are_where_they_were_after_a_restart(
    real_kafka: Target, accused: Target
) -> None:
    found = differences(_play(real_kafka), _play(accused))
    assert not found, "\n".join(found)
