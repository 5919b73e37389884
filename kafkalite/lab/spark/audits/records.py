"""What became of records: the rules of `kafkalite check`, over captures of any size."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkalite.lab.spark.audits.contract import Audit, AuditOptions
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import shared, to_schema
from kafkalite.lab.spark.state.checked_records import (
    ACKNOWLEDGED,
    CHECKED_RECORDS,
    DELIVERY,
    FINDING,
    UNDECIDABLE,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

_PROOFS: Final = (
    "array<struct<file: string, offset: bigint, connection: string, request: bigint,"
    " correlation_id: int>>"
)

FINDINGS = table(
    "record_findings",
    "An anomaly: records that were lost, doubled, reordered, torn or read although aborted",
    ("severity", "string", "violation, warning or note"),
    ("rule", "string", "the rule, as in `kafkalite check`"),
    ("cause", "string", "the cause"),
    ("text", "string", "one sentence that names the records, the cause and the client"),
    ("topic", "string", "the topic"),
    ("partition", "int", "the partition"),
    ("incarnation", "int", "number of topics of this name that were deleted before"),
    ("first_offset", "bigint", "the first offset"),
    ("last_offset", "bigint", "the last offset"),
    ("records", "bigint", "number of records that are concerned"),
    ("group_id", "string", "the group"),
    ("transactional_id", "string", "the transactional id"),
    ("client_id", "string", "id of the client that caused it"),
    ("host", "string", "address of the client that caused it"),
    (
        "proofs",
        _PROOFS,
        "the requests that prove it: file, packet, connection, number from 0, correlation id",
    ),
)

CAUSES = table(
    "record_causes",
    "The findings of one rule and cause because of one client",
    ("severity", "string", "violation, warning or note"),
    ("rule", "string", "the rule"),
    ("cause", "string", "the cause"),
    ("client_id", "string", "id of the client that caused them"),
    ("host", "string", "address of the client that caused them"),
    ("findings", "bigint", "number of findings"),
    ("records", "bigint", "number of records in them"),
    ("share", "double", "these records as a share of those that the rule found"),
)

ACKNOWLEDGED_BATCHES = table(
    "acknowledged",
    "A batch of records that a broker acknowledged to a producer",
    ("at", "timestamp", "time of the Produce request"),
    ("topic", "string", "the topic"),
    ("partition", "int", "the partition"),
    ("incarnation", "int", "number of topics of this name that were deleted before"),
    ("first_offset", "bigint", "offset of the first record"),
    ("last_offset", "bigint", "offset of the last record"),
    ("records", "bigint", "number of records"),
    ("producer_id", "bigint", "the producer id; null without idempotence"),
    ("producer_epoch", "int", "the producer epoch"),
    ("base_sequence", "int", "sequence number of the first record"),
    ("transactional_id", "string", "the transactional id"),
    ("client_id", "string", "the client id"),
    ("host", "string", "the client's address"),
    ("file", "string", "the capture file"),
    ("offset", "bigint", "file offset of the packet in which the request begins"),
    times=("at",),
)

DELIVERIES = table(
    "deliveries",
    "A batch of records in an answer to a consumer",
    ("at", "timestamp", "time of the request"),
    ("topic", "string", "the topic"),
    ("partition", "int", "the partition"),
    ("incarnation", "int", "number of topics of this name that were deleted before"),
    ("first_offset", "bigint", "the first offset that the consumer asked for in the batch"),
    ("last_offset", "bigint", "offset of the last record"),
    ("isolation_level", "string", "read_committed or read_uncommitted"),
    ("is_aborted", "boolean", "whether the answer lists its transaction as aborted"),
    ("group_id", "string", "the group; null if it is not clear"),
    ("member_id", "string", "the member; null if it is not clear"),
    ("client_id", "string", "the client id"),
    ("host", "string", "the client's address"),
    ("file", "string", "the capture file"),
    ("offset", "bigint", "file offset of the packet in which the request begins"),
    times=("at",),
)

UNDECIDED = table(
    "undecidable",
    "What the capture does not decide",
    ("reason", "string", "what the capture lacks"),
    ("count", "bigint", "how often"),
)

_REQUEST: Final = ("connection", "offset", "correlation_id")


def records(requests: Requests, _: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    checked = requests.state(CHECKED_RECORDS.name)
    found = shared(findings(requests, checked))
    return {
        FINDINGS.name: found,
        CAUSES.name: causes(found),
        ACKNOWLEDGED_BATCHES.name: ACKNOWLEDGED_BATCHES.shape(
            checked.where(f.col("kind") == ACKNOWLEDGED)
        ),
        DELIVERIES.name: DELIVERIES.shape(checked.where(f.col("kind") == DELIVERY)),
        UNDECIDED.name: UNDECIDED.shape(
            checked.where(f.col("kind") == UNDECIDABLE)
            .groupBy(f.col("rule").alias("reason"))
            .agg(f.sum("records").alias("count"))
        ),
    }


def findings(requests: Requests, checked: DataFrame) -> DataFrame:
    """Return what the rules found, as `FINDINGS`.

    A shard does not know the number of a request in its connection, because it has not all of them.
    """
    found = checked.where(f.col("kind") == FINDING)
    numbers = _request_numbers(requests, found)
    columns = [each.name for each in FINDINGS.columns]
    schema = FINDINGS.arrow_schema
    numbered = (
        found.select(*columns)
        .distinct()
        .mapInArrow(partial(with_numbers, numbers=numbers, schema=schema), to_schema(schema))
    )
    return FINDINGS.shape(numbered)


def _request_numbers(requests: Requests, found: DataFrame) -> dict[tuple[int, int, int], int]:
    """Return the numbers of the requests in proofs, by connection, packet and correlation id."""
    needed = (
        found.select(f.explode("proofs").alias("proof"))
        .select(
            f.col("proof.connection_id").alias("connection"),
            f.col("proof.offset").alias("offset"),
            f.col("proof.correlation_id").cast("int").alias("correlation_id"),
        )
        .distinct()
    )
    connections = f.broadcast(needed.select("connection").distinct())
    order = ordered_rows(("connection",), ("ts", "offset", "correlation_id"))
    numbered = (
        requests.window.envelopes()
        .join(connections, "connection", "semi")
        .select(*_REQUEST, f.row_number().over(order).alias("number"))
        .join(f.broadcast(needed), list(_REQUEST), "semi")
    )
    return {
        (row.connection, row.offset, row.correlation_id): row.number - 1
        for row in numbered.collect()
    }


def with_numbers(
    batches: Iterable[pa.RecordBatch],
    numbers: Mapping[tuple[int, int, int], int],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Replace correlation ids in the proofs of findings by numbers of requests."""
    for batch in batches:
        rows = batch.to_pylist()
        for row in rows:
            row["proofs"] = [_numbered(each, numbers) for each in row["proofs"]]
        yield pa.RecordBatch.from_pylist(rows, schema)


def _numbered(
    proof: Mapping[str, Any], numbers: Mapping[tuple[int, int, int], int]
) -> dict[str, Any]:
    key = proof["connection_id"], proof["offset"], proof["correlation_id"]
    return {
        "file": proof["file"],
        "offset": proof["offset"],
        "connection": proof["connection"],
        "request": numbers.get(key),
        "correlation_id": proof["correlation_id"],
    }


def causes(found: DataFrame) -> DataFrame:
    """Return the findings by cause and client, with shares of the records, as `CAUSES`."""
    by = ("severity", "rule", "cause", "client_id", "host")
    sums = found.groupBy(*by).agg(
        f.count(f.lit(1)).alias("findings"), f.sum("records").alias("records")
    )
    totals = found.groupBy(f.col("rule").alias("of_rule")).agg(f.sum("records").alias("total"))
    share = f.try_divide(f.col("records").cast("double"), f.col("total"))
    return CAUSES.shape(
        sums.join(f.broadcast(totals), f.col("rule") == f.col("of_rule")).withColumn("share", share)
    )


RECORDS = Audit(
    "records",
    "what became of records: lost, doubled, reordered, torn, or read although aborted",
    (FINDINGS, CAUSES, ACKNOWLEDGED_BATCHES, DELIVERIES, UNDECIDED),
    records,
    (CHECKED_RECORDS.name,),
)
"""The audit `records`."""
