"""Unit tests of pairing requests and responses of many connections."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.capture.reading.pairing import MAX_WAITING_RESPONSES
from kafkalite.lab.columnar.exchanges.pairing import Frames, PairedFrames, pair_frames

FrameRows = list[tuple[int, int, int, int]]
"""Connection, direction, correlation id and `request_seq` of frames, sorted by time."""


def pair(frames: FrameRows) -> PairedFrames:
    columns = np.array(frames, np.int64).T
    connection, direction, correlation, seq = (np.ascontiguousarray(column) for column in columns)
    return pair_frames(
        Frames(connection, direction, correlation, seq, np.ones(len(frames), np.bool_)), 3
    )


@dataclass
class Connection:
    """The frames of one connection that have no counterpart yet, as (row, id, seq)."""

    requests: list[tuple[int, int, int]] = field(default_factory=list)
    responses: list[tuple[int, int, int]] = field(default_factory=list)


def pair_one_by_one(frames: FrameRows) -> dict[str, list[Any]]:
    connections: defaultdict[int, Connection] = defaultdict(Connection)
    found: defaultdict[str, list[Any]] = defaultdict(list)
    for row, (connection, direction, correlation, seq) in enumerate(frames):
        own = connections[connection]
        if direction == 0:
            while seq >= 0 and own.responses and own.responses[0][2] <= seq:
                found["orphans"].append(own.responses.pop(0)[0])
            matches = (place for place, (_, id_, acknowledged) in enumerate(own.responses)
                       if id_ == correlation and 0 <= seq < acknowledged)  # fmt: skip
            place = next(matches, None)
            if place is None:
                own.requests.append((row, correlation, seq))
                continue
            found["orphans"] += [each for each, _, _ in own.responses[:place]]
            found["unanswered"] += [each for each, _, _ in own.requests]
            found["pairs"].append((row, own.responses[place][0]))
            own.requests, own.responses = [], own.responses[place + 1 :]
            continue
        ids = [each for _, each, _ in own.requests]
        if correlation in ids:
            place = ids.index(correlation)
            found["orphans"] += [each for each, _, _ in own.responses]
            found["unanswered"] += [each for each, _, _ in own.requests[:place]]
            found["pairs"].append((own.requests[place][0], row))
            own.requests, own.responses = own.requests[place + 1 :], []
        elif seq < 0:
            found["orphans"].append(row)
        else:
            own.responses.append((row, correlation, seq))
    for own in connections.values():
        found["open"] += [each for each, _, _ in own.requests]
        found["waiting"] += [each for each, _, _ in own.responses]
    return found


@pytest.mark.parametrize("many", [0, 80])
@given(
    frames=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 4), st.integers(-1, 9)),
        min_size=1,
        max_size=24,
    )
)
def test_compiled_loops_pair_like_a_simple_loop(frames: FrameRows, many: int) -> None:
    """Many open requests are not paired by the kernel."""
    frames = [(1, 0, 9 + number, -1) for number in range(many)] + frames
    found = pair(frames)
    expected = pair_one_by_one(frames)
    pairs = list(zip(found.request.tolist(), found.response.tolist(), strict=True))
    assert sorted(pairs) == sorted(expected["pairs"])
    for kind in ("open", "unanswered", "orphans", "waiting"):
        assert sorted(getattr(found, kind).tolist()) == sorted(expected[kind]), kind


def test_many_open_requests_are_paired() -> None:
    frames = [(1, 0, number, 0) for number in range(300)]
    frames += [(1, 1, 250, -1), (1, 1, 7, -1), (1, 1, 251, -1), (0, 0, 1, 0), (0, 1, 1, -1)]
    found = pair(frames)
    assert found.request.tolist() == [250, 251, 303]
    assert found.response.tolist() == [300, 302, 304]
    assert found.unanswered.tolist() == list(range(250))
    assert found.orphans.tolist() == [301]
    assert found.open.tolist() == list(range(252, 300))


@pytest.mark.parametrize("many", [0, 80])
def test_the_oldest_waiting_responses_are_dropped(many: int) -> None:
    responses = [(0, 1, number, 100) for number in range(MAX_WAITING_RESPONSES + 2)]
    found = pair([*((0, 0, -1, -1) for _ in range(many)), *responses, (0, 0, 2, 0)])
    assert found.orphans.tolist() == [many, many + 1]
    assert found.response.tolist() == [many + 2]
    assert len(found.waiting) == MAX_WAITING_RESPONSES - 1
