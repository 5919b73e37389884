"""Projections of typed requests, and runs of repeated rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.stages.projection import Projection, find_repeats, row_codes, type_at

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

HEARTBEAT: Final = 12
TIMEOUT: Final = 5
ORDER: Final = ("at", "position")

Row = tuple[str, int, int, int | None, bool]
"""(member, at, position, value, whether it is plain)."""

ROWS: Final = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 30),
        st.integers(0, 3),
        st.sampled_from([None, 1, 2]),
        st.booleans(),
    ),
    max_size=40,
    unique_by=lambda row: row[:3],
)


def naive_runs(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return (first, last) of each run, as indexes of rows."""
    found: list[tuple[int, int]] = []
    ordered = sorted(range(len(rows)), key=lambda number: rows[number][:3])
    for previous_number, number in zip([None, *ordered], ordered, strict=False):
        row = rows[number]
        previous = None if previous_number is None else rows[previous_number]
        is_repeat = (
            previous is not None
            and (previous[0], previous[3]) == (row[0], row[3])
            and previous[4]
            and row[4]
            and row[1] - previous[1] <= TIMEOUT
        )
        found.append((found.pop()[0], number) if is_repeat else (number, number))
    return found


def table_of(rows: Sequence[Row]) -> pa.Table:
    names = ("member", "at", "position", "value", "plain")
    kinds = (pa.string(), pa.int64(), pa.int64(), pa.int32(), pa.bool_())
    columns = [pa.array([row[each] for row in rows], kind) for each, kind in enumerate(kinds)]
    return pa.table(columns, names=list(names))


@given(ROWS)
def test_runs_of_repeated_rows_equal_those_of_a_naive_search(rows: list[Row]) -> None:
    table = table_of(rows)
    plain = np.array([row[4] for row in rows], np.bool_)
    firsts, lasts = find_repeats(
        table, ("member",), ORDER, is_mergeable=plain, equal_columns=("value",), timeout_us=TIMEOUT
    )
    assert sorted(zip(firsts.tolist(), lasts.tolist(), strict=True)) == sorted(naive_runs(rows))


def test_codes_are_equal_for_equal_rows_and_null_is_a_value() -> None:
    rows = pa.table({"a": ["x", "x", None, None, "x"], "b": [1, None, 1, None, 1]})
    numbers = row_codes(rows, ("a", "b")).tolist()
    assert numbers[0] == numbers[4]
    assert len({*numbers}) == 4


def rows_before(rows: pa.Table, *, until: int) -> pa.Table:
    return rows.filter(pa.compute.less(rows["generation"], until))


PROJECTION: Final = Projection(
    api_key=HEARTBEAT,
    fields={
        "group_id": "request.group_id",
        "generation": "request.generation_id",
        "instance_id": "request.group_instance_id",
        "error": "response.error_code",
    },
    reduce_rows=partial(rows_before, until=3),
    schema=pa.schema(
        [
            pa.field("group_id", pa.string()),
            pa.field("instance_id", pa.string()),
            pa.field("error", pa.int16()),
        ]
    ),
)


def requests() -> pa.Table:
    """Return heartbeats of a version without instance ids, one of them without a response."""
    request = pa.array([{"group_id": f"g{index}", "generation_id": index} for index in range(5)])
    response = pa.array([{"error_code": index} if index else None for index in range(5)])
    return pa.table({"request": request, "response": response})


EXPECTED: Final = [
    {"group_id": "g0", "instance_id": None, "error": None},
    {"group_id": "g1", "instance_id": None, "error": 1},
    {"group_id": "g2", "instance_id": None, "error": 2},
]


def test_missing_fields_and_responses_are_null() -> None:
    assert PROJECTION.reduce_requests(requests()).to_pylist() == EXPECTED


def test_files_can_be_projected_together_or_one_by_one(tmp_path: Path) -> None:
    urls = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    for url in urls:
        parquet.write_table(requests(), url, row_group_size=2)
    assert PROJECTION.reduce_files(urls).to_pylist() == 2 * EXPECTED
    assert PROJECTION.reduce_files([]).schema.equals(PROJECTION.schema)
    numbers = pa.RecordBatch.from_pydict({"id": [1]})
    found = [*PROJECTION.reduce_splits([numbers], [[], urls])]
    assert pa.Table.from_batches(found).to_pylist() == 2 * EXPECTED


def test_rows_read_by_spark_are_projected_by_batch() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"group_id": ["g"], "generation": [2], "instance_id": ["i"], "error": [None]}
    )
    assert [each.to_pylist() for each in PROJECTION.reduce_batches([batch])] == [
        [{"group_id": "g", "instance_id": "i", "error": None}]
    ]


def test_type_at_a_path_equals_the_column_type_of_the_requests_table() -> None:
    assert type_at(HEARTBEAT, "ts") == tables.TIME
    assert type_at(HEARTBEAT, "request.generation_id") == pa.int32()
