"""Compares single requests of kafkalite with the floor: an empty protocol that echoes them.

`python -m tests.perf.floors [--rounds N] [--check]` prints a Markdown table. Each client waits for
the answer before it sends the next request. The cost is the processor time in user space of the
server's process; the kernel's share is nearly equal in both. The echo is an `asyncio.Protocol` on
uvloop that sends back what it receives. Both take turns, and the least cost of all rounds counts.
`--check` fails if a ratio is above its target. pytest runs only a small version.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from tests.conformance.batches import batch
from tests.oracle.served_kafkalite import ServedKafkalite
from tests.oracle.target import free_port
from tests.perf.competitors import CONFIG, start
from tests.perf.groups_commits import PARTITIONS, TOPIC, create_topic
from tests.perf.heartbeats import join
from tests.perf.pipeline import frame, separate_processors
from tests.perf.report import machine
from tests.perf.side_by_side import MEMORY_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Mapping

REQUESTS_PER_ROUND = 5_000
_WARM_UP_COUNT = 300
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_MICROSECONDS = 1_000_000
_GROUP = "floors"

_ECHO = """
import asyncio, sys, uvloop

class Echo(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.transport.write(data)

async def main():
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", int(sys.argv[1]))
    print(flush=True)
    await server.serve_forever()

uvloop.run(main())
"""


class Target(NamedTuple):
    """A request, and the maximum ratio of its cost to that of the echo."""

    title: str
    ratio: float


TARGETS = {
    "heartbeat": Target("Heartbeat", 1.6),
    "produce": Target("Produce of one record, acks=all", 3.5),
    "commit": Target("OffsetCommit of ten partitions", 4.0),
}


def requests(port: int) -> dict[str, bytes]:
    """Return the encoded requests by name, of a member of a new group."""
    create_topic(port)
    member = join(port, _GROUP)
    heartbeat = HeartbeatRequest(
        group_id=_GROUP, generation_id=member.epoch, member_id=member.member_id
    )
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(bytes(100)))
    topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
    committed = OffsetCommitRequest.OffsetCommitRequestTopic(
        name=TOPIC,
        partitions=[
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=index, committed_offset=1, committed_metadata=""
            )
            for index in range(PARTITIONS)
        ],
    )
    commit = OffsetCommitRequest(
        group_id=_GROUP,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        topics=[committed],
    )
    return {
        "heartbeat": frame(heartbeat, 4),
        "produce": frame(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 9),
        "commit": frame(commit, 9),
    }


class Echo:
    """The process with the empty protocol."""

    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-c", _ECHO, str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def kill(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def microseconds(port: int, pid: int, request: bytes, count: int = REQUESTS_PER_ROUND) -> float:
    """Return the processor time in user space of one request, in microseconds."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with separate_processors(pid):
        _exchange(connection, request, _WARM_UP_COUNT)
        before_s = _user_seconds(pid)
        _exchange(connection, request, count)
        elapsed_s = _user_seconds(pid) - before_s
    connection.close()
    return elapsed_s / count * _MICROSECONDS


def _exchange(connection: socket.socket, request: bytes, count: int) -> None:
    for _ in range(count):
        connection.sendall(request)
        length = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
        connection.recv(length, socket.MSG_WAITALL)


def _user_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) / _TICKS_PER_SECOND


def ratios(rounds: int, count: int = REQUESTS_PER_ROUND) -> dict[str, tuple[float, float]]:
    """Return the least cost of each request in microseconds, and that of its echo."""
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in TARGETS}
    with tempfile.TemporaryDirectory(dir=MEMORY_DIRECTORY) as directory:
        broker, echo = ServedKafkalite(Path(directory), CONFIG), Echo()
        start(broker)
        try:
            encoded = requests(broker.port)
            for _ in range(rounds):
                for name, request in encoded.items():
                    cost = microseconds(broker.port, broker.pid, request, count)
                    floor = microseconds(echo.port, echo.pid, request, count)
                    costs[name].append((cost, floor))
        finally:
            broker.kill()
            echo.kill()
    return {
        name: (min(cost for cost, _ in pairs), min(floor for _, floor in pairs))
        for name, pairs in costs.items()
    }


def table(costs: Mapping[str, tuple[float, float]]) -> str:
    """Return the table in Markdown."""
    lines = [
        "| one request at a time, user space | kafkalite, µs | echo, µs | ratio | target |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {TARGETS[name].title} | {cost:.1f} | {floor:.1f} | {cost / floor:.1f} "
        f"| {TARGETS[name].ratio} |"
        for name, (cost, floor) in costs.items()
    ]
    return "\n".join([*lines, "", machine(), ""])


def missed_targets(costs: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return one line for each ratio that is above its target."""
    return [
        f"{TARGETS[name].title}: {cost / floor:.1f} times the echo, above {TARGETS[name].ratio}"
        for name, (cost, floor) in costs.items()
        if cost > floor * TARGETS[name].ratio
    ]


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    costs = ratios(options.rounds)
    sys.stdout.write(table(costs))
    failures = missed_targets(costs) if options.check else []
    sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
