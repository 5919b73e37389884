"""The recorder and its process: all arrives, whatever dies, and nothing ever reaches a client."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture import recorder as recorder_module
from kafkalite.capture.model import Endpoint, Frame, Opened
from kafkalite.capture.recorder import Recorder
from kafkalite.capture.ring import MAX_RECORD_BYTES
from kafkalite.capture.rotation import CaptureError
from kafkalite.capture.scribe import CaptureOptions
from kafkalite.ports.clock import StandingClock
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalite.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalite.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.unit.capture.recorded import BROKER, CLIENT, events_of, frames_of
from tests.unit.frames import request_frame, response_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from kafkalite.capture.recorder import Tap

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
clock = StandingClock(1_795_328_756_909)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    """Give a maker of recorders, which are closed at the end."""
    recorders: list[Recorder] = []

    def make(**options: object) -> Recorder:
        wanted = CaptureOptions(**options)  # type: ignore[arg-type]
        told: list[str] = []
        made = Recorder(str(tmp_path / "captures"), clock.now_ns, wanted, told.append)
        recorders.append(made)
        made.told = told  # type: ignore[attr-defined]
        return made

    yield make
    for each in recorders:
        each.close()


def opened(recorder: Recorder, port: int = CLIENT.port) -> Tap:
    return recorder.open(
        client=Endpoint(CLIENT.host, port), broker=BROKER, node_id=1, listener="PLAINTEXT"
    )


def told_by(recorder: Recorder) -> list[str]:
    said: list[str] = recorder.told  # type: ignore[attr-defined]
    return said


def test_what_was_handed_over_is_written_when_it_is_closed(
    tmp_path: Path, made: Callable[..., Recorder]
) -> None:
    recorder = made()
    tap = opened(recorder)
    for start in range(0, len(HELLO), 3):
        tap.received(memoryview(HELLO)[start : start + 3])
    tap.sent((WELCOME[:5], memoryview(WELCOME)[5:]))
    tap.received(bytearray(LARGE))
    tap.sent((response_frame(ProduceResponse(), 3),))
    tap.close()
    recorder.close()
    recorder.close()
    opened(recorder).received(HELLO)
    tap.close()
    events = events_of(tmp_path / "captures")
    assert events[0].at_ns == clock.now_ns()
    assert frames_of(tmp_path / "captures") == [
        each[4:] for each in (HELLO, WELCOME, LARGE, response_frame(ProduceResponse(), 3))
    ]
    assert told_by(recorder) == []


def test_options_reach_the_process(tmp_path: Path, made: Callable[..., Recorder]) -> None:
    secret = request_frame(SaslAuthenticateRequest(auth_bytes=b"hunter2"), 2)
    recorder = made(keep_secrets=True, file_bytes=100_000, file_s=1.5, snap_records=3)
    opened(recorder).received(secret)
    recorder.close()
    assert frames_of(tmp_path / "captures") == [secret[4:]]


def test_a_directory_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CaptureError, match=r"^cannot write captures to .*/file: file exists$"):
        Recorder(str(tmp_path / "file"), clock.now_ns)


def test_a_process_that_cannot_be_started_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(CaptureError, match="cannot start the process"):
        Recorder(str(tmp_path), clock.now_ns)


STOPPED = (
    "capture stopped for all connections there are, and may miss the last of them: "
    "the process that writes it was ended by signal 9"
)
GOES_ON = "capture goes on"


def killed(recorder: Recorder, lines: int) -> None:
    """Kill the process that writes, and wait until so many lines were told of that."""
    recorder._process.kill()
    while len(told_by(recorder)) < lines:
        os.sched_yield()


def test_when_its_process_dies_another_takes_its_place(
    tmp_path: Path, made: Callable[..., Recorder]
) -> None:
    recorder = made()
    taps = [opened(recorder, 40_000 + number) for number in range(3)]
    for life in range(3):
        killed(recorder, 2 * life + 2)
        assert all(each.is_lost for each in taps)
        taps[0].received(LARGE[:100])  # of which nobody knows where a frame begins
    for tap in taps[1:]:
        tap.begin()
        assert not tap.is_lost
        tap.received(HELLO)
    taps[0].close()
    opened(recorder, 40_009).received(HELLO)
    recorder.close()
    assert told_by(recorder) == [STOPPED, GOES_ON] * 3
    *others, last = sorted((tmp_path / "captures").iterdir())
    assert len(others) == 3
    ports = {each.connection.client.port for each in events_of(last)}
    assert ports == {40_001, 40_002, 40_009}
    assert frames_of(last) == [HELLO[4:]] * 3


def test_where_none_can_take_its_place_it_says_so_and_harms_nobody(
    tmp_path: Path, made: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = made()
    tap = opened(recorder)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    killed(recorder, 3)
    assert recorder._is_gone.wait(10)
    for _ in range(40):
        tap.received(LARGE)
        tap.begin()
        assert tap.is_lost
    tap.close()
    opened(recorder).close()
    recorder.close()
    assert told_by(recorder) == [
        STOPPED,
        "cannot start the process that writes captures: No such file or directory",
        "capture ended",
    ]


def test_nor_where_no_more_files_may_be_open(
    made: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    recorder = made()
    monkeypatch.setattr(os, "pipe", refused)
    killed(recorder, 3)
    monkeypatch.undo()
    assert told_by(recorder)[1:] == [
        "cannot start the process that writes captures: Too many open files",
        "capture ended",
    ]


def test_what_kills_every_process_ends_the_recording(
    made: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "_LIVES", 2)
    recorder = made()
    killed(recorder, 2)
    killed(recorder, 4)
    while len(told_by(recorder)) < 4:
        os.sched_yield()
    opened(recorder).received(LARGE)
    assert told_by(recorder) == [STOPPED, GOES_ON, STOPPED, "capture ended"]


def test_a_process_that_dies_at_the_end_is_told_of_too(made: Callable[..., Recorder]) -> None:
    recorder = made()
    recorder._process.send_signal(signal.SIGSTOP)
    opened(recorder).received(HELLO)
    recorder._is_closed = True
    killed(recorder, 2)
    assert told_by(recorder) == [STOPPED, "capture ended"]
    recorder._is_closed = False


def test_a_disk_that_is_too_slow_costs_connections_a_part_of_their_recording(
    tmp_path: Path, made: Callable[..., Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "PATIENCE_S", 0.005)
    recorder = made()
    tap = opened(recorder)
    tap.received(HELLO)
    recorder._process.send_signal(signal.SIGSTOP)
    for _ in range(20):
        tap.received(LARGE)
    assert len(told_by(recorder)) == 1
    assert "too slow" in told_by(recorder)[0]
    recorder._process.send_signal(signal.SIGCONT)
    while not recorder._ring.has_half():
        os.sched_yield()
    assert tap.is_lost
    later = opened(recorder, 40_001)
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
    assert told_by(recorder)[1:] == [GOES_ON]


KILLED = """
import os, signal, sys
from kafkalite.capture.model import Endpoint, Frame, Opened
from kafkalite.capture.recorder import Recorder
recorder = Recorder(sys.argv[1], lambda: 1)
tap = recorder.open(client=Endpoint("127.0.0.1", 1), broker=Endpoint("127.0.0.1", 2), node_id=1,
                    listener="A")
for _ in range(1000):
    tap.received(bytes.fromhex(sys.argv[2]))
os.write(1, b"%d" % recorder._process.pid)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_broker_that_is_killed_loses_nothing_that_it_handed_over(tmp_path: Path) -> None:
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
