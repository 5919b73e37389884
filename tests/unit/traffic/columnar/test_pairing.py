"""Unit tests of pairing requests and responses of many connections."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.traffic.columnar.pairing import Frames, PairedFrames, pair_frames

FrameRows = list[tuple[int, int, int]]
"""Connection, direction and correlation id of frames, sorted by time."""


def pair(frames: FrameRows) -> PairedFrames:
    columns = np.array(frames, np.int64).T
    connection, direction, correlation = (np.ascontiguousarray(column) for column in columns)
    return pair_frames(
        Frames(connection, direction, correlation, np.ones(len(frames), np.bool_)), 3
    )


def pair_one_by_one(frames: FrameRows) -> dict[str, list[object]]:
    by_connection: dict[int, list[int]] = {}
    found: dict[str, list[object]] = {"pairs": [], "open": [], "unanswered": [], "orphans": []}
    for row, (connection, direction, correlation) in enumerate(frames):
        open_requests = by_connection.setdefault(connection, [])
        if direction == 0:
            open_requests.append(row)
            continue
        ids = [frames[each][2] for each in open_requests]
        if correlation not in ids:
            found["orphans"].append(row)
            continue
        index = ids.index(correlation)
        found["unanswered"] += open_requests[:index]
        found["pairs"].append((open_requests[index], row))
        del open_requests[: index + 1]
    found["open"] = [row for open_requests in by_connection.values() for row in open_requests]
    return found


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=24
    )
)
def test_kernel_pairs_like_a_simple_loop(frames: FrameRows) -> None:
    found, expected = pair(frames), pair_one_by_one(frames)
    pairs = list(zip(found.request.tolist(), found.response.tolist(), strict=True))
    assert sorted(pairs) == sorted(expected["pairs"])  # type: ignore[type-var]
    assert sorted(found.open.tolist()) == sorted(expected["open"])  # type: ignore[type-var]
    assert sorted(found.unanswered.tolist()) == sorted(expected["unanswered"])  # type: ignore[type-var]
    assert sorted(found.orphans.tolist()) == sorted(expected["orphans"])  # type: ignore[type-var]


def test_many_open_requests_are_paired() -> None:
    frames = [(1, 0, number) for number in range(300)] + [(1, 1, 250), (1, 1, 7), (1, 1, 251)]
    frames += [(0, 0, 1), (0, 1, 1)]
    found = pair(frames)
    assert found.request.tolist() == [250, 251, 303]
    assert found.response.tolist() == [300, 302, 304]
    assert found.unanswered.tolist() == list(range(250))
    assert found.orphans.tolist() == [301]
    assert found.open.tolist() == list(range(252, 300))
