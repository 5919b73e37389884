"""Who is a member from when until when, where static members come, go and are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.spark.state.presence import empty_spells, memberships
from kafkalite.spark.state.signs import CLASSIC, JOIN, LEAVE, SIGNS, STAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECOND: Final = 1_000_000
SESSION_MS: Final = 45_000

Sign = tuple[str, str | None, str, int]
"""(member, its static name, sign, second); it is answered at once."""


def table_of(spark: SparkSession, signs: Iterable[Sign], protocol: str = CLASSIC) -> DataFrame:
    rows = []
    for position, (member, instance, sign, second) in enumerate(signs):
        at_us = second * SECOND
        row: dict[str, object] = dict.fromkeys(each.name for each in SIGNS.columns)
        row |= dict.fromkeys(("start_us", "end_us", "last_start_us", "lasts_us"), at_us)
        row |= {"connection": 1, "position": position, "protocol": protocol, "group_id": "group"}
        row |= {"member_id": member, "instance_id": instance, "sign": sign, "error": 0}
        rows.append(tuple(row[each.name] for each in SIGNS.columns))
    return spark.createDataFrame(rows, SIGNS.schema)


def told(frame: DataFrame) -> list[tuple[str, int, int]]:
    rows = memberships(frame, SESSION_MS).orderBy("somebody", "from_us").collect()
    return [(row.somebody, row.from_us // SECOND, row.until_us // SECOND) for row in rows]


def test_one_who_is_removed_by_its_static_name_alone_is_a_member_no_more(
    spark: SparkSession,
) -> None:
    signs = [("m-1", "one", JOIN, 0), ("m-1", "one", STAY, 3), ("", "one", LEAVE, 4)]
    assert told(table_of(spark, signs)) == [("one", 0, 4)]


def test_the_group_is_empty_from_then_on(spark: SparkSession) -> None:
    signs = table_of(spark, [("m-1", "one", JOIN, 0), ("", "one", LEAVE, 4)])
    spells = empty_spells(signs, SESSION_MS).collect()
    assert [(row.from_us // SECOND, row.until_us) for row in spells] == [(4, None)]


def test_a_static_member_that_comes_back_under_another_id_is_the_same(spark: SparkSession) -> None:
    signs = [("m-1", "one", JOIN, 0), ("m-2", "one", JOIN, 9), ("m-2", "one", LEAVE, 12)]
    assert told(table_of(spark, signs)) == [("one", 0, 12)]


def test_others_stay_when_one_is_removed(spark: SparkSession) -> None:
    signs = [("m-1", "one", JOIN, 0), ("m", None, JOIN, 1), ("", "one", LEAVE, 4)]
    assert told(table_of(spark, signs)) == [("m", 1, 46), ("one", 0, 4)]


def test_a_membership_is_of_the_protocol_that_it_began_with_however_rows_come(
    spark: SparkSession,
) -> None:
    before = table_of(spark, [("m", None, JOIN, 0)])
    after = table_of(spark, [("m", None, STAY, 3)], "consumer")
    both = [before.unionByName(after), after.unionByName(before)]
    protocols = {row.protocol for each in both for row in memberships(each, SESSION_MS).collect()}
    assert protocols == {CLASSIC}
