"""Random walks of two transactional producers, compared with a real Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenario_cluster import Entry, ScenarioCluster
from tests.conformance.scenarios.transactional_walks import walk
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

_SEEDS = range(100, 150)
_STEPS = 120


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Start both brokers with empty logs.

    A real Kafka elects a coordinator at each start, and markers have its epoch.
    """
    with required():
        real = RealKafka(tmp_path_factory.mktemp("walked-kafka"))
        real.start()
    try:
        emulator = broker_under_test(tmp_path_factory.mktemp("walked-emulator"))
        emulator.start()
        try:
            yield real, emulator
        finally:
            emulator.kill()
    finally:
        real.kill()


def _walk_transcript(target: Target, seed: int) -> list[Entry]:
    cluster = ScenarioCluster(target.port, "long-walk")
    try:
        walk(cluster, seed, _STEPS)
    finally:
        cluster.close()
    return cluster.transcript


@pytest.mark.timeout(900)
def test_long_random_walks_get_the_same_answers(brokers: tuple[Target, Target]) -> None:
    real, emulator = brokers
    lines = [
        f"seed {seed}: {line}"
        for seed in _SEEDS
        for line in differences(_walk_transcript(real, seed), _walk_transcript(emulator, seed))
    ]
    assert not lines, "\n".join(lines)
