"""Columns of the local engine: paths, types and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.lab.spark.local import functions as f
from kafkalite.lab.spark.local.expressions import WINDOW, Sql, common_type, literal
from kafkalite.lab.spark.local.session import LocalSession

if TYPE_CHECKING:
    from kafkalite.lab.spark.local.frames import LocalFrame

TOPICS = [
    {"name": "a", "partitions": [{"index": 0, "error": 0}, {"index": 1, "error": 3}]},
    {"name": "b", "partitions": []},
]


@pytest.fixture(scope="module")
def rows() -> LocalFrame:
    return LocalSession().createDataFrame(
        pa.Table.from_pylist([{"n": 5, "response": {"topics": TOPICS}}])
    )


def test_path_through_lists_of_structs_returns_lists(rows: LocalFrame) -> None:
    selected = rows.select("response.topics.name", "response.topics.partitions.error")
    assert selected.collect()[0].asDict() == {"name": ["a", "b"], "error": [[0, 3], []]}
    assert selected.schema.field("error").type == pa.list_(pa.list_(pa.int64()))


def test_large_numbers_have_eight_bytes(rows: LocalFrame) -> None:
    large = rows.select(f.lit(1 << 40).alias("large"), f.lit(-1).alias("small"))
    assert large.collect()[0].asDict() == {"large": 1 << 40, "small": -1}
    assert large.schema.types == [pa.int64(), pa.int32()]


def test_unknown_names_are_reported(rows: LocalFrame) -> None:
    with pytest.raises(KeyError, match="no field"):
        rows.select("response.missing")
    with pytest.raises(KeyError, match="missing is no column; the columns are n, response"):
        rows.select("missing")


def test_ambiguous_name_is_reported(rows: LocalFrame) -> None:
    both = rows.alias("l").crossJoin(rows.alias("r"))
    with pytest.raises(KeyError, match="n is ambiguous"):
        both.select("n")
    assert both.select("l.n").collect()[0].n == 5


def test_operators_and_conditions(rows: LocalFrame) -> None:
    n = f.col("n")
    conditions = [
        (n == 5) & ~(n != 5),
        (n < 6) | (n > 7),
        n.isin(4, 5),
        n.isin([4, 5]),
        n.isNotNull() & ~n.isNull(),
        n.eqNullSafe(5) & ~n.eqNullSafe(f.lit(None)),
        f.lit("topic").startswith("to") & f.lit("topic").rlike("p.c"),
        -n + 1 == -4,
        (n - 1) * 2 <= 8,
        f.col("response.topics")[0].getField("name") == "a",
        f.when(n > 5, 1).when(n == 5, 2).otherwise(3) == 2,
        f.when(n > 5, 1).isNull(),
    ]
    row = rows.select(*(each.alias(str(i)) for i, each in enumerate(conditions))).collect()[0]
    assert all(row)


def test_type_of_several_values_is_the_widest() -> None:
    assert common_type([Sql("a", pa.int32()), Sql("b", pa.int64())]) == pa.int64()
    assert common_type([Sql("null"), Sql("b", pa.float64()), Sql("c", pa.int64())]) == pa.float64()
    assert common_type([Sql("null")]) == pa.null()


def test_values_without_a_literal_are_refused() -> None:
    with pytest.raises(TypeError, match="not a constant"):
        literal(object())
    with pytest.raises(TypeError, match="has no window"):
        f.lit(1).over(WINDOW)
