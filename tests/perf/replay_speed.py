"""How fast a capture is replayed: `python -m tests.perf.replay_speed [--check]`.

At most speed, where a client waits for each answer and where it does not, beside a bare client that
sends the same bytes to the same broker and compares nothing; and by a clock that is driven, in
seconds for a day of a group's member that beats every three seconds.
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
from kafkalite.capture.recorder import Recorder
from kafkalite.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalite.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkalite.replay.calls import replay
from kafkalite.replay.options import ReplayOptions
from kafkalite.testing import Broker
from tests.unit.frames import request_content, response_content

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.capture.recorder import Tap
    from kafkalite.replay.report import ReplayReport

BEATS = 20_000
DEPTH = 32
"""Requests that a client that pipelines has under way."""
HOURS = 6
BEAT_S = 3

LEAST_OF_BARE = 0.1
"""How much of a bare client's rate a replay reaches at least: it reads, maps and compares."""
MOST_DAY_S = 120.0

_S_NS = 1_000_000_000
_BEGAN_NS = 1_772_323_200 * _S_NS  # 2026-03-01
_LENGTH = struct.Struct(">i")
_MEMBER = "member-00000000-0000-0000-0000-000000000000"
_READY = re.compile(rb"127\.0\.0\.1:(\d+)")


@dataclass(slots=True)
class Told:
    """A capture that is made up: frames written by the broker's own recorder, at given times."""

    tap: Tap
    now_ns: list[int]
    correlation: int = 0

    def call(self, pairs: list[tuple[Any, Any, int]]) -> None:
        """Write requests, all sent before the first is answered."""
        first = self.correlation + 1
        for number, (request, _, version) in enumerate(pairs):
            self._write(
                request_content(request, version, correlation_id=first + number), is_request=True
            )
        for number, (_, response, version) in enumerate(pairs):
            self._write(
                response_content(response, version, correlation_id=first + number), is_request=False
            )
        self.correlation += len(pairs)

    def _write(self, frame: bytes, *, is_request: bool) -> None:
        self.now_ns[0] += 1_000
        framed = _LENGTH.pack(len(frame)) + frame
        if is_request:
            self.tap.received(framed)
        else:
            self.tap.sent([framed])


def write_beats(directory: Path, count: int, *, depth: int, apart_s: int) -> None:
    """Write a capture of a member that joins a group and beats."""
    now_ns = [_BEGAN_NS]
    recorder = Recorder(str(directory), lambda: now_ns[0])
    ends = Endpoint("127.0.0.1", 50_000), Endpoint("127.0.0.1", 9092)
    tap = recorder.open(client=ends[0], broker=ends[1], node_id=1, listener="PLAINTEXT")
    told = Told(tap, now_ns)
    told.call(
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
        told.call([(joining(member_id), joined(error), 5)])
    member: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": _MEMBER}
    told.call([(SyncGroupRequest(**member), SyncGroupResponse(), 3)])
    beat = HeartbeatRequest(**member), HeartbeatResponse(), 3
    for _ in range(count // depth):
        now_ns[0] += apart_s * _S_NS
        told.call([beat] * depth)
    tap.close()
    recorder.close()


def joining(member_id: str) -> JoinGroupRequest:
    """Return a member's request to join."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )


def joined(error: int) -> JoinGroupResponse:
    """Return the answer to it: its id first, then that it leads."""
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
def served(*options: str) -> Iterator[tuple[str, str]]:
    """Serve kafkalite in a process of its own; where it listens, and where it is driven."""
    command = [sys.executable, "-m", "kafkalite", "serve", "--listen", "127.0.0.1:0"]
    control = free_port()
    command += ["--control", f"127.0.0.1:{control}", "--log-level", "error", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            found = _READY.search(process.stdout.readline())
            assert found is not None
            yield found[0].decode(), f"http://127.0.0.1:{control}"
        finally:
            process.terminate()


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def bare(bootstrap: str, depth: int) -> float:
    """Return requests a second of a client that sends beats and only counts what comes."""
    host, _, port = bootstrap.rpartition(":")
    frame = request_content(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    burst = (_LENGTH.pack(len(frame)) + frame) * depth
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter()
        for _ in range(BEATS // depth):
            connection.sendall(burst)
            left = (4 + 4 + 4 + 2) * depth  # length, correlation id, throttle time, error
            while left:
                left -= len(connection.recv(left))
        return BEATS / (time.perf_counter() - begun)


def clean(report: ReplayReport) -> ReplayReport:
    """Return the report of a replay in which nothing differed."""
    assert report.findings == [], report.findings
    return report


def measure(directory: Path) -> list[str]:
    """Print what is measured; return what is too slow."""
    failures = []
    for depth in (1, DEPTH):
        capture = directory / f"depth-{depth}"
        write_beats(capture, BEATS, depth=depth, apart_s=0)
        with served() as (bootstrap, _):
            floor = bare(bootstrap, depth)
            report = clean(replay(capture, to=bootstrap))
        rate = report.requests / report.seconds
        sys.stdout.write(
            f"at most speed, {depth:2} under way: {rate:8.0f} requests/s, "
            f"a bare client {floor:8.0f}/s ({rate / floor:.2f})\n"
        )
        if rate < LEAST_OF_BARE * floor:
            failures.append(f"{rate / floor:.2f} of a bare client's rate, {depth} under way")
    failures += measure_days(directory / "day")
    return failures


def measure_days(capture: Path) -> list[str]:
    """Print what a day takes by a driven clock, driven over HTTP and in this process."""
    beats = HOURS * 3600 // BEAT_S
    write_beats(capture, beats, depth=1, apart_s=BEAT_S)
    failures = []
    begins = "manual@2026-02-28T00:00:00Z"
    with served("--clock", begins) as (bootstrap, control):
        reports = {
            "over HTTP": clean(
                replay(capture, to=bootstrap, options=ReplayOptions(control=control))
            )
        }
    with Broker(clock=begins) as broker:
        within = replay(
            capture, to=broker.bootstrap_servers, options=ReplayOptions(clock=broker.clock)
        )
        reports["in one process"] = clean(within)
    for how, report in reports.items():
        day_s = report.seconds * 24 / HOURS
        sys.stdout.write(
            f"by a clock driven {how}: {report.recorded_seconds / 3600:.1f} h in "
            f"{report.seconds:.1f} s, so a member's day of {24 * 3600 // BEAT_S} beats in "
            f"{day_s:.1f} s\n"
        )
        if day_s > MOST_DAY_S:
            failures.append(f"a day takes {day_s:.0f} s {how}")
    return failures


def main() -> int:
    """Measure, print, and judge when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        failures = measure(Path(directory))
    if options.check:
        sys.stderr.writelines(f"too slow: {failure}\n" for failure in failures)
    return 1 if failures and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
