"""The process that writes, looked at from within: what the ring says becomes a capture."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kafkalite.capture.ring import Ring, Room, new_memory
from kafkalite.capture.scribe import CaptureOptions, Ends, Scribe
from kafkalite.capture.scribing import (
    READY,
    Kind,
    Scribing,
    command,
    decode_ends,
    encode_ends,
    main,
)
from kafkalite.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.unit.capture.recorded import BROKER, CLIENT, frames_of
from tests.unit.frames import request_frame, response_frame

if TYPE_CHECKING:
    from pathlib import Path

ENDS = Ends(CLIENT, BROKER, 3, "OUTSIDE")
HELLO = request_frame(ApiVersionsRequest(), 0)
WELCOME = response_frame(ApiVersionsResponse(), 0)


def test_who_is_connected_survives_the_ring() -> None:
    assert decode_ends(encode_ends(ENDS)) == ENDS


def put_all(ring: Ring) -> None:
    assert ring.make_room(10_000) is not Room.NONE
    for kind, at_ns, data in (
        (Kind.OPENED, 1, encode_ends(ENDS)),
        (Kind.RECEIVED, 2, HELLO),
        (Kind.SENT, 3, WELCOME),
        (Kind.CLOSED, 4, b""),
        (Kind.OPENED, 5, encode_ends(ENDS)),
        (Kind.RECEIVED, 6, HELLO),
        (Kind.LOST, 7, b""),
        (Kind.RECEIVED, 8, HELLO),
        (Kind.ENDED, 9, b""),
    ):
        assert ring.put(kind, 1, at_ns, data)


def test_it_writes_until_the_pipe_ends(tmp_path: Path) -> None:
    memory = new_memory()
    ring = Ring(memory)
    scribe = Scribe(str(tmp_path), CaptureOptions(), pytest.fail)
    scribe.begin(1)
    waking, wake = os.pipe()
    put_all(ring)
    os.close(wake)
    Scribing(Ring(memory), scribe, 1).run(waking)
    os.close(waking)
    os.close(memory)
    assert frames_of(tmp_path) == [HELLO[4:], WELCOME[4:], HELLO[4:]]
    ring.close()


def test_it_gives_room_back_before_all_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = new_memory()
    ring, taker = Ring(memory), Ring(memory)
    os.close(memory)
    scribe = Scribe(str(tmp_path), CaptureOptions(), pytest.fail)
    scribe.begin(1)
    frees: list[int] = []
    monkeypatch.setattr(Ring, "free", lambda self: frees.append(self._tail))
    for number in range(100):
        assert ring.make_room(100_000) is not Room.NONE
        assert ring.put(Kind.RECEIVED, 1, number, bytes(100_000))
    assert Scribing(taker, scribe, 1).take(taker.head)
    steps = [after - before for before, after in pairwise([0, *frees])]
    assert max(steps) < 1_200_000
    assert sum(steps) == taker.head
    scribe.close(1)


@pytest.mark.parametrize("is_writable", [True, False])
def test_its_first_word_says_whether_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_writable: bool
) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    directory = tmp_path / "file"
    if not is_writable:
        directory.write_text("")
    memory = new_memory()
    waking, wake = os.pipe()
    heard, telling = os.pipe()
    os.close(wake)
    arguments = command(memory, waking, telling, str(directory), CaptureOptions(), 7)[4:]
    assert json.loads(arguments[0])["at_ns"] == 7
    main(arguments)
    said = os.read(heard, 1000).decode()
    assert (said == f"{READY}\n") is is_writable
    assert said.count("\n") == 1
    for fd in (memory, waking, heard):
        os.close(fd)
