"""The audits of a capture with planted facts find exactly what was written down before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from kafkalite.lab.spark.audits import AuditOptions
from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.pipeline import Job, audit
from kafkalite.protocol.error_codes import ErrorCode
from tests.captures.facts import CAPTURE, FINDINGS, RETENTION_MIN, UNDECIDABLE

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("facts") / "out"
    options = AuditOptions(retention_ms=RETENTION_MIN * 60_000)
    with local_engine() as session:
        audit(session, Job(inputs=(str(CAPTURE),), out=str(directory), audit_options=options))
    return directory


def rows_of(out: Path, table: str) -> list[dict[str, Any]]:
    paths = (out / "audits" / table).glob("*.parquet")
    rows: list[dict[str, Any]] = pa.concat_tables(map(parquet.read_table, paths)).to_pylist()
    return rows


def facts_of(out: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = [tuple(row[name] for name in columns) for row in rows_of(out, table)]
    return sorted(rows, key=repr)


def test_the_records(out: Path) -> None:
    columns = ("severity", "rule", "cause", "records", "topic", "group_id")
    expected = [(each.severity.value, *each[1:]) for each in FINDINGS]
    assert facts_of(out, "record_findings", *columns) == sorted(expected, key=repr)
    assert [reason for (reason,) in facts_of(out, "undecidable", "reason")] == [UNDECIDABLE]


def test_commits_that_were_refused(out: Path) -> None:
    unknown, stale = int(ErrorCode.UNKNOWN_MEMBER_ID), int(ErrorCode.STALE_MEMBER_EPOCH)
    columns = ("group_id", "classification", "error", "broker_decision", "committed_offset")
    assert facts_of(out, "fencing_cases", *columns) == [
        ("halvers", "still owned", stale, "refuse", 5),
        ("halvers", "zombie", stale, "refuse", 5),
        # Its member had left, but another member has the partition, so it is one of a zombie.
        ("leavers", "zombie", unknown, "refuse", 5),
    ]


def test_a_takeover_and_the_write_of_the_fenced_producer(out: Path) -> None:
    fences = facts_of(out, "producer_fences", "transactional_id", "kind")
    assert fences == [
        ("aborted-payments", "first"),
        ("ended-payments", "first"),
        ("fenced-payments", "first"),
        ("fenced-payments", "takeover"),
    ]
    columns = ("transactional_id", "api", "error", "outcome")
    code = int(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert facts_of(out, "zombie_writes", *columns) == [
        ("fenced-payments", "Produce", code, "refused")
    ]


def test_transactions_and_the_aborted_one(out: Path) -> None:
    assert facts_of(out, "transactions", "transactional_id", "outcome") == [
        ("aborted-payments", "aborted"),
        *[("ended-payments", "committed")] * 2,
        *[("fenced-payments", "committed")] * 2,
    ]


def test_a_reset_that_skips_45_records(out: Path) -> None:
    columns = (
        "client_id", "topic", "fetch_offset", "cause", "reset_policy", "reset_to", "records_skipped"
    )  # fmt: skip
    assert facts_of(out, "offset_resets", *columns) == [
        ("late-skipper", "skipped", 5, "deleted", "latest", 50, 45)
    ]


def test_an_offset_that_expired_before_its_group_returned(out: Path) -> None:
    columns = ("group_id", "topic", "committed_offset", "outcome", "was_missing")
    expired = [row for row in facts_of(out, "offset_expiry", *columns) if row[3] != "at risk"]
    assert expired == [("sleepers", "slept", 5, "lost", True)]


def test_a_group_that_lags(out: Path) -> None:
    columns = ("group_id", "topic", "committed_offset", "high_watermark", "lag")
    lags = [row for row in facts_of(out, "consumer_lag", *columns) if row[0] == "laggards"]
    assert lags == [("laggards", "slow", 30, 100, 70)]


def test_the_members_that_did_not_leave(out: Path) -> None:
    columns = ("client_id", "cause")
    unplanned = [row for row in facts_of(out, "departures", *columns) if row[1] != "left"]
    assert unplanned == [("dead", "session timeout")]
    assert facts_of(out, "ghosts", "client_id", "partitions_owned") == [("dead", 1)]


def test_a_topic_that_was_created_again_and_no_stale_metadata(out: Path) -> None:
    assert facts_of(out, "recreated_topics", "topic") == [("recreated",)]
    for table in ("stale_metadata", "leader_epoch_errors", "outdated_partition_epochs"):
        assert rows_of(out, table) == []


def test_the_report_begins_with_the_serious_sections(out: Path) -> None:
    report = json.loads((out / "report.json").read_text())
    tones = {each["name"]: each["tone"] for each in report["sections"]}
    assert {name for name, tone in tones.items() if tone == "bad"} == {"records", "offsets"}
    assert report["sections"][0]["headline"].startswith("5 violations, 2 warnings")
