"""Two transactional producers walk at random, a long way, at a real Kafka and at kafkalite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.compare import differences
from tests.conformance.scenarios.transactional_walks import walk
from tests.conformance.world import Entry, World
from tests.oracle.fixtures import broker_under_test
from tests.oracle.real_kafka import RealKafka
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.oracle.target import Target

pytestmark = [pytest.mark.oracle, pytest.mark.endurance]

_SEEDS = range(100, 200)
_STEPS = 120


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Start both brokers anew.

    A real Kafka elects a coordinator for each start of its own, and markers tell which one it was.
    """
    with required():
        real = RealKafka(tmp_path_factory.mktemp("walked-kafka"))
        real.start()
    try:
        ours = broker_under_test(tmp_path_factory.mktemp("walked-accused"))
        ours.start()
        try:
            yield real, ours
        finally:
            ours.kill()
    finally:
        real.kill()


def _walked(target: Target, seed: int) -> list[Entry]:
    world = World(target.port, "long-walk")
    try:
        walk(world, seed, _STEPS)
    finally:
        world.close()
    return world.transcript


@pytest.mark.timeout(900)
def test_long_walks_end_where_kafka_is(brokers: tuple[Target, Target]) -> None:
    real, ours = brokers
    found = [
        f"seed {seed}: {line}"
        for seed in _SEEDS
        for line in differences(_walked(real, seed), _walked(ours, seed))
    ]
    assert not found, "\n".join(found)
