"""A walk notes positions, and no bytes lead it astray."""

from __future__ import annotations

import numpy as np

from kafkalite.capture.model import Direction
from kafkalite.columnar.plan import Counted, message_plan
from kafkalite.columnar.walk import unaligned, walk_messages

METADATA = 3


def metadata_request(*names: bytes) -> bytes:
    rows = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return len(names).to_bytes(4, "big") + rows


def test_rows_are_walked_in_waves_and_know_their_place() -> None:
    plan = message_plan(METADATA, 1, Direction.REQUEST)
    frames = [metadata_request(b"a", b"bb"), metadata_request(), metadata_request(b"ccc")]
    stops = np.cumsum([len(frame) for frame in frames])
    starts = np.concatenate([[0], stops[:-1]])

    walk = walk_messages(plan, np.frombuffer(b"".join(frames), np.uint8), starts, stops)

    assert walk.reasons == {}
    (topics,) = plan.body.steps
    (name,) = topics.body.steps  # type: ignore[union-attr]
    assert isinstance(name, Counted)
    assert walk.parents(1).tolist() == [0, 2, 0]
    assert walk.ranks(1).tolist() == [0, 0, 1]
    assert (walk.slot(name.slot + 1) - walk.slot(name.slot)).tolist() == [1, 3, 2]


def test_broken_messages_are_marked_and_the_others_go_on() -> None:
    plan = message_plan(METADATA, 1, Direction.REQUEST)
    frame = metadata_request(b"a", b"bb")
    data = np.frombuffer(frame * 3, np.uint8)
    size = len(frame)

    starts = np.array([0, size, 2 * size, 9])
    walk = walk_messages(plan, data, starts, np.array([size, 2 * size - 1, 3 * size, 8]))

    assert walk.reasons == {
        1: "a length that runs past the end of the frame",
        3: "the frame ends inside a field",
    }
    assert walk.slot(0)[[0, 2]].tolist() == [2, 2]


def test_numbers_are_read_from_any_byte() -> None:
    assert unaligned(np.frombuffer(b"\x00\x01\x02", np.uint8), ">i2").tolist() == [1, 258]
    assert unaligned(np.frombuffer(b"\x00", np.uint8), ">i2").tolist() == []
