"""Measures the replay of a capture: `python -m tests.perf.replay_speed [--check]`.

It measures a replay at maximum speed, with and without pipelining, compared with a minimal client
that sends the same bytes to the same broker and compares nothing. With a driven clock, it measures
the seconds for one day of a group member that sends a heartbeat every three seconds.
"""

from __future__ import annotations

import argparse
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkalite.capture.model import Endpoint
from kafkalite.capture.recording.recorder import Recorder
from kafkalite.lab.replay.options import ReplayOptions
from kafkalite.lab.replay.player.run import replay
from kafkalite.protocol._generated.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkalite.testing import Broker
from tests.oracle.target import free_port
from tests.unit.frames import request_content, response_content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.recording.recorder import Tap
    from kafkalite.lab.replay.report import ReplayReport

HEARTBEATS = 20_000
DEPTH = 32
"""Requests in flight of a pipelining client."""
HOURS = 6
HEARTBEAT_INTERVAL_S = 3

MIN_SHARE_OF_MINIMAL_CLIENT = 0.1
"""The minimum rate of a replay, relative to a minimal client."""
MAX_DAY_S = 120.0

_S_NS = 1_000_000_000
_START_NS = 1_772_323_200 * _S_NS  # 2026-03-01
_LENGTH = struct.Struct(">i")
_MEMBER = "member-00000000-0000-0000-0000-000000000000"
_READY = re.compile(rb"127\.0\.0\.1:(\d+)")


@dataclass(slots=True)
class SyntheticCapture:
    """A synthetic capture: frames at given times, written by the recorder of the broker."""

    tap: Tap
    now_ns: list[int]
    correlation: int = 0

    def call(self, pairs: list[tuple[Any, Any, int]]) -> None:
        """Write pipelined requests, then their responses."""
        first_id = self.correlation + 1
        for number, (request, _, version) in enumerate(pairs):
            self._write(
                request_content(request, version, correlation_id=first_id + number), is_request=True
            )
        for number, (_, response, version) in enumerate(pairs):
            self._write(
                response_content(response, version, correlation_id=first_id + number),
                is_request=False,
            )
        self.correlation += len(pairs)

    def _write(self, frame: bytes, *, is_request: bool) -> None:
        self.now_ns[0] += 1_000
        framed = _LENGTH.pack(len(frame)) + frame
        if is_request:
            self.tap.received(framed)
        else:
            self.tap.sent([framed])


def write_heartbeats(directory: Path, count: int, *, depth: int, interval_s: int) -> None:
    """Write a capture of a member that joins a group and sends heartbeats."""
    now_ns = [_START_NS]
    recorder = Recorder(str(directory), lambda: now_ns[0])
    endpoints = Endpoint("127.0.0.1", 50_000), Endpoint("127.0.0.1", 9092)
    tap = recorder.open(client=endpoints[0], broker=endpoints[1], node_id=1, listener="PLAINTEXT")
    synthetic = SyntheticCapture(tap, now_ns)
    synthetic.call(
        [
            (
                FindCoordinatorRequest(key="g"),
                FindCoordinatorResponse(
                    error_message="NONE", node_id=1, host="127.0.0.1", port=9092
                ),
                2,
            )
        ]
    )
    for member_id, error in (("", 79), (_MEMBER, 0)):
        synthetic.call([(join_request(member_id), join_response(error), 5)])
    member: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": _MEMBER}
    synthetic.call([(SyncGroupRequest(**member), SyncGroupResponse(), 3)])
    heartbeat = HeartbeatRequest(**member), HeartbeatResponse(), 3
    for _ in range(count // depth):
        now_ns[0] += interval_s * _S_NS
        synthetic.call([heartbeat] * depth)
    tap.close()
    recorder.close()


def join_request(member_id: str) -> JoinGroupRequest:
    """Return a JoinGroup request."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )


def join_response(error: int) -> JoinGroupResponse:
    """Return the JoinGroup response: first the member ID, then the leader."""
    if error:
        return JoinGroupResponse(error_code=error, protocol_name="", member_id=_MEMBER)
    member = JoinGroupResponse.JoinGroupResponseMember(member_id=_MEMBER, metadata=b"")
    return JoinGroupResponse(
        generation_id=1,
        protocol_name="range",
        leader=_MEMBER,
        member_id=_MEMBER,
        members=[member],
    )


@contextmanager
def running_broker(*options: str) -> Iterator[tuple[str, str]]:
    """Run a broker in a separate process; yields its address and its control address."""
    command = [sys.executable, "-m", "kafkalite", "serve", "--listen", "127.0.0.1:0"]
    control = free_port()
    command += ["--control", f"127.0.0.1:{control}", "--log-level", "error", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            match = _READY.search(process.stdout.readline())
            assert match is not None
            yield match[0].decode(), f"http://127.0.0.1:{control}"
        finally:
            process.terminate()


def minimal_client_rate(bootstrap: str, depth: int) -> float:
    """Return requests per second of a client that only counts received bytes."""
    host, _, port = bootstrap.rpartition(":")
    frame = request_content(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    requests = (_LENGTH.pack(len(frame)) + frame) * depth
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        started = time.perf_counter()
        for _ in range(HEARTBEATS // depth):
            connection.sendall(requests)
            remaining = (4 + 4 + 4 + 2) * depth  # length, correlation id, throttle time, error
            while remaining:
                remaining -= len(connection.recv(remaining))
        return HEARTBEATS / (time.perf_counter() - started)


def check_no_findings(report: ReplayReport) -> ReplayReport:
    """Return the report, after checking that the replay has no differences."""
    assert report.findings == [], report.findings
    return report


def measure(directory: Path) -> list[str]:
    """Measure and print; returns the missed targets."""
    failures = []
    for depth in (1, DEPTH):
        capture = directory / f"depth-{depth}"
        write_heartbeats(capture, HEARTBEATS, depth=depth, interval_s=0)
        with running_broker() as (bootstrap, _):
            minimal_rate = minimal_client_rate(bootstrap, depth)
            report = check_no_findings(replay(capture, to=bootstrap))
        rate = report.requests / report.seconds
        sys.stdout.write(
            f"at maximum speed, {depth:2} in flight: {rate:8.0f} requests/s, "
            f"minimal client {minimal_rate:8.0f}/s ({rate / minimal_rate:.2f})\n"
        )
        if rate < MIN_SHARE_OF_MINIMAL_CLIENT * minimal_rate:
            failures.append(
                f"{rate / minimal_rate:.2f} of the rate of a minimal client, {depth} in flight"
            )
    failures += measure_days(directory / "day")
    return failures


def measure_days(capture: Path) -> list[str]:
    """Measure a day with a driven clock, controlled over HTTP and in this process."""
    heartbeat_count = HOURS * 3600 // HEARTBEAT_INTERVAL_S
    write_heartbeats(capture, heartbeat_count, depth=1, interval_s=HEARTBEAT_INTERVAL_S)
    failures = []
    start_clock = "manual@2026-02-28T00:00:00Z"
    with running_broker("--clock", start_clock) as (bootstrap, control):
        reports = {
            "over HTTP": check_no_findings(
                replay(capture, to=bootstrap, options=ReplayOptions(control=control))
            )
        }
    with Broker(clock=start_clock) as broker:
        in_process = replay(
            capture, to=broker.bootstrap_servers, options=ReplayOptions(clock=broker.clock)
        )
        reports["in one process"] = check_no_findings(in_process)
    for control_kind, report in reports.items():
        day_s = report.seconds * 24 / HOURS
        sys.stdout.write(
            f"with the clock driven {control_kind}: {report.recorded_seconds / 3600:.1f} h in "
            f"{report.seconds:.1f} s, so a day of "
            f"{24 * 3600 // HEARTBEAT_INTERVAL_S} heartbeats in {day_s:.1f} s\n"
        )
        if day_s > MAX_DAY_S:
            failures.append(f"a day takes {day_s:.0f} s {control_kind}")
    return failures


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        failures = measure(Path(directory))
    if options.check:
        sys.stderr.writelines(f"target missed: {failure}\n" for failure in failures)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
