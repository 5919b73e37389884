"""Every scenario runs on a real Kafka and on kafkalite, and the responses are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.recordings import renewed
from tests.conformance.scenario_runs import compared
from tests.conformance.scenarios import (
    classic_groups,
    client_quotas,
    commits,
    configs,
    connection,
    consumer_groups,
    consumer_members,
    consumer_walks,
    dead_letters,
    error_texts,
    fetching,
    group_admin,
    metadata,
    migration,
    offsets,
    producing,
    record_edges,
    replicas,
    share_fetching,
    share_groups,
    share_offsets,
    share_walks,
    static_streams_walks,
    streams_groups,
    streams_roles,
    streams_walks,
    topics,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

SCENARIOS = (
    *connection.SCENARIOS,
    *metadata.SCENARIOS,
    *topics.SCENARIOS,
    *replicas.SCENARIOS,
    *configs.SCENARIOS,
    *client_quotas.SCENARIOS,
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
    *dead_letters.SCENARIOS,
    *error_texts.SCENARIOS,
    *migration.SCENARIOS,
    *share_groups.SCENARIOS,
    *share_offsets.SCENARIOS,
    *share_walks.SCENARIOS,
    *streams_groups.SCENARIOS,
    *streams_walks.SCENARIOS,
    *static_streams_walks.SCENARIOS,
    *streams_roles.SCENARIOS,
)


@pytest.mark.parametrize("scenario", renewed(SCENARIOS), ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: Target, emulator: Target
) -> None:
    assert compared(scenario, real_kafka, emulator) == ""
