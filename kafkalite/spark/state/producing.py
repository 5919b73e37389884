"""Transactional producers over time: who became one, and what was written in their name."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.spans import SPAN, span
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kafkalite.spark.requests import Requests

INITS = table(
    "producer_inits",
    "A producer that was given its id and epoch for a transactional id",
    *SPAN,
    ("client", "string", "who asked: host:port"),
    ("client_id", "string", "and by which name"),
    ("transactional_id", "string", "the transactional id"),
    ("timeout_ms", "int", "how long its transactions may stay open"),
    ("asked_producer_id", "bigint", "the producer it goes on as; -1 for a new one"),
    ("producer_id", "bigint", "the producer id it was given"),
    ("producer_epoch", "smallint", "and the epoch"),
)

WRITES = table(
    "transactional_writes",
    "A request made in the name of a transactional id",
    *SPAN,
    ("client", "string", "who sent it: host:port"),
    ("client_id", "string", "and by which name"),
    ("api", "string", "what it was"),
    ("transactional_id", "string", "the transactional id"),
    ("producer_id", "bigint", "the producer id it was made with"),
    ("producer_epoch", "smallint", "and the epoch"),
    ("is_end", "boolean", "whether it ends its transaction"),
    ("is_commit", "boolean", "and that by a commit"),
    ("error", "smallint", "the first error of its answer, 0 for none; null without an answer"),
)

# Where a record batch of format 2 has these, counted from 1, and how many bytes they are.
_PRODUCER_ID_AT, _PRODUCER_EPOCH_AT = (44, 8), (52, 2)


def inits(requests: Requests) -> DataFrame:
    """Return every producer that got its id, as `INITS`."""
    told = requests.of("InitProducerId").where(
        (f.col("response.error_code") == ErrorCode.NONE)
        & f.col("request.transactional_id").isNotNull()
    )
    return INITS.shape(
        told.select(
            *span(),
            "client",
            "client_id",
            "request.transactional_id",
            f.col("request.transaction_timeout_ms").alias("timeout_ms"),
            f.coalesce("request.producer_id", f.lit(-1)).alias("asked_producer_id"),
            "response.producer_id",
            "response.producer_epoch",
        )
    )


def writes(requests: Requests) -> DataFrame:
    """Return everything written in the name of transactional ids, as `WRITES`."""
    kinds = [
        _of(requests, "AddOffsetsToTxn", "response.error_code"),
        _of(requests, "EndTxn", "response.error_code", is_end=True),
        _of(
            requests, "TxnOffsetCommit", _first_error("response.topics", "partitions", "error_code")
        ),
        _added(requests),
        _produced(requests),
    ]
    return reduce(DataFrame.unionByName, (WRITES.shape(kind) for kind in kinds))


def _first_error(topics: str, partitions: str, code: str) -> str:
    """Return SQL for the first error among partitions, 0 for none, null without an answer."""
    codes = f"flatten(transform({topics}, t -> transform(t.{partitions}, p -> p.{code})))"
    return (
        f"case when answered is null then null"
        f" else coalesce(get(filter({codes}, c -> c != 0), 0), 0) end"
    )


def _common(api: str) -> list[Column]:
    return [*span(), f.col("client"), f.col("client_id"), f.lit(api).alias("api")]


def _of(requests: Requests, api: str, error: str, *, is_end: bool = False) -> DataFrame:
    return requests.of(api).select(
        *_common(api),
        "request.transactional_id",
        "request.producer_id",
        "request.producer_epoch",
        f.lit(is_end).alias("is_end"),
        (f.col("request.committed") if is_end else f.lit(None)).alias("is_commit"),
        f.expr(error).alias("error"),
    )


def _added(requests: Requests) -> DataFrame:
    """Tell of AddPartitionsToTxn as clients send it; brokers ask for many at once."""
    error = _first_error(
        "response.results_by_topic_v3_and_below", "results_by_partition", "partition_error_code"
    )
    asked = requests.of("AddPartitionsToTxn").where(
        "request.v3_and_below_transactional_id is not null"
        " and request.v3_and_below_transactional_id != ''"
    )
    return asked.select(
        *_common("AddPartitionsToTxn"),
        f.col("request.v3_and_below_transactional_id").alias("transactional_id"),
        f.col("request.v3_and_below_producer_id").alias("producer_id"),
        f.col("request.v3_and_below_producer_epoch").alias("producer_epoch"),
        f.lit(False).alias("is_end"),
        f.lit(None).alias("is_commit"),
        f.expr(error).alias("error"),
    )


def _produced(requests: Requests) -> DataFrame:
    """Tell of Produce: the producer stands in the head of its batches."""
    records = "get(get(request.topic_data, 0).partition_data, 0).records"

    def number(place: tuple[int, int]) -> str:
        return f"cast(conv(hex(substring({records}, {place[0]}, {place[1]})), 16, -10) as bigint)"

    error = _first_error("response.responses", "partition_responses", "error_code")
    return (
        requests.of("Produce")
        .where("request.transactional_id is not null")
        .select(
            *_common("Produce"),
            "request.transactional_id",
            f.expr(number(_PRODUCER_ID_AT)).alias("producer_id"),
            f.expr(number(_PRODUCER_EPOCH_AT)).alias("producer_epoch"),
            f.lit(False).alias("is_end"),
            f.lit(None).alias("is_commit"),
            f.expr(error).alias("error"),
        )
    )
