"""Transactions, played to a real Kafka and to kafkalite by clients of either protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.playing import play_together, transcript_of
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
    from tests.conformance.playing import Scenario
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


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: Target, accused: Target
) -> None:
    # Side by side: a real coordinator writes its markers in its own time.
    played = play_together((scenario,), {"real": real_kafka, "ours": accused})
    real, ours = (transcript_of(played[scenario.__name__, name]) for name in ("real", "ours"))
    found = differences(real, ours)
    assert not found, "\n".join(found)
