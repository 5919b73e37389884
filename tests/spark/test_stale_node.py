"""The audit of a recorded cluster with partition epochs, one of whose nodes had old metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from kafkalite.lab.spark.audits import TABLES
from kafkalite.lab.spark.pipeline import Job, audit
from tests.captures.stale_node import GROUP, ORDERS, PLACES, record_stale_node

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from tests.captures.stale_node import Recorded

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


class Audited(NamedTuple):
    """A capture, and the tables and the report of its audit."""

    recorded: Recorded
    rows: dict[str, list[Row]]
    report: str


@pytest.fixture(scope="module")
def audited(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    directory = tmp_path_factory.mktemp("stale-node")
    recorded = record_stale_node(directory / "capture")
    out = directory / "out"
    audit(spark, Job(inputs=(str(directory / "capture"),), out=str(out), audits=("metadata",)))
    rows = {
        name: spark.read.schema(TABLES[name].schema).parquet(str(out / "audits" / name)).collect()
        for name in ("stale_metadata", "recreated_topics", "outdated_partition_epochs")
    }
    return Audited(recorded, rows, (out / "report.html").read_text())


def test_stale_responses_are_found_by_each_epoch(audited: Audited) -> None:
    live, stale, old, new = audited.recorded
    broker = str(stale.brokers[3])
    rows = audited.rows["stale_metadata"]
    assert {row.broker for row in rows} == {broker}
    assert {row.evidence for row in rows} == {"client"}
    found = {
        row.kind: (row.topic, row.partition, row.received_epoch, row.known_epoch) for row in rows
    }
    assert len(found) == len(rows)
    assert found == {
        # The leader epoch of the deleted topic may be larger: only the partition epoch counts.
        "partition epoch": (ORDERS.topic, 0, old.partition_epoch, new.partition_epoch),
        "leader epoch": (
            PLACES.topic,
            0,
            stale.partitions[PLACES].leader_epoch,
            live.partitions[PLACES].leader_epoch,
        ),
        # This response is about another topic than that which was created again.
        "maximum partition epoch": (
            None,
            None,
            stale.max_partition_epoch,
            new.partition_epoch,
        ),
    }
    assert all(row.known_since < row.at for row in rows)


def test_a_topic_is_recreated_between_two_responses(audited: Audited) -> None:
    live, stale, old, new = audited.recorded
    (row,) = audited.rows["recreated_topics"]
    assert (row.topic, row.previous_partition_epoch, row.partition_epoch) == (
        ORDERS.topic, old.partition_epoch, new.partition_epoch,
    )  # fmt: skip
    assert row.previous_topic_id == stale.partitions[ORDERS].topic_id.hex().upper()
    assert row.topic_id == live.partitions[ORDERS].topic_id.hex().upper()
    assert row.last_seen_at < row.first_seen_at


def test_requests_with_old_epochs_are_found_with_their_refusals(audited: Audited) -> None:
    _, _, old, new = audited.recorded
    found = {
        row.api: (row.group_id, row.topic, row.sent_partition_epoch, row.known_partition_epoch,
                  row.current_partition_epoch, row.error)
        for row in audited.rows["outdated_partition_epochs"]
    }  # fmt: skip
    epochs = (old.partition_epoch, new.partition_epoch, new.partition_epoch)
    assert found == {
        "Fetch": (None, ORDERS.topic, *epochs, "INVALID_PARTITION_EPOCH"),
        "OffsetCommit": (GROUP, ORDERS.topic, *epochs, "INVALID_PARTITION_EPOCH"),
    }


def test_the_report_shows_them(audited: Audited) -> None:
    assert "2 partitions in requests had outdated epochs; brokers accepted 0." in audited.report
    assert "Topics that were deleted and created again" in audited.report
