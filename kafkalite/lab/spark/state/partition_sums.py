"""Bytes and high watermarks of partitions in Produce and Fetch, computed where they are read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.stages.projection import (
    Partitions,
    Projection,
    flatten_partitions,
    header_numbers,
    is_valid,
    row_codes,
)
from kafkalite.lab.spark.state.buckets import bucket_us_of_part
from kafkalite.lab.spark.state.tables import table
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

    Ints = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

PARTITION_SUMS = table(
    "partition_sums",
    "Records of a partition that were written and read in a bucket of time",
    ("topic", "string", "the topic's name; null in versions without"),
    ("topic_id", "string", "its id in hex; null in versions without"),
    ("partition", "int", "the partition"),
    ("bucket_us", "bigint", "start of the bucket in microseconds since the Unix epoch"),
    ("bytes_in", "bigint", "bytes of records written; null for none"),
    ("bytes_out", "bigint", "bytes of records read; null for none"),
    ("high_watermark", "bigint", "the highest high watermark in a response; null for none"),
)

_BY: Final = ("topic", "topic_id", "partition", "bucket_us")
_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.binary()),
        ("partition", pa.int32()),
        *((column.name, pa.int64()) for column in PARTITION_SUMS.columns[3:]),
    ]
)


def partition_sums(requests: Requests, bucket_us: int) -> DataFrame:
    """Return the sums of all Produce and Fetch requests, as `PARTITION_SUMS`."""
    return _sum_up(requests, PARTITION_SUMS.name, bucket_us)


def partition_sums_by_time(requests: Requests) -> DataFrame:
    """Return the sums for each microsecond, as `PARTITION_SUMS`."""
    return _sum_up(requests, "", 1)


def partition_sum_reductions(max_bucket_us: int) -> list[Projection]:
    """Return the projections of `partition_sums` before the length of a bucket is known."""
    return _projections(
        PARTITION_SUMS.name, lambda reduce_rows: partial(sum_part, reduce_rows, max_bucket_us)
    )


def _projections(
    name: str,
    in_buckets: Callable[[Callable[..., pa.Table]], Callable[[pa.Table], pa.Table]],
) -> list[Projection]:
    return [
        Projection(
            name=name,
            api_key=int(key),
            fields=fields,
            reduce_rows=in_buckets(reduce_rows),
            schema=_SCHEMA,
        )
        for key, fields, reduce_rows in (
            (ApiKey.PRODUCE, _PRODUCE_FIELDS, sum_produced),
            (ApiKey.FETCH, _FETCH_FIELDS, sum_fetched),
        )
    ]


def sum_part(reduce_rows: Callable[..., pa.Table], max_bucket_us: int, rows: pa.Table) -> pa.Table:
    """Return the sums over some requests, in buckets that divide those of the capture."""
    return reduce_rows(rows, bucket_us=bucket_us_of_part(rows, max_bucket_us))


def _sum_up(requests: Requests, name: str, bucket_us: int) -> DataFrame:
    produced, fetched = map(
        requests.project,
        _projections(name, lambda reduce_rows: partial(reduce_rows, bucket_us=bucket_us)),
    )
    start = f.col("bucket_us") - f.col("bucket_us") % bucket_us
    rows = produced.unionByName(fetched).withColumns(
        {"topic_id": f.hex("topic_id"), "bucket_us": start}
    )
    return PARTITION_SUMS.shape(
        rows.groupBy(*_BY).agg(
            *(f.sum(name).alias(name) for name in ("bytes_in", "bytes_out")),
            f.max("high_watermark").alias("high_watermark"),
        )
    )


_PRODUCE_FIELDS: Final = {"written": "request.topic_data", "answers": "response.responses"}
_FETCH_FIELDS: Final = {"read": "response.responses"}


def sum_produced(rows: pa.Table, bucket_us: int) -> pa.Table:
    """Return the sums of Produce requests; a watermark is the base offset plus the records."""
    written = flatten_partitions(rows["written"], "partition_data")
    answered = flatten_partitions(rows["answers"], "partition_responses")
    answer, is_answered = _find_answers(written, answered)
    is_accepted = is_answered & is_valid(rows["end_us"])[written.row]
    code, base_offset = (
        np.append(_ints(answered.partition, name), -1)[answer]
        for name in ("error_code", "base_offset")
    )
    count, is_counted = header_numbers(
        pc.struct_field(written.partition, "records"), "record_count"
    )
    is_known = is_accepted & is_counted & (code == int(ErrorCode.NONE)) & (base_offset >= 0)
    return _sum(
        rows,
        written,
        written.of_topic("name"),
        pc.struct_field(written.partition, "index"),
        bucket_us,
        bytes_column="bytes_in",
        high_watermark=pa.array(base_offset + count, mask=~is_known),
    )


def sum_fetched(rows: pa.Table, bucket_us: int) -> pa.Table:
    """Return the sums of Fetch responses."""
    read = flatten_partitions(rows["read"], "partitions")
    code, high_watermark = (
        _ints(read.partition, name) for name in ("error_code", "high_watermark")
    )
    is_known = (
        is_valid(rows["end_us"])[read.row] & (code == int(ErrorCode.NONE)) & (high_watermark >= 0)
    )
    return _sum(
        rows,
        read,
        read.of_topic("topic"),
        pc.struct_field(read.partition, "partition_index"),
        bucket_us,
        bytes_column="bytes_out",
        high_watermark=pa.array(high_watermark, mask=~is_known),
    )


def _find_answers(written: Partitions, answered: Partitions) -> tuple[Ints, Bools]:
    """Return the index of the answer to each written partition, and a mask of those with one.

    It is the first answer to the partition in the topic at the same position.
    """
    if not len(answered.partition):
        return np.zeros(len(written.row), np.int64), np.zeros(len(written.row), np.bool_)
    topic_count = 1 + max(written.number.max(initial=0), answered.number.max(initial=0))
    codes = [
        (each.row * topic_count + each.number) << 32 | _ints(each.partition, "index") & 0xFFFFFFFF
        for each in (written, answered)
    ]
    order = np.argsort(codes[1], kind="stable")
    found = np.searchsorted(codes[1], codes[0], sorter=order)
    found = order[np.minimum(found, len(order) - 1)]
    return found, codes[1][found] == codes[0]


def _ints(structs: Any, name: str) -> Ints:  # noqa: ANN401 - a struct array
    """Return a field as integers; -1 for null."""
    return np.asarray(pc.fill_null(pc.cast(pc.struct_field(structs, name), pa.int64()), -1))


def _sum(
    rows: pa.Table,
    partitions: Partitions,
    topic: pa.Array,
    partition: pa.Array,
    bucket_us: int,
    *,
    bytes_column: str,
    high_watermark: pa.Array,
) -> pa.Table:
    at_us = np.asarray(pc.coalesce(rows["end_us"], rows["start_us"]))[partitions.row]
    size = pc.binary_length(pc.struct_field(partitions.partition, "records"))
    by_partition = pa.table(
        {
            "topic": topic,
            "topic_id": pc.cast(partitions.of_topic("topic_id"), pa.binary()),
            "partition": partition,
            "bucket_us": at_us - at_us % bucket_us,
            bytes_column: pc.cast(size, pa.int64()),
            "high_watermark": high_watermark,
        }
    )
    if not by_partition.num_rows:
        return _SCHEMA.empty_table()
    codes = row_codes(by_partition, _BY)
    sums = (
        by_partition.select([bytes_column, "high_watermark"])
        .append_column("code", pa.array(codes))
        .append_column("row", pa.array(np.arange(len(codes))))
        .group_by("code", use_threads=False)
        .aggregate([(bytes_column, "sum"), ("high_watermark", "max"), ("row", "min")])
    )
    columns = {name: by_partition[name].take(sums["row_min"]) for name in _BY}
    columns |= dict.fromkeys(("bytes_in", "bytes_out"), pa.nulls(len(sums), pa.int64()))
    columns |= {
        bytes_column: sums[f"{bytes_column}_sum"],
        "high_watermark": sums["high_watermark_max"],
    }
    return pa.table(columns)
