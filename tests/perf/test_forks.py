"""Restores and forks cost what differs, in processor time, memory and clusters of any size."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.server.snapshot import Snapshot

pytestmark = pytest.mark.endurance

# Twice to three times of what they take on an idle machine.
SMALL_MS, LARGE_MS, CLOSE_MS = 6.0, 30.0, 3.0
SHARED_BYTES = 100_000
TURNS = 20


def least_cpu_ms(action: Callable[[], object]) -> float:
    def measure() -> float:
        started = time.process_time()
        action()
        return (time.process_time() - started) * 1000

    return min(measure() for _ in range(TURNS))


def least_ms(broker: Broker, snapshot: Snapshot) -> tuple[float, float, float]:
    """Return the processor time of a restore, a fork and the end of a fork."""
    forks: list[Broker] = []
    fork_ms = least_cpu_ms(lambda: forks.append(broker.fork(snapshot)))
    close_ms = least_cpu_ms(lambda: forks.pop().stop())
    return least_cpu_ms(lambda: broker.restore(snapshot)), fork_ms, close_ms


def test_a_small_cluster_is_restored_and_forked_in_a_few_milliseconds() -> None:
    topics = {f"t{number}": 1 for number in range(10)}
    with Broker(storage="memory", topics=topics) as broker:
        for name in topics:
            for number in range(100):
                broker.produce(name, f"{number}")
        restore_ms, fork_ms, close_ms = least_ms(broker, broker.snapshot())
        assert max(restore_ms, fork_ms) < SMALL_MS
        assert close_ms < CLOSE_MS


def test_a_large_cluster_is_restored_and_forked_without_reading_its_data() -> None:
    topics = {f"t{number}": 1 for number in range(1000)}
    with Broker(storage="memory", topics=topics, memory_limit="120m") as broker:
        for name in topics:
            broker.produce(name, bytes(SHARED_BYTES))
        restore_ms, fork_ms, close_ms = least_ms(broker, broker.snapshot())
        assert max(restore_ms, fork_ms) < LARGE_MS
        assert close_ms < 2 * CLOSE_MS
        broker.produce("t0", bytes(SHARED_BYTES))
        assert len(broker.records("t999")) == 1
