"""Transactions of clients of either protocol, on a real Kafka and on kafkalite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.recordings import renewed
from tests.conformance.scenario_runs import ConcurrentRuns
from tests.conformance.scenarios import (
    transactional_ids,
    transactional_offsets,
    transactional_reads,
    transactional_records,
    transactional_shares,
    transactional_walks,
    transactional_writes,
    transactions,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = pytest.mark.oracle

SCENARIOS = (
    *transactional_ids.SCENARIOS,
    *transactions.SCENARIOS,
    *transactional_writes.SCENARIOS,
    *transactional_reads.SCENARIOS,
    *transactional_offsets.SCENARIOS,
    *transactional_records.SCENARIOS,
    *transactional_shares.SCENARIOS,
    *transactional_walks.SCENARIOS,
)


@pytest.mark.parametrize("scenario", renewed(SCENARIOS), ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: Target, emulator: Target
) -> None:
    # Concurrently: a real coordinator writes its markers asynchronously.
    runs = ConcurrentRuns([scenario], real_kafka, emulator, is_recorded=True)
    lines = runs.differences(scenario.__name__)
    assert not lines, "\n".join(lines)
