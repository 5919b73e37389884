"""Measures how the first writes to many partitions delay another client, and the time of a stop.

One connection writes one record to each of many partitions. A second connection sends
DescribeCluster requests one after another; their round trips show how long the event loop was busy.
Then SIGTERM stops the broker.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.storage.batch import build_batch
from kafkalite.storage.record_format import NewRecord
from tests.conformance.raw import RawClient
from tests.oracle.target import free_port
from tests.perf.pipeline import frame

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TOPIC = "first-writes"
_PRODUCE_VERSION = 9
_TIMEOUT_MS = 60_000
_PAUSE_S = 0.002


def batched(frames: Sequence[bytes], size: int) -> Iterator[Sequence[bytes]]:
    """Yield the frames in batches of `size`."""
    for start in range(0, len(frames), size):
        yield frames[start : start + size]


class Delays(NamedTuple):
    """Round trips of one client, in milliseconds."""

    requests: int
    median: float
    p99: float
    worst: float


class Outcome(NamedTuple):
    """The result of one run."""

    writing_s: float
    delays: Delays
    stop_s: float
    status: int


def first_writes(partitions: int, per_request: int) -> Iterator[bytes]:
    """Yield Produce requests that write one record to each partition of TOPIC."""
    record = NewRecord(b"key", b"value", 0)
    for start in range(0, partitions, per_request):
        data = [
            ProduceRequest.PartitionProduceData(index=index, records=build_batch([record]))
            for index in range(start, min(start + per_request, partitions))
        ]
        topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=_TIMEOUT_MS, topic_data=[topic])
        yield frame(request, _PRODUCE_VERSION)


class Writer(threading.Thread):
    """Sends requests, with at most `in_flight` unanswered."""

    def __init__(self, port: int, frames: Sequence[bytes], in_flight: int) -> None:
        super().__init__(name="writer")
        self._frames = frames
        self._in_flight = in_flight
        self._socket = socket.create_connection(("127.0.0.1", port))
        self.seconds = 0.0

    def run(self) -> None:
        started = time.perf_counter()
        for frames in batched(self._frames, self._in_flight):
            self._socket.sendall(b"".join(frames))
            for _ in frames:
                (size,) = struct.unpack(">i", self._socket.recv(4, socket.MSG_WAITALL))
                self._socket.recv(size, socket.MSG_WAITALL)
        self.seconds = time.perf_counter() - started
        self._socket.close()


def observe(port: int, writer: threading.Thread) -> Delays:
    """Start `writer`; return the delays of another client until it has finished."""
    client = RawClient(port, timeout_s=120)
    request = DescribeClusterRequest()
    client.call(request, 0)
    writer.start()
    round_trips: list[float] = []
    while writer.is_alive():
        started = time.perf_counter()
        client.call(request, 0)
        round_trips.append((time.perf_counter() - started) * 1000)
        time.sleep(_PAUSE_S)
    client.close()
    round_trips.sort()
    return Delays(
        len(round_trips),
        round_trips[len(round_trips) // 2],
        round_trips[len(round_trips) * 99 // 100],
        round_trips[-1],
    )


def serve(partitions: int, options: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start a broker with TOPIC; return its process and port."""
    port = free_port()
    command = [sys.executable, "-m", "kafkalite", "serve", "--listen", f"127.0.0.1:{port}"]
    command += ["--topic", f"{TOPIC}:{partitions}", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"ready" in process.stdout.readline()
    return process, port


def measure(
    partitions: int, *, per_request: int = 1, in_flight: int = 5, options: Sequence[str] = ()
) -> Outcome:
    """Write once to every partition of a new broker, then stop it."""
    process, port = serve(partitions, options)
    try:
        writer = Writer(port, list(first_writes(partitions, per_request)), in_flight)
        delays = observe(port, writer)
        started = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        stop_s = time.perf_counter() - started
    finally:
        process.kill()
        process.wait()
    return Outcome(writer.seconds, delays, stop_s, process.returncode)


def main() -> None:
    """Measure once, and print the outcome as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--per-request", type=int, default=1, help="partitions per Produce request")
    parser.add_argument("--in-flight", type=int, default=5, help="unanswered requests")
    parser.add_argument("--temporary", action="store_true", help="use no --data-dir")
    parser.add_argument("options", nargs="*", help="further options of `kafkalite serve`")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as directory:
        options = (
            arguments.options
            if arguments.temporary
            else ["--data-dir", directory, *arguments.options]
        )
        outcome = measure(
            arguments.partitions,
            per_request=arguments.per_request,
            in_flight=arguments.in_flight,
            options=options,
        )
    outcome_json = outcome._asdict() | {"delays": outcome.delays._asdict()}
    sys.stdout.write(f"{json.dumps(outcome_json, indent=2)}\n")


if __name__ == "__main__":
    main()
