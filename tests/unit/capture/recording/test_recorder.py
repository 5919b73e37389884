"""Tests of the recorder and its process: complete captures, crashes, slow disks."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.model import Endpoint, Frame, Opened
from kafkalite.capture.recording import recorder as recorder_module
from kafkalite.capture.recording.capture_writer import CaptureOptions
from kafkalite.capture.recording.file_rotation import CaptureError
from kafkalite.capture.recording.recorder import Recorder
from kafkalite.capture.recording.ring_buffer import MAX_RECORD_BYTES
from kafkalite.ports.clock import SteppedClock
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafkalite.protocol._generated.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol._generated.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.unit.capture.recorded import BROKER, CLIENT, events_of, frames_of
from tests.unit.frames import request_frame, response_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.capture.recording.recorder import Tap

HELLO = request_frame(ApiVersionsRequest(), 0)
LATER = request_frame(ApiVersionsRequest(), 0, correlation_id=2)
WELCOME = response_frame(ApiVersionsResponse(), 0)
PARTITION = ProduceRequest.PartitionProduceData(records=bytes(2 * MAX_RECORD_BYTES))
LARGE = request_frame(
    ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[PARTITION])]
    ),
    3,
)
clock = SteppedClock(1_795_328_756_909)


@pytest.fixture
def make_recorder(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    """Return a function that makes recorders; they are closed at the end."""
    recorders: list[Recorder] = []

    def make(**options: object) -> Recorder:
        requested = CaptureOptions(**options)  # type: ignore[arg-type]
        warnings: list[str] = []
        recorder = Recorder(str(tmp_path / "captures"), clock.now_ns, requested, warnings.append)
        recorders.append(recorder)
        recorder.warnings = warnings  # type: ignore[attr-defined]
        return recorder

    yield make
    for each in recorders:
        each.close()


def open_tap(recorder: Recorder, port: int = CLIENT.port) -> Tap:
    return recorder.open(
        client=Endpoint(CLIENT.host, port), broker=BROKER, node_id=1, listener="PLAINTEXT"
    )


def warnings_of(recorder: Recorder) -> list[str]:
    warnings: list[str] = recorder.warnings  # type: ignore[attr-defined]
    return warnings


def test_all_recorded_bytes_are_written_on_close(
    tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    recorder = make_recorder()
    tap = open_tap(recorder)
    for start in range(0, len(HELLO), 3):
        tap.received(memoryview(HELLO)[start : start + 3])
    tap.sent((WELCOME[:5], memoryview(WELCOME)[5:]))
    tap.received(bytearray(LARGE))
    tap.sent((response_frame(ProduceResponse(), 3),))
    tap.close()
    recorder.close()
    recorder.close()
    open_tap(recorder).received(HELLO)
    tap.close()
    events = events_of(tmp_path / "captures")
    assert events[0].at_ns == clock.now_ns()
    assert frames_of(tmp_path / "captures") == [
        each[4:] for each in (HELLO, WELCOME, LARGE, response_frame(ProduceResponse(), 3))
    ]
    assert warnings_of(recorder) == []


def test_options_are_passed_to_the_process(
    tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    secret = request_frame(SaslAuthenticateRequest(auth_bytes=b"hunter2"), 2)
    recorder = make_recorder(keep_secrets=True, file_bytes=100_000, file_s=1.5, max_field_bytes=3)
    open_tap(recorder).received(secret)
    recorder.close()
    assert frames_of(tmp_path / "captures") == [secret[4:]]


def test_unwritable_directory_raises_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"^cannot write captures to .*/file: file exists$"):
        Recorder(str(tmp_path / "file"), clock.now_ns)


def test_process_that_cannot_start_raises_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(CaptureError, match="cannot start the capture writer"):
        Recorder(str(tmp_path), clock.now_ns)


STOPPED = (
    "capture stopped for all open connections, and their last bytes may be missing: "
    "the capture writer process was killed by signal 9"
)
RESUMED = "capture resumed"


def kill_process(recorder: Recorder, lines: int) -> None:
    """Kill the writer process, and wait until there are `lines` warnings."""
    recorder._process.kill()
    while len(warnings_of(recorder)) < lines:
        os.sched_yield()


def test_process_that_dies_is_replaced(
    tmp_path: Path, make_recorder: Callable[..., Recorder]
) -> None:
    recorder = make_recorder()
    taps = [open_tap(recorder, 40_000 + number) for number in range(3)]
    for crash in range(3):
        kill_process(recorder, 2 * crash + 2)
        assert all(each.is_lost for each in taps)
        taps[0].received(LARGE[:100])  # not at a frame boundary
    for tap in taps[1:]:
        tap.begin()
        assert not tap.is_lost
        tap.received(HELLO)
    taps[0].close()
    open_tap(recorder, 40_009).received(HELLO)
    recorder.close()
    assert warnings_of(recorder) == [STOPPED, RESUMED] * 3
    *others, last = sorted((tmp_path / "captures").iterdir())
    assert len(others) == 3
    ports = {each.connection.client.port for each in events_of(last)}
    assert ports == {40_001, 40_002, 40_009}
    assert frames_of(last) == [HELLO[4:]] * 3


def test_recording_ends_if_the_process_cannot_be_replaced(
    tmp_path: Path, make_recorder: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = make_recorder()
    tap = open_tap(recorder)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    kill_process(recorder, 3)
    assert recorder._has_no_reader.wait(10)
    for _ in range(40):
        tap.received(LARGE)
        tap.begin()
        assert tap.is_lost
    tap.close()
    open_tap(recorder).close()
    recorder.close()
    assert warnings_of(recorder) == [
        STOPPED,
        "cannot start the capture writer process: No such file or directory",
        "capture ended",
    ]


def test_recording_ends_without_file_descriptors(
    make_recorder: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    recorder = make_recorder()
    monkeypatch.setattr(os, "pipe", refused)
    kill_process(recorder, 3)
    monkeypatch.undo()
    assert warnings_of(recorder)[1:] == [
        "cannot start the capture writer process: Too many open files",
        "capture ended",
    ]


def test_recording_ends_after_too_many_crashes(
    make_recorder: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_MAX_STARTS", 2)
    recorder = make_recorder()
    kill_process(recorder, 2)
    kill_process(recorder, 4)
    while len(warnings_of(recorder)) < 4:
        os.sched_yield()
    open_tap(recorder).received(LARGE)
    assert warnings_of(recorder) == [STOPPED, RESUMED, STOPPED, "capture ended"]


def test_crash_at_the_end_is_reported(make_recorder: Callable[..., Recorder]) -> None:
    recorder = make_recorder()
    recorder._process.send_signal(signal.SIGSTOP)
    open_tap(recorder).received(HELLO)
    recorder._is_closed = True
    kill_process(recorder, 2)
    assert warnings_of(recorder) == [STOPPED, "capture ended"]
    recorder._is_closed = False


def test_slow_disk_stops_recording_and_it_is_resumed(
    tmp_path: Path, make_recorder: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "MAX_WAIT_S", 0.005)
    recorder = make_recorder()
    tap = open_tap(recorder)
    tap.received(HELLO)
    recorder._process.send_signal(signal.SIGSTOP)
    for _ in range(20):
        tap.received(LARGE)
    assert len(warnings_of(recorder)) == 1
    assert "too slow" in warnings_of(recorder)[0]
    recorder._process.send_signal(signal.SIGCONT)
    while not recorder._ring.is_half_free():
        os.sched_yield()
    assert tap.is_lost
    later = open_tap(recorder, 40_001)
    tap.received(LATER)
    later.received(HELLO)
    tap.begin()
    tap.received(HELLO)
    recorder.close()
    events = events_of(tmp_path / "captures")
    frames = [each.body for each in events if isinstance(each, Frame)]
    assert frames[0] == frames[-1] == frames[-2] == HELLO[4:]
    assert LATER[4:] not in frames
    assert sum(isinstance(each, Opened) for each in events) == 3
    assert warnings_of(recorder)[1:] == [RESUMED]


KILLED = """
import os, signal, sys
from kafkalite.capture.model import Endpoint, Frame, Opened
from kafkalite.capture.recording.recorder import Recorder
recorder = Recorder(sys.argv[1], lambda: 1)
tap = recorder.open(client=Endpoint("127.0.0.1", 1), broker=Endpoint("127.0.0.1", 2), node_id=1,
                    listener="A")
for _ in range(1000):
    tap.received(bytes.fromhex(sys.argv[2]))
os.write(1, b"%d" % recorder._process.pid)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_killed_broker_loses_no_recorded_bytes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), HELLO.hex()], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    deadline = time.monotonic() + 10
    while is_running(int(done.stdout)):
        assert time.monotonic() < deadline
        os.sched_yield()
    assert frames_of(tmp_path) == [HELLO[4:]] * 1000


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:  # noqa: PTH123
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
