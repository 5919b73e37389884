"""Intervals of membership, with static members that join, leave and are removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from kafkalite.lab.spark.state.group_presence import empty_intervals, memberships
from kafkalite.lab.spark.state.liveness import CLASSIC, JOIN, LEAVE, MEMBERSHIP_REQUESTS, STAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SECOND: Final = 1_000_000
SESSION_MS: Final = 45_000

SentRequest = tuple[str, str | None, str, int]
"""(member id, instance id, sign, second); answered at once."""


def table_of(
    spark: SparkSession, membership_requests: Iterable[SentRequest], protocol: str = CLASSIC
) -> DataFrame:
    rows = []
    for position, (member, instance, sign, second) in enumerate(membership_requests):
        at_us = second * SECOND
        row: dict[str, object] = dict.fromkeys(
            column.name for column in MEMBERSHIP_REQUESTS.columns
        )
        row |= dict.fromkeys(("start_us", "end_us", "last_start_us", "last_end_us"), at_us)
        row |= {"connection": 1, "position": position, "protocol": protocol, "group_id": "group"}
        row |= {"member_id": member, "instance_id": instance, "action": sign, "error": 0}
        rows.append(tuple(row[column.name] for column in MEMBERSHIP_REQUESTS.columns))
    return spark.createDataFrame(rows, MEMBERSHIP_REQUESTS.schema)


def intervals(frame: DataFrame) -> list[tuple[str, int, int]]:
    rows = memberships(frame, SESSION_MS).orderBy("identity", "from_us").collect()
    return [(row.identity, row.from_us // SECOND, row.until_us // SECOND) for row in rows]


def test_removal_by_instance_id_ends_the_membership(
    spark: SparkSession,
) -> None:
    membership_requests = [("m-1", "one", JOIN, 0), ("m-1", "one", STAY, 3), ("", "one", LEAVE, 4)]
    assert intervals(table_of(spark, membership_requests)) == [("one", 0, 4)]


def test_group_is_empty_after_its_last_member_is_removed(spark: SparkSession) -> None:
    membership_requests = table_of(spark, [("m-1", "one", JOIN, 0), ("", "one", LEAVE, 4)])
    empty = empty_intervals(membership_requests, SESSION_MS).collect()
    assert [(row.from_us // SECOND, row.until_us) for row in empty] == [(4, None)]


def test_static_member_with_a_new_member_id_is_the_same(spark: SparkSession) -> None:
    membership_requests = [
        ("m-1", "one", JOIN, 0),
        ("m-2", "one", JOIN, 9),
        ("m-2", "one", LEAVE, 12),
    ]
    assert intervals(table_of(spark, membership_requests)) == [("one", 0, 12)]


def test_removal_of_one_member_does_not_affect_others(spark: SparkSession) -> None:
    membership_requests = [("m-1", "one", JOIN, 0), ("m", None, JOIN, 1), ("", "one", LEAVE, 4)]
    assert intervals(table_of(spark, membership_requests)) == [("m", 1, 46), ("one", 0, 4)]


def test_membership_has_the_protocol_of_its_first_request(
    spark: SparkSession,
) -> None:
    before = table_of(spark, [("m", None, JOIN, 0)])
    after = table_of(spark, [("m", None, STAY, 3)], "consumer")
    both = [before.unionByName(after), after.unionByName(before)]
    protocols = {row.protocol for frame in both for row in memberships(frame, SESSION_MS).collect()}
    assert protocols == {CLASSIC}
