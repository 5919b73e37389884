"""Unit tests of the writer process, run in this process."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.recording.capture_writer import (
    CaptureOptions,
    CaptureWriter,
    OpenedConnection,
)
from kafkalite.capture.recording.ring_buffer import RingBuffer, Room, new_memory
from kafkalite.capture.recording.writer_process import (
    READY,
    RecordKind,
    RingWriter,
    command,
    decode_opened_connection,
    encode_opened_connection,
    main,
)
from kafkalite.protocol._generated.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from tests.unit.capture.recorded import BROKER, CLIENT, frames_of
from tests.unit.frames import request_frame, response_frame

if TYPE_CHECKING:
    from pathlib import Path

ENDS = OpenedConnection(CLIENT, BROKER, 3, "OUTSIDE")
HELLO = request_frame(ApiVersionsRequest(), 0)
WELCOME = response_frame(ApiVersionsResponse(), 0)


def test_connection_ends_survive_a_round_trip() -> None:
    assert decode_opened_connection(encode_opened_connection(ENDS)) == ENDS


def put_all(ring: RingBuffer) -> None:
    assert ring.make_room(10_000) is not Room.NONE
    for kind, at_ns, data in (
        (RecordKind.OPENED, 1, encode_opened_connection(ENDS)),
        (RecordKind.RECEIVED, 2, HELLO),
        (RecordKind.SENT, 3, WELCOME),
        (RecordKind.CLOSED, 4, b""),
        (RecordKind.OPENED, 5, encode_opened_connection(ENDS)),
        (RecordKind.RECEIVED, 6, HELLO),
        (RecordKind.LOST, 7, b""),
        (RecordKind.RECEIVED, 8, HELLO),
        (RecordKind.ENDED, 9, b""),
    ):
        assert ring.put(kind, 1, at_ns, data)


def test_process_writes_until_the_pipe_is_closed(tmp_path: Path) -> None:
    memory = new_memory()
    ring = RingBuffer(memory)
    capture = CaptureWriter(str(tmp_path), CaptureOptions(), pytest.fail)
    capture.begin(1)
    waking, wake = os.pipe()
    put_all(ring)
    os.close(wake)
    RingWriter(RingBuffer(memory), capture, 1).run(waking)
    os.close(waking)
    os.close(memory)
    assert frames_of(tmp_path) == [HELLO[4:], WELCOME[4:], HELLO[4:]]
    ring.close()


def test_space_is_released_while_records_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = new_memory()
    ring, reader = RingBuffer(memory), RingBuffer(memory)
    os.close(memory)
    capture = CaptureWriter(str(tmp_path), CaptureOptions(), pytest.fail)
    capture.begin(1)
    frees: list[int] = []
    monkeypatch.setattr(RingBuffer, "free", lambda self: frees.append(self._tail))
    for number in range(100):
        assert ring.make_room(100_000) is not Room.NONE
        assert ring.put(RecordKind.RECEIVED, 1, number, bytes(100_000))
    assert RingWriter(reader, capture, 1).write_until(reader.head)
    steps = [after - before for before, after in pairwise([0, *frees])]
    assert max(steps) < 1_200_000
    assert sum(steps) == reader.head
    capture.close(1)


@pytest.mark.parametrize("is_writable", [True, False])
def test_first_line_is_ready_or_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_writable: bool
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    directory = tmp_path / "file"
    if not is_writable:
        directory.write_text("")
    memory = new_memory()
    waking, wake = os.pipe()
    status_reader, status_writer = os.pipe()
    os.close(wake)
    arguments = command(memory, waking, status_writer, str(directory), CaptureOptions(), 7)[4:]
    assert json.loads(arguments[0])["at_ns"] == 7
    main(arguments)
    line = os.read(status_reader, 1000).decode()
    assert (line == f"{READY}\n") is is_writable
    assert line.count("\n") == 1
    for fd in (memory, waking, status_reader):
        os.close(fd)
