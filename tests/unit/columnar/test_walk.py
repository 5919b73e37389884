"""A walk notes positions, and no bytes lead it astray."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.model import Direction
from kafkalite.columnar import walk as walk_module
from kafkalite.columnar.plan import Counted, Rows, message_plan
from kafkalite.columnar.walk import walk_messages

if TYPE_CHECKING:
    import pytest


METADATA = 3


def metadata_request(*names: bytes) -> bytes:
    rows = b"".join(len(name).to_bytes(2, "big") + name for name in names)
    return len(names).to_bytes(4, "big") + rows


def test_rows_are_walked_in_waves_and_know_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "_FEW", 0)
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
    (topics,) = plan.body.steps
    assert isinstance(topics, Rows)
    assert walk.slot(topics.slot)[[0, 2]].tolist() == [2, 2]


def test_few_long_arrays_among_short_ones_end_alike() -> None:
    """What is left of them is walked in another way."""
    plan = message_plan(METADATA, 1, Direction.REQUEST)
    long = [b"%d" % number for number in range(300)]
    frames = [metadata_request(b"a")] * 20 + [metadata_request(*long)] * 2
    stops = np.cumsum([len(frame) for frame in frames])
    starts = np.concatenate([[0], stops[:-1]])

    notes = walk_messages(plan, np.frombuffer(b"".join(frames), np.uint8), starts, stops)

    assert notes.reasons == {}
    assert sorted(zip(notes.parents(1).tolist(), notes.ranks(1).tolist(), strict=True)) == sorted(
        [(row, 0) for row in range(20)] + [(row, rank) for row in (20, 21) for rank in range(300)]
    )
