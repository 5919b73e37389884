"""Functions of the local engine return what PySpark's return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalite.lab.spark.local import functions as f
from kafkalite.lab.spark.local.expressions import WINDOW
from kafkalite.lab.spark.local.session import LocalSession

if TYPE_CHECKING:
    from kafkalite.lab.spark.local.expressions import Column
    from kafkalite.lab.spark.local.frames import LocalFrame

NUMBER = 2**63 + 5


@pytest.fixture(scope="module")
def session() -> LocalSession:
    return LocalSession()


@pytest.fixture(scope="module")
def rows(session: LocalSession) -> LocalFrame:
    return session.createDataFrame(
        pa.table(
            {
                "key": ["a", "a", "b", "b"],
                "at": [1, 2, 3, None],
                "seen": pa.array(
                    [{"epoch": None, "at": 9}, {"epoch": 0, "at": 1}, None, {"epoch": 1, "at": 2}],
                    pa.struct([("epoch", pa.int32()), ("at", pa.int64())]),
                ),
                "names": pa.array([["x", "y"], [], None, ["z"]], pa.list_(pa.string())),
                "bytes": [NUMBER.to_bytes(8), b"\x00\x07", b"", None],
            }
        )
    )


def value(rows: LocalFrame, column: Column) -> Any:  # noqa: ANN401 - any type of SQL
    return rows.agg(column.alias("value")).collect()[0]["value"]


def values(rows: LocalFrame, column: Column) -> list[Any]:
    ordered = rows.select(f.coalesce("at", f.lit(9)).alias("order"), column.alias("value"))
    return [row["value"] for row in ordered.orderBy("order").collect()]


def test_null_fields_of_structs_are_smallest(rows: LocalFrame) -> None:
    assert value(rows, f.max("seen")) == {"epoch": 1, "at": 2}
    assert value(rows, f.min("seen")) == {"epoch": None, "at": 9}
    assert value(rows, f.max_by("key", "seen")) == "b"
    assert value(rows, f.min_by("at", f.struct("seen", "key"))) == 3


def test_value_at_the_maximum_may_be_null(rows: LocalFrame) -> None:
    assert value(rows, f.max_by("at", "seen")) is None


def test_collected_lists_have_no_nulls_and_are_never_null(rows: LocalFrame) -> None:
    assert value(rows, f.collect_list("at")) == [1, 2, 3]
    assert sorted(value(rows, f.collect_set("key"))) == ["a", "b"]
    assert value(rows.where("false"), f.collect_list("at")) == []


def test_generators_return_a_row_for_each_element(rows: LocalFrame) -> None:
    exploded = rows.select("at", f.explode("names").alias("name")).orderBy("name").collect()
    assert [tuple(row) for row in exploded] == [(1, "x"), (1, "y"), (None, "z")]
    positions = rows.select(f.posexplode("names").alias("i", "name")).orderBy("name").collect()
    assert [tuple(row) for row in positions] == [(0, "x"), (1, "y"), (0, "z")]
    outer = rows.select("at", f.explode_outer("names").alias("name")).collect()
    assert sum(row["name"] is None for row in outer) == 2


def test_windows_order_nulls_first(rows: LocalFrame) -> None:
    by_key = WINDOW.partitionBy("key").orderBy("at")
    before = by_key.rowsBetween(WINDOW.unboundedPreceding, -1)
    assert values(rows, f.lag("at").over(by_key)) == [None, 1, None, None]
    assert values(rows, f.lead(f.struct("at")).over(by_key)) == [{"at": 2}, None, None, {"at": 3}]
    assert values(rows, f.row_number().over(by_key)) == [1, 2, 2, 1]
    assert values(rows, f.count_if(f.col("at") > 0).over(before)) == [0, 1, 0, 0]
    assert values(rows, f.last("at", ignorenulls=True).over(before)) == [None, 1, None, None]
    assert values(rows, f.max("seen").over(before))[1] == {"epoch": None, "at": 9}


def test_bytes_have_a_length_and_are_shown_in_hex(rows: LocalFrame) -> None:
    assert values(rows, f.length("bytes")) == [8, 2, 0, None]
    assert values(rows, f.hex(f.substring("bytes", 2, 1)))[1] == "07"


def test_lists_are_joined_unless_one_is_null(rows: LocalFrame) -> None:
    lists = f.array(f.col("names"), f.array(f.lit("w")))
    assert values(rows, f.flatten(lists)) == [["x", "y", "w"], ["w"], None, ["z", "w"]]
    assert values(rows, f.arrays_overlap("names", f.array(f.lit("z")))) == [
        False,
        False,
        None,
        True,
    ]


def test_numbers_are_truncated_and_divided_as_in_spark(session: LocalSession) -> None:
    one = session.range(1)
    assert value(one, (f.lit(7) / 2).cast("bigint")) == 3
    assert value(one, f.try_divide(f.lit(1), f.lit(0))) is None
    assert value(one, f.lit(-7) % 3) == -1


def test_constant_map_is_looked_up(rows: LocalFrame) -> None:
    names = f.create_map(f.lit(1), f.lit("one"), f.lit(2), f.lit("two"))
    assert values(rows, names[f.col("at").cast("int")]) == ["one", "two", None, None]


def test_timestamps_are_utc(session: LocalSession) -> None:
    row = session.range(1).select(f.timestamp_micros(f.lit(1)).alias("at"))
    assert row.schema.field("at").type == pa.timestamp("us", tz="UTC")
    assert row.select(f.unix_micros("at").alias("us")).collect()[0].us == 1


def test_sum_of_an_unknown_type_is_refused(session: LocalSession) -> None:
    with pytest.raises(TypeError, match="has the type"):
        session.range(1).agg(f.sum(f.lit("1")))
