"""A member's signs of life become few, and the silences between them stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.runs import runs
from kafkalite.spark.state.signs import JOIN, LEAVE, SIGNS, STAY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

pytestmark = pytest.mark.spark

SECOND: Final = 1_000_000
TIMEOUT_MS: Final = 45_000
BEGINNING: Final = 0

Sign = tuple[str, str, int]
"""(member, sign, second); it is answered a tenth of a second later."""


def table_of(spark: SparkSession, signs: Sequence[Sign]) -> DataFrame:
    rows = []
    for position, (member, sign, second) in enumerate(signs):
        row: dict[str, object] = dict.fromkeys(each.name for each in SIGNS.columns)
        row |= {
            "start_us": second * SECOND,
            "end_us": second * SECOND + SECOND // 10,
            "connection": 1,
            "position": position,
            "group_id": "group",
            "member_id": member,
            "asked_member_id": "" if sign == JOIN else member,
            "sign": sign,
            "is_harmless": True,
            "error": 0,
        }
        rows.append(tuple(row[each.name] for each in SIGNS.columns))
    return spark.createDataFrame(rows, SIGNS.schema)


def found(frame: DataFrame) -> list[Row]:
    return frame.orderBy("member_id", "start_us").collect()


def told(rows: Sequence[Row]) -> list[tuple[str, str, int, int]]:
    return [(row.member_id, row.sign, row.start_us // SECOND, row.end_us // SECOND) for row in rows]


BEATS: Final = [("m", JOIN, 0), *(("m", STAY, second) for second in range(3, 90, 3))]
LATER: Final = [("m", STAY, second) for second in range(200, 230, 3)]


def test_signs_without_a_silence_are_one_that_remembers_how_it_began(spark: SparkSession) -> None:
    rows = found(runs(table_of(spark, BEATS), TIMEOUT_MS, BEGINNING))
    assert told(rows) == [("m", STAY, 0, 87)]
    assert rows[0].asked_member_id == ""


def test_a_silence_longer_than_a_session_is_kept_whichever_batch_it_lies_in(
    spark: SparkSession,
) -> None:
    whole = found(runs(table_of(spark, BEATS + LATER), TIMEOUT_MS, BEGINNING))
    assert told(whole) == [("m", STAY, 0, 87), ("m", STAY, 200, 227)]
    known = runs(table_of(spark, BEATS), TIMEOUT_MS, BEGINNING)
    both = known.unionByName(table_of(spark, LATER))
    assert told(found(runs(both, TIMEOUT_MS, BEGINNING))) == told(whole)


def test_one_who_left_was_not_silent(spark: SparkSession) -> None:
    signs = [*BEATS, ("m", LEAVE, 91), ("m", JOIN, 300)]
    rows = found(runs(table_of(spark, signs), TIMEOUT_MS, BEGINNING))
    assert told(rows) == [("m", STAY, 0, 300)]


def test_one_whose_leave_was_refused_was_silent_after_it(spark: SparkSession) -> None:
    signs = table_of(spark, [*BEATS, ("m", LEAVE, 91), ("m", JOIN, 300)])
    refused = f.when(f.col("sign") == LEAVE, int(ErrorCode.NOT_COORDINATOR)).otherwise(0)
    rows = found(runs(signs.withColumn("error", refused), TIMEOUT_MS, BEGINNING))
    assert told(rows) == [("m", STAY, 0, 87), ("m", JOIN, 300, 300)]


def test_who_was_not_heard_of_for_long_is_forgotten_and_old_silences_with_it(
    spark: SparkSession,
) -> None:
    signs = [*BEATS, *LATER, ("gone", JOIN, 10), ("gone", STAY, 20)]
    rows = found(runs(table_of(spark, signs), TIMEOUT_MS, 100 * SECOND))
    assert told(rows) == [("m", STAY, 0, 227)]
