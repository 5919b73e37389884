"""Rows within intervals: the vectorized search equals a naive one."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.traffic.spark.state.membership_spans import FOREVER, is_covered

MEMBER: Final = ("group_id", "member_id", "commit_epoch")

Who = tuple[str, str, int | None]

WHO: Final = st.tuples(st.sampled_from("ab"), st.sampled_from("mn"), st.sampled_from([1, 2]))
EDGES: Final = st.dictionaries(WHO, st.lists(st.integers(0, 40), max_size=6, unique=True))
ROWS: Final = st.lists(
    st.tuples(WHO | st.just(("a", "m", None)), st.integers(0, 42), st.none() | st.integers(0, 42)),
    max_size=30,
)


def table_of(who: list[Who], **times: list[int | None]) -> pa.Table:
    kinds = (pa.string(), pa.string(), pa.int32())
    names = {
        name: pa.array([row[number] for row in who], kinds[number])
        for number, name in enumerate(MEMBER)
    }
    return pa.table({**names, **{name: pa.array(time, pa.int64()) for name, time in times.items()}})


@given(EDGES, ROWS)
def test_rows_within_one_interval_are_covered(
    edges: dict[Who, list[int]], rows: list[tuple[Who, int, int | None]]
) -> None:
    """Sorted edges in pairs are intervals; a last edge without a pair begins an endless one."""
    intervals = [
        (who, begin, end)
        for who, times in edges.items()
        for begin, end in zip(sorted(times)[::2], [*sorted(times)[1::2], FOREVER], strict=False)
    ]
    known = table_of(
        [interval for interval, _, _ in intervals],
        from_us=[begin for _, begin, _ in intervals],
        until_us=[end for _, _, end in intervals],
    )
    asked = table_of(
        [who for who, _, _ in rows],
        start_us=[start for _, start, _ in rows],
        end_us=[end for _, _, end in rows],
    )
    assert is_covered(asked, known, MEMBER).tolist() == [
        end is not None and any(whose == who and since <= start and end < until
                                for whose, since, until in intervals)
        for who, start, end in rows
    ]  # fmt: skip
