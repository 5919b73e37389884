"""Transactional producers over time: InitProducerId, and requests with a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.requests import api_key
from kafkalite.lab.spark.stages.projection import (
    Projection,
    column_types,
    first_elements,
    flatten_partitions,
    header_numbers,
    is_valid,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.timing import TIME_COLUMNS, time_columns
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

INITS = table(
    "producer_inits",
    "A producer that received its id and epoch for a transactional id",
    *TIME_COLUMNS,
    ("client", "string", "the client: host:port"),
    ("client_id", "string", "the client id"),
    ("transactional_id", "string", "the transactional id"),
    ("timeout_ms", "int", "transaction timeout"),
    ("request_producer_id", "bigint", "producer id in the request; -1 for a new producer"),
    ("producer_id", "bigint", "producer id in the response"),
    ("producer_epoch", "smallint", "producer epoch in the response"),
)

WRITES = table(
    "transactional_writes",
    "A request with a transactional id",
    *TIME_COLUMNS,
    ("client", "string", "the client: host:port"),
    ("client_id", "string", "the client id"),
    ("api", "string", "API of the request"),
    ("transactional_id", "string", "the transactional id"),
    ("producer_id", "bigint", "producer id of the request"),
    ("producer_epoch", "smallint", "producer epoch of the request"),
    ("is_end", "boolean", "whether it ends its transaction"),
    ("is_commit", "boolean", "whether it commits its transaction"),
    ("error", "smallint", "first error of the response, 0 for none; null without a response"),
)


def inits(requests: Requests) -> DataFrame:
    """Return every successful InitProducerId with a transactional id, as `INITS`."""
    accepted = requests.of("InitProducerId").where(
        (f.col("response.error_code") == ErrorCode.NONE)
        & f.col("request.transactional_id").isNotNull()
    )
    return INITS.shape(
        accepted.select(
            *time_columns(),
            "client",
            "client_id",
            "request.transactional_id",
            f.col("request.transaction_timeout_ms").alias("timeout_ms"),
            f.coalesce("request.producer_id", f.lit(-1)).alias("request_producer_id"),
            "response.producer_id",
            "response.producer_epoch",
        )
    )


def writes(requests: Requests) -> DataFrame:
    """Return every request with a transactional id that writes or ends, as `WRITES`."""
    kinds = [
        _requests_of(requests, "AddOffsetsToTxn", "response.error_code"),
        _requests_of(requests, "EndTxn", "response.error_code", is_end=True),
        _requests_of(
            requests, "TxnOffsetCommit", _first_error("response.topics", "partitions", "error_code")
        ),
        _add_partitions_requests(requests),
        _produce_requests(requests),
    ]
    return union(WRITES.shape(kind) for kind in kinds)


def _first_error(topics: str, partitions: str, code: str) -> str:
    """Return SQL for the first error among partitions, 0 for none, null without an answer."""
    codes = f"flatten(transform({topics}, t -> transform(t.{partitions}, p -> p.{code})))"
    return (
        f"case when response_ts is null then null"
        f" else coalesce(get(filter({codes}, c -> c != 0), 0), 0) end"
    )


def _common_columns(api: str) -> list[Column]:
    return [*time_columns(), f.col("client"), f.col("client_id"), f.lit(api).alias("api")]


def _requests_of(requests: Requests, api: str, error: str, *, is_end: bool = False) -> DataFrame:
    return requests.of(api).select(
        *_common_columns(api),
        "request.transactional_id",
        "request.producer_id",
        "request.producer_epoch",
        f.lit(is_end).alias("is_end"),
        (f.col("request.committed") if is_end else f.lit(None)).alias("is_commit"),
        f.expr(error).alias("error"),
    )


def _add_partitions_requests(requests: Requests) -> DataFrame:
    """Return AddPartitionsToTxn requests of clients; brokers use other fields."""
    error = _first_error(
        "response.results_by_topic_v3_and_below", "results_by_partition", "partition_error_code"
    )
    client_requests = requests.of("AddPartitionsToTxn").where(
        "request.v3_and_below_transactional_id is not null"
        " and request.v3_and_below_transactional_id != ''"
    )
    return client_requests.select(
        *_common_columns("AddPartitionsToTxn"),
        f.col("request.v3_and_below_transactional_id").alias("transactional_id"),
        f.col("request.v3_and_below_producer_id").alias("producer_id"),
        f.col("request.v3_and_below_producer_epoch").alias("producer_epoch"),
        f.lit(False).alias("is_end"),
        f.lit(None).alias("is_commit"),
        f.expr(error).alias("error"),
    )


def _produce_requests(requests: Requests) -> DataFrame:
    """Return Produce requests, with the producer from the header of their first batch."""
    return requests.project(transactional_produce()).withColumns(
        {"api": f.lit("Produce"), "is_end": f.lit(False), "is_commit": f.lit(None)}
    )


def transactional_produce() -> Projection:
    """Return the projection of Produce requests with a transactional id."""
    key = api_key("Produce")
    kinds = column_types(key, _PRODUCE_FIELDS)
    return Projection(
        name=WRITES.name,
        api_key=key,
        fields=_PRODUCE_FIELDS,
        reduce_rows=transactional_writes,
        schema=pa.schema(
            [
                *((name, kind) for name, kind in kinds.items() if name not in _PRODUCE_LISTS),
                ("producer_id", pa.int64()),
                ("producer_epoch", pa.int16()),
                ("error", pa.int16()),
            ]
        ),
    )


_PRODUCE_LISTS: Final = {"written": "request.topic_data", "answers": "response.responses"}
_PRODUCE_FIELDS: Final = {
    "client": "client",
    "client_id": "client_id",
    "transactional_id": "request.transactional_id",
    **_PRODUCE_LISTS,
}


def transactional_writes(rows: pa.Table) -> pa.Table:
    """Select Produce requests with a transactional id; add the producer and the first error."""
    rows = rows.filter(pc.is_valid(rows["transactional_id"]))
    partitions = pc.struct_field(first_elements(rows["written"]), "partition_data")
    records = pc.struct_field(first_elements(partitions), "records")
    answered = flatten_partitions(rows["answers"], "partition_responses")
    code = np.asarray(pc.fill_null(pc.struct_field(answered.partition, "error_code"), 0))
    refused, first = np.unique(answered.row[code != 0], return_index=True)
    error = np.zeros(len(rows), np.int16)
    error[refused] = code[code != 0][first]
    return (
        rows.drop_columns([*_PRODUCE_LISTS])
        .append_column("producer_id", _number(records, "producer_id"))
        .append_column("producer_epoch", _number(records, "producer_epoch"))
        .append_column("error", pa.array(error, mask=~is_valid(rows["end_us"])))
    )


def _number(records: pa.BinaryArray, field: str) -> pa.Array:
    """Return a field in the headers of batches; null for a batch without it."""
    numbers, has_field = header_numbers(records, field)
    return pa.array(numbers, mask=~has_field)
