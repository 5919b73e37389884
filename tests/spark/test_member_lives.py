"""The audit of members that lived on an Apache Kafka 4.4, with the true cause of each departure."""

from __future__ import annotations

import gzip
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.spark.audits import TABLES, AuditOptions
from kafkalite.lab.spark.pipeline import Job, audit
from tests.captures.member_lives import CAPTURE, SESSION_MS

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def rows_by_table(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Row]]:
    directory = tmp_path_factory.mktemp("member-lives")
    capture = directory / "capture.pcapng"
    capture.write_bytes(gzip.decompress(CAPTURE.read_bytes()))
    out = directory / "out"
    options = AuditOptions(session_timeout_ms=SESSION_MS)
    job = Job(inputs=(str(capture),), out=str(out), audits=("members",), audit_options=options)
    audit(spark, job)
    return {
        name: spark.read.schema(TABLES[name].schema).parquet(str(out / "audits" / name)).collect()
        for name in ("ghosts", "departures", "rebalance_waits")
    }


def test_only_killed_members_are_ghosts(rows_by_table: dict[str, list[Row]]) -> None:
    ghosts = {(row.client_id, row.kind, row.end_reason) for row in rows_by_table["ghosts"]}
    assert ghosts == {
        (client_id, "stopped", "session timeout")
        for client_id in ("classic-killed-b", "consumer-killed-b", "shared-c")
    }
    assert len(rows_by_table["ghosts"]) == len(ghosts)


def test_each_departure_has_its_cause(rows_by_table: dict[str, list[Row]]) -> None:
    causes = Counter((row.client_id, row.cause) for row in rows_by_table["departures"])
    assert causes == {
        # Two of three members left while a rebalance waited; the third missed it.
        ("three-a", "left"): 1,
        ("three-b", "left"): 1,
        ("three-c", "missed the rebalance timeout"): 1,
        ("three-d", "left"): 1,
        # Members that processed a record for longer than a session stayed until they left.
        ("classic-works-a", "left"): 1,
        ("classic-works-b", "left"): 1,
        ("consumer-works-a", "left"): 1,
        ("consumer-works-b", "left"): 1,
        # The heartbeat of the consumer protocol has no reason.
        ("classic-late-a", "processing exceeded max.poll.interval.ms"): 1,
        ("classic-late-a", "left"): 1,
        ("consumer-late-a", "left"): 2,
        ("classic-killed-a", "left"): 1,
        ("classic-killed-b", "session timeout"): 1,
        ("consumer-killed-a", "left"): 1,
        ("consumer-killed-b", "session timeout"): 1,
        ("shared-a", "left"): 1,
        ("shared-b", "left"): 1,
        ("shared-c", "session timeout"): 1,
        # A static member of a classic group closes without LeaveGroup, and returned in time.
        ("consumer-static-a", "left temporarily"): 2,
        ("fenced-a", "fenced by a static member"): 1,
        ("rolling-a", "left"): 2,
        ("rolling-b", "left"): 2,
        ("classic-pauses-a", "left"): 1,
        ("consumer-pauses-a", "left"): 1,
        # It sent commits instead of heartbeats.
        ("commits-a", "left"): 1,
    }


def test_rebalances_waited_for_members_that_processed_records(
    rows_by_table: dict[str, list[Row]],
) -> None:
    waits = {
        (row.group_id, row.client_id, round(row.seconds), row.outcome)
        for row in rows_by_table["rebalance_waits"]
    }
    assert waits == {
        ("classic-works", "classic-works-a", 10, "rejoined"),
        ("three", "three-a", 5, "left"),
        ("three", "three-b", 5, "left"),
        ("three", "three-c", 6, "missed the rebalance timeout"),
    }
