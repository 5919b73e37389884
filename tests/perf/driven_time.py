"""What time costs, driven or not; by hand: `python -m tests.perf.driven_time`.

The clock's own calls, which every request makes, and jumps of a whole broker that keeps the offsets
of a group in one of fifty shards.
"""

from __future__ import annotations

import asyncio
import sys
import time
import timeit
from datetime import timedelta

from confluent_kafka import Consumer, TopicPartition

from kafkalite.ports.clock import DrivenClock
from kafkalite.server.logging import Log
from kafkalite.server.loop import new_event_loop
from kafkalite.testing import Broker

_CALLS = 200_000
_ROUNDS = 5
_JUMPS = (timedelta(days=1), timedelta(days=7), timedelta(days=365), timedelta(days=3650))


def nothing() -> None:
    """Be called."""


async def of_the_clock() -> dict[str, float]:
    """Return nanoseconds of each call of a clock that goes by the machine's time."""
    clock = DrivenClock()
    calls = {
        "now_ms": clock.now_ms,
        "call_at and cancel": lambda: clock.call_at(clock.now_ms() + 500, nothing).cancel(),
    }
    return {
        name: min(timeit.repeat(call, number=_CALLS, repeat=_ROUNDS)) / _CALLS * 1e9
        for name, call in calls.items()
    }


def of_jumps() -> dict[str, float]:
    """Return milliseconds of each jump of a broker, offsets being kept for ever."""
    config = {"offsets.retention.minutes": 2**31 - 1}
    took = {}
    with Broker(topics={"orders": 6}, config=config) as broker:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        for jump in _JUMPS:
            begun = time.perf_counter()
            broker.clock.advance(jump)
            took[f"{jump.days} days"] = (time.perf_counter() - begun) * 1e3
    return took


def main() -> None:
    """Print all of it."""
    with asyncio.Runner(loop_factory=lambda: new_event_loop(Log())) as runner:
        for name, nanoseconds in runner.run(of_the_clock()).items():
            sys.stdout.write(f"{name:20} {nanoseconds:8.0f} ns\n")
    for name, milliseconds in of_jumps().items():
        sys.stdout.write(f"{name:20} {milliseconds:8.1f} ms\n")


if __name__ == "__main__":
    main()
