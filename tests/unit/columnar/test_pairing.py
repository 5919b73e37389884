"""Requests and responses of many connections, paired at once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.columnar.pairing import Frames, Paired, paired

Said = list[tuple[int, int, int]]
"""Line, direction and correlation id of frames, in the order in which they came."""


def pair(said: Said) -> Paired:
    columns = np.array(said, np.int64).T
    line, direction, correlation = (np.ascontiguousarray(column) for column in columns)
    return paired(Frames(line, direction, correlation, np.ones(len(said), np.bool_)), 3)


def one_by_one(said: Said) -> dict[str, list[object]]:
    waiting: dict[int, list[int]] = {}
    found: dict[str, list[object]] = {"pairs": [], "open": [], "never": [], "orphans": []}
    for row, (line, direction, correlation) in enumerate(said):
        asked = waiting.setdefault(line, [])
        if direction == 0:
            asked.append(row)
            continue
        ids = [said[each][2] for each in asked]
        if correlation not in ids:
            found["orphans"].append(row)
            continue
        place = ids.index(correlation)
        found["never"] += asked[:place]
        found["pairs"].append((asked[place], row))
        del asked[: place + 1]
    found["open"] = [row for asked in waiting.values() for row in asked]
    return found


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(0, 4)), min_size=1, max_size=24
    )
)
def test_all_at_once_pairs_as_one_by_one_does(said: Said) -> None:
    found, wanted = pair(said), one_by_one(said)
    pairs = list(zip(found.request.tolist(), found.response.tolist(), strict=True))
    assert sorted(pairs) == sorted(wanted["pairs"])  # type: ignore[type-var]
    assert sorted(found.open.tolist()) == sorted(wanted["open"])  # type: ignore[type-var]
    assert sorted(found.never.tolist()) == sorted(wanted["never"])  # type: ignore[type-var]
    assert sorted(found.orphans.tolist()) == sorted(wanted["orphans"])  # type: ignore[type-var]


def test_many_requests_that_wait_are_no_matter() -> None:
    said = [(1, 0, number) for number in range(300)] + [(1, 1, 250), (1, 1, 7), (1, 1, 251)]
    said += [(0, 0, 1), (0, 1, 1)]
    found = pair(said)
    assert found.request.tolist() == [250, 251, 303]
    assert found.response.tolist() == [300, 302, 304]
    assert found.never.tolist() == list(range(250))
    assert found.orphans.tolist() == [301]
    assert found.open.tolist() == list(range(252, 300))
