"""Measures the cost of faults that select nothing: `python -m tests.perf.fault_overhead [--check]`.

One gateway serves the same pipelined requests in short alternating turns, with a fault and without
it. The result is the additional CPU time of the fastest turn, because other load on the machine
only makes turns slower. `--check` fails if it is above the target. Sockets are not part of it: with
them, the overhead is a smaller part of the time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Final

from kafkalite.gateway.fault_rules import rule_of
from kafkalite.server.broker import Broker
from kafkalite.server.logging import Level, Log
from kafkalite.server.settings import Settings
from tests.perf.observation_overhead import Served, frames_of_members
from tests.unit.control.group_members import CONFIG, TOPIC

if TYPE_CHECKING:
    from kafkalite.gateway.fault_rules import FaultFields

MAX_OVERHEAD: Final = 0.02
"""The permitted overhead of a fault that selects no request, as a fraction of the CPU time."""

_FLUSHES_PER_TURN: Final = 3
_FAULTS: Final[dict[str, FaultFields]] = {
    "no fault": {},
    "another API": {"api": "Produce"},
    "another group": {"group": "unknown"},
    "another client": {"client_id": "unknown"},
    "another topic": {"topic": "nothing"},
    "another partition": {"topic": TOPIC, "partition": 7},
    "another node and version": {"node": 2, "max_version": 0},
}


async def overheads(pairs: int) -> dict[str, float]:
    """Return the overhead of each fault for each kind of request."""
    settings = Settings(listen=("127.0.0.1:0",), topics={TOPIC: 2}, config=CONFIG, brokers=2)
    broker = Broker(settings, Log(Level.ERROR))
    await broker.start()
    try:
        frames = await frames_of_members(broker)
        return {
            f"{requests}, {name}": _overhead(broker, Served(broker, each), fields, pairs)
            for requests, each in frames.items()
            for name, fields in _FAULTS.items()
        }
    finally:
        await broker.stop(grace_s=0)


def _overhead(broker: Broker, served: Served, fields: FaultFields, pairs: int) -> float:
    plain, disturbed = [], []
    for _ in range(pairs):
        plain.append(served.turn(_FLUSHES_PER_TURN))
        if fields:
            broker.faults.add(rule_of({**fields, "error": "NOT_COORDINATOR", "force": True}))
        disturbed.append(served.turn(_FLUSHES_PER_TURN))
        broker.faults.clear()
    return min(disturbed) / min(plain) - 1


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    measured = asyncio.run(overheads(options.pairs))
    for name, overhead in measured.items():
        sys.stdout.write(f"{name}: {overhead:+.1%}, permitted {MAX_OVERHEAD:.0%}\n")
    return 1 if options.check and max(measured.values()) > MAX_OVERHEAD else 0


if __name__ == "__main__":
    sys.exit(main())
