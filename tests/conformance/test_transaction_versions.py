"""Clusters with earlier levels of `transaction.version`, with the old protocol only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_runs import play
from tests.conformance.scenarios import (
    transactional_ids,
    transactional_offsets,
    transactional_reads,
    transactional_records,
    transactional_writes,
    transactions,
)
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required
from tests.oracle.target import COMMON_CONFIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conformance.scenario_runs import Scenario
    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

_MODULES = (
    transactional_ids,
    transactions,
    transactional_writes,
    transactional_reads,
    transactional_offsets,
    transactional_records,
)
# These scenarios use Produce v12 as well. No client sends it to a cluster of level 0: a real Kafka
# cannot record it, and the transactional id remains pending.
_BEYOND_LEVEL_0 = frozenset(
    (
        transactional_writes.producers_of_batches_are_checked.__name__,
        transactional_writes.a_batch_is_repeated_after_its_transaction.__name__,
    )
)
_OLD = tuple(
    scenario
    for module in _MODULES
    for scenario in module.SCENARIOS
    if scenario.__name__.endswith("_in_the_old_protocol")
    and scenario.__name__.removesuffix("_in_the_old_protocol") not in _BEYOND_LEVEL_0
)
SCENARIOS = (
    transactional_ids.apis_of_transactions_are_announced,
    transactional_ids.producers_are_initialised_in_every_version,
    transactions.the_first_versions_of_transactions,
    transactions.ends_of_the_old_protocol_are_checked_by_state,
    transactional_writes.batches_without_a_producer_in_a_transaction,
    transactional_records.refused_requests_are_not_recorded,
    *_OLD,
)


@pytest.fixture(scope="module", params=("0", "1"))
def brokers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Target, Target]]:
    """Start a real Kafka that was formatted at a level, and the broker under test at the same."""
    features = {"transaction.version": request.param}
    with required():
        real = RealKafka(tmp_path_factory.mktemp("levelled-kafka"), features=features)
        real.start()
    try:
        directory = tmp_path_factory.mktemp("levelled-emulator")
        emulator = broker_under_test(directory, COMMON_CONFIG, features)
        emulator.start()
        yield real, emulator
        emulator.kill()
    finally:
        real.kill()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_kafkalite_answers_as_kafka_does(
    scenario: Scenario, brokers: tuple[Target, Target]
) -> None:
    real, emulator = brokers
    lines = differences(play(scenario, real), play(scenario, emulator))
    assert not lines, "\n".join(lines)
