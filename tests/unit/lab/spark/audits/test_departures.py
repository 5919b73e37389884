"""Why memberships ended, who was a ghost, and for whom rebalances waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pytest

from kafkalite.lab.spark.audits.departures import departures, membership_ends, rebalance_waits
from kafkalite.lab.spark.audits.members import ghosts
from kafkalite.lab.spark.state.generations import generations
from kafkalite.lab.spark.state.group_presence import empty_intervals
from kafkalite.lab.spark.state.liveness import distinct_classic_requests
from kafkalite.lab.spark.state.liveness_runs import merge_into_runs
from kafkalite.lab.spark.state.partition_ownership import OWNED_PARTITIONS
from kafkalite.protocol.error_codes import ErrorCode
from tests.spark.truth.requests_in_files import interpreted
from tests.unit.lab.spark.audits.member_requests import (
    NONE,
    REBALANCING,
    SECOND,
    SESSION_MS,
    commit,
    heartbeat,
    join,
    leave,
    sync,
    table_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from tests.unit.lab.spark.audits.member_requests import Row

pytestmark = pytest.mark.spark

END_S = 100
POLL_TIMEOUT = "consumer poll timeout has expired."
GONE = ErrorCode.UNKNOWN_MEMBER_ID


def stable(member: str, at_s: float, generation: int) -> list[Row]:
    """Return a member's join and sync."""
    return [join(member, at_s, generation), sync(member, at_s + 0.5, generation)]


def beats(
    member: str, times_s: Iterable[float], generation: int, error: int | None = NONE
) -> list[Row]:
    return [heartbeat(member, at_s, generation, error) for at_s in times_s]


GROUPS: dict[str, list[Row]] = {
    # Works for 65 s on a record while another member joins.
    "works": [
        *stable("a", 0, 1),
        *beats("a", [3], 1),
        *beats("a", range(6, 69, 3), 1, REBALANCING),
        join("a", 69, 2),
        sync("a", 69.5, 2),
        *beats("a", range(72, END_S, 3), 2),
        join("b", 5, 2, end_us=69 * SECOND + 10, last_end_us=69 * SECOND + 10),
        sync("b", 69.5, 2),
        *beats("b", range(72, END_S, 3), 2),
    ],
    # Two of three members leave while the rebalance waits for them, the third misses it.
    "three": [
        *(row for name in "abc" for row in stable(name, 0, 1)),
        *(
            row
            for name, until in (("a", 20), ("b", 30), ("c", 63))
            for row in beats(name, range(3, until, 3), 1, REBALANCING)
        ),
        leave("a", 20),
        leave("b", 30, leave_reason=POLL_TIMEOUT),
        join("d", 2, 2, end_us=62 * SECOND, last_end_us=62 * SECOND),
        sync("d", 62.5, 2),
        *beats("d", range(65, END_S, 3), 2),
        heartbeat("c", 63, 1, GONE),
    ],
    # A killed member, next to one that lives on.
    "killed": [
        *stable("a", 0, 1),
        *stable("b", 0, 1),
        *beats("a", [3, 6], 1),
        *beats("b", [3, 6, 9, 12, 15], 1),
        heartbeat("b", 18, 1, REBALANCING),
        *stable("b", 18.2, 2),
        *beats("b", range(21, END_S, 3), 2),
    ],
    # It is killed while others rejoin: the next generation begins before its session ends.
    "killed in a rebalance": [
        *stable("a", 0, 1),
        *stable("b", 0, 1),
        *beats("a", [3], 1),
        *beats("b", [3], 1),
        *beats("b", [6], 1, REBALANCING),
        *stable("b", 6.2, 2),
        *beats("b", range(9, END_S, 3), 2),
    ],
    "frozen": [*stable("a", 0, 1), heartbeat("a", 30, 1, GONE)],
    "commits": [
        *stable("a", 0, 1),
        *(commit("a", at_s, 1) for at_s in range(5, 60, 5)),
        leave("a", 60),
    ],
    # The capture lacks the join: the session timeout was longer than assumed.
    "long session": [*beats("a", [0, 20, 40], 1), leave("a", 50)],
    "waits": [
        *stable("a", 0, 1),
        *beats("a", [3], 1),
        heartbeat("a", 6, 1, REBALANCING),
        join("a", 7, 1, None, rebalance_timeout_ms=300_000),
    ],
    "waited": [
        *stable("a", 0, 1),
        heartbeat("a", 3, 1, REBALANCING),
        join("a", 4, 2, end_us=50 * SECOND, last_end_us=50 * SECOND),
        sync("a", 50.5, 2),
        leave("a", 51),
    ],
    "static": [
        join("a-1", 0, 1, instance_id="a", request_member_id=""),
        sync("a-1", 0.5, 1, instance_id="a"),
        join("a-2", 5, 1, instance_id="a", request_member_id="", was_member=False),
        heartbeat("a-1", 6, 1, ErrorCode.FENCED_INSTANCE_ID, instance_id="a", was_member=False),
        *(heartbeat("a-2", at_s, 1, instance_id="a") for at_s in range(8, 30, 3)),
        leave("a-2", 30),
    ],
    "administered": [
        *stable("a", 0, 1),
        leave("a", 3, client_id="admin", client="admin.example:1"),
        heartbeat("a", 4, 1, GONE),
    ],
    "unsynced": [join("a", 0, 1), *beats("a", range(3, 61, 3), 1), heartbeat("a", 63, 1, GONE)],
    # Its coordinator is another node now, whose traffic the capture lacks.
    "elsewhere": [*stable("a", 0, 1), heartbeat("a", 3, 1, ErrorCode.NOT_COORDINATOR)],
    "moved": [*stable("a", 0, 1), *beats("a", [3, 6], 1), heartbeat("a", 9, 1, GONE)],
}


Rows: TypeAlias = dict[str, list[tuple[Any, ...]]]


class Found(NamedTuple):
    ghosts: Rows
    """Group → member, kind, end in seconds, reason of the end."""
    departures: Rows
    """Group → member, cause, client, client id."""
    waits: Rows
    """Group → member, seconds, outcome."""
    empty: Rows
    """Group → the second since which it was empty."""


def _by_group(frame: DataFrame, *expressions: str) -> Rows:
    found: Rows = {}
    for group, *values in sorted(frame.selectExpr("group_id", *expressions).collect()):
        found.setdefault(group, []).append(tuple(values))
    return found


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[DataFrame]:
    with interpreted(spark):
        yield table_of(spark, dict(GROUPS)).coalesce(1).cache()


def _ghosts(spark: SparkSession, rows: DataFrame, of_generations: DataFrame) -> DataFrame:
    time_range = spark.createDataFrame([(0, END_S * SECOND)], "first_us bigint, last_us bigint")
    owned = OWNED_PARTITIONS.empty(spark)
    return ghosts(rows, owned, of_generations, time_range, SESSION_MS)


_GHOST = ("member_id", "kind", "round(unix_micros(ended_at) / 1e6, 1)", "end_reason")


@pytest.fixture(scope="module")
def found(spark: SparkSession, table: DataFrame) -> Found:
    rows = distinct_classic_requests(table, SESSION_MS).cache()
    of_generations = generations(rows).cache()
    ends = membership_ends(rows, of_generations, SESSION_MS).cache()
    ghost_rows = _ghosts(spark, rows, of_generations).cache()
    return Found(
        _by_group(ghost_rows, *_GHOST),
        _by_group(departures(ends, ghost_rows), "member_id", "cause", "client", "client_id"),
        _by_group(rebalance_waits(ends), "member_id", "round(seconds)", "outcome"),
        _by_group(empty_intervals(rows, SESSION_MS), "from_us / 1e6"),
    )


def test_member_without_a_client_is_a_ghost_and_no_other_member_is(found: Found) -> None:
    assert found.ghosts == {
        "killed": [("a", "stopped", 16.1, "session timeout")],
        "killed in a rebalance": [("a", "stopped", 6.3, "missed the rebalance timeout")],
        "frozen": [("a", "stopped", 10.6, "session timeout")],
    }


def test_ghosts_in_merged_requests_are_the_same(
    spark: SparkSession, table: DataFrame, found: Found
) -> None:
    of_generations = generations(distinct_classic_requests(table, SESSION_MS))
    merged = merge_into_runs(table, SESSION_MS, 0)
    assert _by_group(_ghosts(spark, merged, of_generations), *_GHOST) == found.ghosts


def test_departures_have_their_causes_and_clients(found: Found) -> None:
    def of(member: str, cause: str) -> tuple[str, str, str, str]:
        return (member, cause, f"{member}.example:1", f"client of {member}")

    assert found.departures == {
        "three": [
            of("a", "left"),
            of("b", "processing exceeded max.poll.interval.ms"),
            of("c", "missed the rebalance timeout"),
        ],
        "killed": [of("a", "session timeout")],
        "killed in a rebalance": [of("a", "missed the rebalance timeout")],
        "frozen": [of("a", "session timeout")],
        "commits": [of("a", "left")],
        "long session": [of("a", "left")],
        "waited": [of("a", "left")],
        "static": [of("a-1", "fenced by a static member"), of("a-2", "left")],
        "administered": [of("a", "removed by another client")],
        "unsynced": [of("a", "missed the rebalance timeout")],
        "moved": [of("a", "unknown")],
    }


def test_rebalances_that_waited_name_the_member(found: Found) -> None:
    assert found.waits == {
        "works": [("a", 63.0, "rejoined")],
        "three": [
            ("a", 17.0, "left"),
            ("b", 27.0, "processing exceeded max.poll.interval.ms"),
            ("c", 59.0, "missed the rebalance timeout"),
        ],
    }


def test_group_is_empty_only_after_its_last_member(found: Found) -> None:
    empty = found.empty
    soon = {group for group, times in empty.items() if times[0][0] < END_S - 30}
    # The capture does not show how long this group had a member.
    assert soon - {"elsewhere"} == {
        "frozen", "commits", "long session", "waited", "static", "administered", "unsynced",
        "moved",
    }  # fmt: skip
    assert empty["commits"] == [(60.1,)]
