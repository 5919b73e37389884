"""Measures the cost of the log of requests: `python -m tests.perf.observation_overhead [--check]`.

One gateway serves the same pipelined requests in short alternating turns, with the log and without
it. The result is the additional CPU time of a request, the median over the pairs of turns, so that
other load on the machine has little effect. Sockets are not part of it: with them, the overhead is
a smaller part of the time. `--check` fails if it is above the target.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import time
from typing import TYPE_CHECKING, Final

from kafkalite.control.command_table import running_cluster
from kafkalite.gateway.call import ConnectionContext
from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.server.broker import Broker
from kafkalite.server.request_log import RequestLog
from kafkalite.server.settings import Settings
from kafkalite.wire.frames import LENGTH_BYTES
from tests.perf.pipeline import frame
from tests.unit.control.group_members import CONFIG, TOPIC, Members

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_OVERHEAD: Final = 0.10
"""The permitted overhead of commits, as a fraction of the CPU time without a log."""

_COMMITS: Final = "commits"
_REQUESTS_PER_FLUSH: Final = 100
"""The requests that arrive together."""
_FLUSHES_PER_TURN: Final = 30


def commits(group: str, member: tuple[str, int]) -> list[bytes]:
    """Return commits of a member, one partition each."""
    found = []
    for offset in range(_REQUESTS_PER_FLUSH):
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=offset % 2, committed_offset=offset, committed_metadata=""
        )
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member[0],
            generation_id_or_member_epoch=member[1],
            topics=[topic],
        )
        found.append(frame(request, 9))
    return found


class Served:
    """A gateway, and the requests of one client, as they are in a receive buffer."""

    def __init__(self, broker: Broker, frames: Sequence[bytes]) -> None:
        self._gateway = broker.gateway
        node = running_cluster(broker).nodes[1]
        self._context = ConnectionContext(node=node, listener="PLAINTEXT", client_host="/127.0.0.1")
        self._buffer = bytearray(b"".join(frames))
        self._places = []
        position = 0
        for each in frames:
            self._places.append((position + LENGTH_BYTES, position + len(each)))
            position += len(each)

    def turn(self, flushes: int = _FLUSHES_PER_TURN) -> int:
        """Serve the requests several times; return the nanoseconds of CPU time."""
        gateway, context, buffer = self._gateway, self._context, self._buffer
        started = time.thread_time_ns()
        for _ in range(flushes):
            out: list[bytes | memoryview] = []
            for start, end in self._places:
                gateway.serve(context, buffer, start, end, out)
            gateway.flush(out)
            assert len(b"".join(out)) > len(self._places)
        return time.thread_time_ns() - started


async def frames_of_members(broker: Broker) -> dict[str, list[bytes]]:
    """Let members join, and return the requests that they repeat, by kind."""
    members = Members(broker)
    classic = await members.join_classic("classic")
    consumer = "m", await members.join_consumer("consumer", "m")
    beat = HeartbeatRequest(group_id="classic", member_id=classic[0], generation_id=classic[1])
    consumer_beat = ConsumerGroupHeartbeatRequest(
        group_id="consumer", member_id=consumer[0], member_epoch=consumer[1]
    )
    return {
        f"{_COMMITS}, classic member": commits("classic", classic),
        f"{_COMMITS}, consumer member": commits("consumer", consumer),
        "heartbeats, classic": [frame(beat, 4)] * _REQUESTS_PER_FLUSH,
        "heartbeats, consumer": [frame(consumer_beat, 1)] * _REQUESTS_PER_FLUSH,
    }


async def overheads(pairs: int) -> dict[str, float]:
    """Return the overhead of each kind of request."""
    broker = Broker(Settings(listen=("127.0.0.1:0",), topics={TOPIC: 2}, config=CONFIG))
    await broker.start()
    try:
        frames = await frames_of_members(broker)
        return {
            name: _overhead(broker, Served(broker, each), pairs) for name, each in frames.items()
        }
    finally:
        await broker.stop(grace_s=0)


def _overhead(broker: Broker, served: Served, pairs: int) -> float:
    log = RequestLog()
    for _ in range(5):  # the log is full then
        broker.subscribe(log.observe)
        served.turn()
        broker.unsubscribe(log.observe)
        served.turn()
    ratios = []
    for _ in range(pairs):
        plain = served.turn()
        broker.subscribe(log.observe)
        ratios.append(served.turn() / plain)
        broker.unsubscribe(log.observe)
    return statistics.median(ratios) - 1


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=41)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    missed = False
    for name, overhead in asyncio.run(overheads(options.pairs)).items():
        is_limited = name.startswith(_COMMITS)
        shown = f", permitted {MAX_OVERHEAD:.0%}" if is_limited else ""
        sys.stdout.write(f"{name}: {overhead:+.1%}{shown}\n")
        missed |= is_limited and overhead > MAX_OVERHEAD
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
