"""What lies within a spell is found in a task as it would be found one by one."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkalite.spark.state.spells import FOREVER, covered

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
        name: pa.array([each[number] for each in who], kinds[number])
        for number, name in enumerate(MEMBER)
    }
    return pa.table({**names, **{name: pa.array(each, pa.int64()) for name, each in times.items()}})


@given(EDGES, ROWS)
def test_rows_are_covered_that_begin_and_end_within_one_spell(
    edges: dict[Who, list[int]], rows: list[tuple[Who, int, int | None]]
) -> None:
    """Of each, edges taken in pairs are the spells; one that is left over never ends."""
    spells = [
        (who, begin, end)
        for who, moments in edges.items()
        for begin, end in zip(sorted(moments)[::2], [*sorted(moments)[1::2], FOREVER], strict=False)
    ]
    known = table_of(
        [each for each, _, _ in spells],
        from_us=[begin for _, begin, _ in spells],
        until_us=[end for _, _, end in spells],
    )
    asked = table_of(
        [who for who, _, _ in rows],
        start_us=[start for _, start, _ in rows],
        end_us=[end for _, _, end in rows],
    )
    assert covered(asked, known, MEMBER).tolist() == [
        end is not None and any(whose == who and since <= start and end < until
                                for whose, since, until in spells)
        for who, start, end in rows
    ]  # fmt: skip
