"""Measures the cost of the driven clock: `python -m tests.perf.driven_time`.

It measures calls of the clock, which every request makes, and time jumps of a complete broker that
has committed offsets in one of fifty shards.
"""

from __future__ import annotations

import asyncio
import sys
import time
import timeit
from datetime import timedelta

from confluent_kafka import Consumer, TopicPartition

from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.logging import Log
from kafkalite.server.loop import new_event_loop
from kafkalite.testing import Broker

_CALLS = 200_000
_ROUNDS = 5
_JUMPS = (timedelta(days=1), timedelta(days=7), timedelta(days=365), timedelta(days=3650))


def nothing() -> None:
    """Do nothing."""


async def measure_clock() -> dict[str, float]:
    """Return nanoseconds per call of a clock that follows the system time."""
    clock = AdjustableClock()
    calls = {
        "now_ms": clock.now_ms,
        "call_at and cancel": lambda: clock.call_at(clock.now_ms() + 500, nothing).cancel(),
    }
    return {
        name: min(timeit.repeat(call, number=_CALLS, repeat=_ROUNDS)) / _CALLS * 1e9
        for name, call in calls.items()
    }


def measure_jumps() -> dict[str, float]:
    """Return milliseconds per time jump of a broker whose offsets never expire."""
    config = {"offsets.retention.minutes": 2**31 - 1}
    durations_ms = {}
    with Broker(topics={"orders": 6}, config=config) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        for jump in _JUMPS:
            started = time.perf_counter()
            broker.clock.advance(jump)
            durations_ms[f"{jump.days} days"] = (time.perf_counter() - started) * 1e3
    return durations_ms


def main() -> None:
    """Print the results."""
    with asyncio.Runner(loop_factory=lambda: new_event_loop(Log())) as runner:
        for name, nanoseconds in runner.run(measure_clock()).items():
            sys.stdout.write(f"{name:20} {nanoseconds:8.0f} ns\n")
    for name, milliseconds in measure_jumps().items():
        sys.stdout.write(f"{name:20} {milliseconds:8.1f} ms\n")


if __name__ == "__main__":
    main()
