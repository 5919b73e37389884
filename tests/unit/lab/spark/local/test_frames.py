"""Data frames of the local engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.lab.spark.local import functions as f
from kafkalite.lab.spark.local.frames import LocalFrame, query
from kafkalite.lab.spark.local.session import LocalSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@pytest.fixture(scope="module")
def session() -> LocalSession:
    return LocalSession()


@pytest.fixture(scope="module")
def members(session: LocalSession) -> LocalFrame:
    return session.createDataFrame(
        pa.table({"group_id": ["g", "g", "h"], "member": ["a", "b", "c"], "epoch": [1, 2, None]})
    )


@pytest.fixture(scope="module")
def no_members(session: LocalSession, members: LocalFrame) -> LocalFrame:
    return session.createDataFrame(members.schema.empty_table())


def texts(frame: LocalFrame) -> list[str]:
    """Return the rows as texts, in a defined order."""
    return sorted(",".join(map(str, row)) for row in frame.collect())


def test_columns_are_added_replaced_renamed_and_dropped(members: LocalFrame) -> None:
    changed = (
        members.withColumns({"epoch": f.col("epoch") + 1, "next": f.col("epoch") + 2})
        .withColumnRenamed("member", "id")
        .drop("group_id")
    )
    assert changed.columns == ["id", "epoch", "next"]
    assert texts(changed) == ["a,2,3", "b,3,4", "c,None,None"]


def test_star_stands_for_columns_or_fields(members: LocalFrame) -> None:
    row = f.struct("*").alias("row")
    assert members.select(row).select("row.*").columns == members.columns
    joined = members.alias("l").crossJoin(members.alias("r"))
    assert joined.select("r.*").columns == members.columns
    assert len(joined.select("*").columns) == 6


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("inner", ["g,a,1,x", "g,b,2,x"]),
        ("left", ["g,a,1,x", "g,b,2,x", "h,c,None,None"]),
        ("left_semi", ["g,a,1", "g,b,2"]),
        ("semi", ["g,a,1", "g,b,2"]),
        ("left_anti", ["h,c,None"]),
    ],
)
def test_joins(session: LocalSession, members: LocalFrame, how: str, expected: list[str]) -> None:
    names = session.createDataFrame(pa.table({"group_id": ["g"], "name": ["x"]}))
    assert texts(members.join(names, "group_id", how)) == expected
    is_same = f.expr("l.group_id = r.group_id")
    joined = members.alias("l").join(names.alias("r"), is_same, how)
    assert texts(joined.select("l.*")) == [",".join(row.split(",")[:3]) for row in expected]


def test_union_is_by_name(session: LocalSession, members: LocalFrame) -> None:
    other = session.createDataFrame(pa.table({"epoch": [7], "member": ["d"]}))
    both = members.unionByName(other, allowMissingColumns=True)
    assert texts(both.where("epoch = 7")) == ["None,d,7"]
    with pytest.raises(KeyError):
        members.unionByName(other)


def test_union_with_an_empty_frame_has_the_types_of_its_columns(session: LocalSession) -> None:
    kind = pa.list_(pa.struct([("name", pa.string())]))
    empty = session.createDataFrame(pa.table({"topics": pa.array([], kind)}))
    both = empty.unionByName(session.range(1), allowMissingColumns=True)
    assert texts(both.select(f.expr("get(topics, 0).name").alias("name"))) == ["None"]


def test_groups_and_totals(members: LocalFrame) -> None:
    count = f.count(f.lit(1)).alias("members")
    assert texts(members.groupBy("group_id").agg(count)) == ["g,2", "h,1"]
    assert texts(members.agg(f.max("epoch").alias("m"), count)) == ["2,3"]
    assert texts(members.select("group_id").distinct()) == ["g", "h"]
    assert texts(members.orderBy(f.col("member").desc()).limit(1).select("member")) == ["c"]


def test_nulls_are_filled_in_columns_of_numbers(members: LocalFrame) -> None:
    assert texts(members.na.fill(0))[2] == "h,c,0"


def test_empty_frames_run_no_query(members: LocalFrame, no_members: LocalFrame) -> None:
    assert no_members.select("member").where("member = 'a'").is_empty
    assert no_members.groupBy("member").agg(f.count("epoch").alias("n")).is_empty
    assert members.join(no_members, "member").is_empty
    assert members.crossJoin(no_members).is_empty
    assert members.where(f.lit(False)).is_empty
    assert no_members.unionByName(no_members).is_empty
    assert not no_members.unionByName(members).is_empty
    assert not members.join(no_members, "member", "left").is_empty
    assert no_members.isEmpty()
    assert not members.isEmpty()


def test_totals_of_an_empty_frame_are_one_row(no_members: LocalFrame) -> None:
    count = f.count(f.lit(1)).alias("n")
    assert texts(no_members.alias("m").agg(count, f.max("m.epoch").alias("last"))) == ["0,None"]


def test_columns_that_no_step_needs_are_not_computed(members: LocalFrame) -> None:
    frame = members.withColumn("unused", f.col("epoch") * 1_000).select("member")
    sql = query(frame._step)
    assert "1000" not in sql
    assert "group_id" not in sql


def test_keys_of_groups_are_computed_though_no_step_needs_them(members: LocalFrame) -> None:
    counts = members.groupBy("group_id").agg(f.count(f.lit(1)).alias("n")).select("n")
    assert texts(counts) == ["1", "2"]
    exploded = members.select("member", f.explode(f.array(f.lit(1), f.lit(2))).alias("i"))
    assert len(texts(exploded.select("member"))) == 6


def test_step_that_is_used_twice_runs_once(members: LocalFrame) -> None:
    twice = members.where("epoch > 0")
    sql = query(twice.alias("l").crossJoin(twice.alias("r"))._step)
    assert sql.count(" as materialized (") == 1


def test_function_receives_batches(members: LocalFrame, no_members: LocalFrame) -> None:
    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [str(batch.num_rows)]})

    assert texts(members.mapInArrow(count, "rows string")) == ["3"]
    assert texts(no_members.mapInArrow(count, "rows string")) == []
