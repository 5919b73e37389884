"""Rows within intervals: the vectorized search equals a naive one."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.lab.spark.state.membership_spans import FOREVER, is_covered

MEMBER: Final = ("group_id", "member_id", "commit_epoch")

MemberEpoch = tuple[str, str, int | None]

MEMBER_EPOCHS: Final = st.tuples(
    st.sampled_from("ab"), st.sampled_from("mn"), st.sampled_from([1, 2])
)
EDGES: Final = st.dictionaries(MEMBER_EPOCHS, st.lists(st.integers(0, 40), max_size=6, unique=True))
ROWS: Final = st.lists(
    st.tuples(
        MEMBER_EPOCHS | st.just(("a", "m", None)),
        st.integers(0, 42),
        st.none() | st.integers(0, 42),
    ),
    max_size=30,
)


def table_of(member: list[MemberEpoch], **times: list[int | None]) -> pa.Table:
    kinds = (pa.string(), pa.string(), pa.int32())
    names = {
        name: pa.array([row[number] for row in member], kinds[number])
        for number, name in enumerate(MEMBER)
    }
    return pa.table({**names, **{name: pa.array(time, pa.int64()) for name, time in times.items()}})


@given(EDGES, ROWS)
def test_rows_within_one_interval_are_covered(
    edges: dict[MemberEpoch, list[int]], rows: list[tuple[MemberEpoch, int, int | None]]
) -> None:
    """Sorted edges in pairs are intervals; a last edge without a pair begins an endless one."""
    intervals = [
        (member, begin, end)
        for member, times in edges.items()
        for begin, end in zip(sorted(times)[::2], [*sorted(times)[1::2], FOREVER], strict=False)
    ]
    known = table_of(
        [interval for interval, _, _ in intervals],
        from_us=[begin for _, begin, _ in intervals],
        until_us=[end for _, _, end in intervals],
    )
    commits = table_of(
        [member for member, _, _ in rows],
        start_us=[start for _, start, _ in rows],
        end_us=[end for _, _, end in rows],
    )
    assert is_covered(commits, known, MEMBER).tolist() == [
        end is not None and any(interval_member == member and since <= start and end < until
                                for interval_member, since, until in intervals)
        for member, start, end in rows
    ]  # fmt: skip
