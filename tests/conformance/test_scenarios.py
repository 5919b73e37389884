"""Every scenario is played to a real Kafka and to kafkalite, and the answers are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenarios import (
    classic_groups,
    commits,
    configs,
    connection,
    consumer_groups,
    consumer_members,
    consumer_walks,
    fetching,
    group_admin,
    metadata,
    migration,
    offsets,
    producing,
    record_edges,
    share_fetching,
    share_groups,
    share_offsets,
    share_walks,
    streams_groups,
    streams_walks,
    topics,
)
from tests.conformance.world import Entry, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.oracle.target import Target

    Scenario: TypeAlias = Callable[[World], None]

pytestmark = pytest.mark.oracle

SCENARIOS = (
    *connection.SCENARIOS,
    *metadata.SCENARIOS,
    *topics.SCENARIOS,
    *configs.SCENARIOS,
    *producing.SCENARIOS,
    *fetching.SCENARIOS,
    *offsets.SCENARIOS,
    *record_edges.SCENARIOS,
    *classic_groups.SCENARIOS,
    *commits.SCENARIOS,
    *consumer_groups.SCENARIOS,
    *consumer_members.SCENARIOS,
    *consumer_walks.SCENARIOS,
    *group_admin.SCENARIOS,
    *share_fetching.SCENARIOS,
    *migration.SCENARIOS,
    *share_groups.SCENARIOS,
    *share_offsets.SCENARIOS,
    *share_walks.SCENARIOS,
    *streams_groups.SCENARIOS,
    *streams_walks.SCENARIOS,
)


def _play(scenario: Scenario, target: Target) -> list[Entry]:
    world = World(target.port, scenario.__name__.replace("_", "-"))
    try:
        scenario(world)
    finally:
        world.close()
    return world.transcript


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: Target, accused: Target
) -> None:
    real = _play(scenario, real_kafka)
    ours = _play(scenario, accused)
    found = differences(real, ours)
    assert not found, "\n".join(found)
