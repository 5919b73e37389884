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
from tests.conformance.world import Entry, World

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
_LONG_WALKS = range(100, 200)
_STEPS_OF_A_LONG_WALK = 120


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, real_kafka: Target, accused: Target
) -> None:
    # Side by side: a real coordinator writes its markers in its own time.
    played = play_together((scenario,), {"real": real_kafka, "ours": accused})
    real, ours = (transcript_of(played[scenario.__name__, name]) for name in ("real", "ours"))
    found = differences(real, ours)
    assert not found, "\n".join(found)


def _walked(target: Target, seed: int) -> list[Entry]:
    world = World(target.port, "long-walk")
    try:
        transactional_walks.walk(world, seed, _STEPS_OF_A_LONG_WALK)
    finally:
        world.close()
    return world.transcript


@pytest.mark.endurance
@pytest.mark.timeout(900)
def test_long_walks_end_where_kafka_is(real_kafka: Target, accused: Target) -> None:
    found = [
        f"seed {seed}: {line}"
        for seed in _LONG_WALKS
        for line in differences(_walked(real_kafka, seed), _walked(accused, seed))
    ]
    assert not found, "\n".join(found)
