"""Measures how long each step of expiring very many groups blocks other requests."""

from __future__ import annotations

import gc
import tempfile
import time
from typing import NamedTuple

from tests.perf.groups_records import NOW_MS, TOPIC_ID, append, batch_of, simple_group
from tests.perf.socketless_broker import SocketlessBroker

_MINUTE_MS = 60_000
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.retention.minutes": "30",
    "offsets.retention.check.interval.ms": str(20 * _MINUTE_MS),
}


class SweepCost(NamedTuple):
    """The cost of one pass over all groups."""

    steps: int
    longest_seconds: float
    cpu_seconds: float


def measure(groups: int) -> tuple[SweepCost, SweepCost]:
    """Return a pass that finds nothing to expire, and one that expires everything."""
    with tempfile.TemporaryDirectory() as directory:
        broker = SocketlessBroker(directory, _SETTINGS)
        topic = broker.cluster.partitions.topic("__consumer_offsets")
        assert topic is not None
        log = topic.partitions[0].log
        for number in range(groups):
            decisions = simple_group(f"group-{number}", TOPIC_ID)
            append(log, (batch_of(decision, NOW_MS) for decision in decisions))
        broker.reload_groups()
        gc.collect()
        gc.freeze()
        try:
            nothing = _sweep(broker, 25 * _MINUTE_MS)
            assert len(broker.group_shard().machine.directory.groups) == groups
            everything = _sweep(broker, 25 * _MINUTE_MS)
            assert not broker.group_shard().machine.directory.groups
        finally:
            gc.unfreeze()
            broker.close()
    return nothing, everything


def _sweep(broker: SocketlessBroker, ms: int) -> SweepCost:
    """Advance the clock from deadline to deadline."""
    clock = broker.clock
    until_ms = clock.now_ms() + ms
    steps, longest, total = 0, 0.0, 0.0
    while (deadline_ms := clock.next_deadline_ms) is not None and deadline_ms <= until_ms:
        started = time.process_time()
        clock.advance(max(0, deadline_ms - clock.now_ms()))
        elapsed_s = time.process_time() - started
        steps, longest, total = steps + 1, max(longest, elapsed_s), total + elapsed_s
    clock.advance(until_ms - clock.now_ms())
    return SweepCost(steps, longest, total)
