"""The check of one shard, as a table."""

from __future__ import annotations

import marshal
from random import Random
from typing import Any

import pyarrow as pa

from kafkalite.lab.checker.check import check
from kafkalite.lab.checker.findings import Severity
from kafkalite.lab.checker.history import Loss, Proof
from kafkalite.lab.checker.losses import LOST_BYTES
from kafkalite.lab.checker.pieces import Target
from kafkalite.lab.spark.state.checked_records import (
    ACKNOWLEDGED,
    CHECKED_RECORDS,
    DELIVERY,
    FINDING,
    UNDECIDABLE,
    check_pieces,
)
from kafkalite.lab.spark.state.pieces import PIECES
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND
from tests.unit.lab.checker.planted import PLANTED
from tests.unit.lab.checker.regular_traffic import run_regular_traffic
from tests.unit.lab.checker.simulation import SimulatedCluster
from tests.unit.lab.checker.test_pieces import RecordingCollector, placed


def shard_of(collector: RecordingCollector) -> pa.Table:
    """Return all pieces that a shard of all partitions has."""
    rows: list[dict[str, Any]] = []
    for observation in collector.observations:
        event = observation.event
        assert isinstance(event.proof, Proof)
        rows += (
            {
                "api_key": observation.api_key,
                "start_us": event.sent_ns // NANOSECONDS_PER_MICROSECOND,
                "end_us": event.answered_ns and event.answered_ns // NANOSECONDS_PER_MICROSECOND,
                "connection": event.connection,
                "position": event.proof.offset,
                "correlation_id": event.proof.request,
                "client": f"{event.client.host}:1",
                "client_id": event.client.id,
                "broker": event.broker,
                "file": event.proof.file,
                "payload": marshal.dumps((in_shard.request, in_shard.response)),
                "first_us": event.connection,
                "shard": 0,
            }
            for piece, in_shard in placed(observation)
            if piece.target is not Target.PRODUCER
        )
    schema = PIECES.append(pa.field("first_us", pa.int64())).append(pa.field("shard", pa.int64()))
    return pa.Table.from_pylist(rows, schema)


def test_a_shard_has_findings_and_all_batches() -> None:
    cluster = SimulatedCluster()
    collector = cluster.collector = RecordingCollector()
    random = Random(3)  # noqa: S311 - repeatable
    run_regular_traffic(cluster, random, steps=4)
    PLANTED[0](cluster, random)
    result = check(cluster.history())
    rows = check_pieces(shard_of(collector))
    assert rows.column_names == [each.name for each in CHECKED_RECORDS.columns]
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist():
        by_kind.setdefault(row["kind"], []).append(row)
    assert sum(row["records"] for row in by_kind[ACKNOWLEDGED]) == result.acknowledged
    assert (
        sum(row["last_offset"] - row["first_offset"] + 1 for row in by_kind[DELIVERY])
        == result.delivered
    )
    assert by_kind[FINDING]
    assert {row["text"] for row in by_kind[FINDING]} <= {each.text for each in result.findings}


def test_findings_that_lost_bytes_may_explain_are_undecidable() -> None:
    cluster = SimulatedCluster()
    collector = cluster.collector = RecordingCollector()
    PLANTED[0](cluster, Random(3))  # noqa: S311 - repeatable
    shard = shard_of(collector)
    certain = {row["severity"] for row in of_kind(check_pieces(shard), FINDING)}
    assert Severity.VIOLATION.value in certain
    lossy = check_pieces(shard, [Loss(0, 1 << 62)])
    assert {row["severity"] for row in of_kind(lossy, FINDING)} <= {Severity.NOTE.value}
    (undecidable,) = (row for row in of_kind(lossy, UNDECIDABLE) if LOST_BYTES in row["rule"])
    assert undecidable["records"] == 1


def of_kind(rows: pa.Table, kind: str) -> list[dict[str, Any]]:
    return [row for row in rows.to_pylist() if row["kind"] == kind]
