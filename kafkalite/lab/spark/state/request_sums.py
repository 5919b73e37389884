"""Sums over all requests, by API and time and by client, computed where the requests are read.

A latency is counted to four significant digits, so that there are few different ones, and the sums
of several tasks give the same percentiles as those of one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.dataframes import Window
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.stages.projection import Projection
from kafkalite.lab.spark.state.buckets import bucket_us_of_part
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

BY_TIME: Final = "time"
BY_CLIENT: Final = "client"
BY_CONNECTION: Final = "connection"

REQUEST_SUMS = table(
    "request_sums",
    "Requests with equal values of some columns; columns that do not apply are null",
    (
        "kind",
        "string",
        (
            "time: sums by API, bucket and latency; client: by client and latency; connection: by"
            " client and connection"
        ),
    ),
    ("api_key", "smallint", "the API"),
    ("bucket_us", "bigint", "start of the bucket in microseconds since the Unix epoch"),
    ("host", "string", "the client's address"),
    ("client_id", "string", "the client id"),
    ("connection", "bigint", "number of the connection"),
    (
        "latency_us",
        "bigint",
        (
            "the latency to four significant digits; null without a response, and for long polls"
            " of a client"
        ),
    ),
    ("requests", "bigint", "number of requests"),
    ("unanswered", "bigint", "of these, requests without a response"),
    ("bytes_in", "bigint", "bytes of requests"),
    ("bytes_out", "bigint", "bytes of responses"),
    ("max_latency_us", "bigint", "the longest latency"),
)

LONG_POLLS: Final = (ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
"""Long polls: they wait for data or other members, so latency does not show the broker's speed."""

_FIELDS: Final = {
    name: name
    for name in ("api_key", "client", "client_id", "latency_us", "request_bytes", "response_bytes")
}
_SCHEMA: Final = pa.schema(
    [
        ("kind", pa.string()),
        ("api_key", pa.int16()),
        ("bucket_us", pa.int64()),
        ("host", pa.string()),
        ("client_id", pa.string()),
        *((column.name, pa.int64()) for column in REQUEST_SUMS.columns[5:]),
    ]
)
_EXACT_LATENCY: Final = 10_000
"""Latencies below this, in microseconds, have four digits."""
_ROUNDING_LIMITS: Final = _EXACT_LATENCY * 10 ** np.arange(14, dtype=np.int64)


def request_sums(requests: Requests, bucket_us: int) -> DataFrame:
    """Return the sums over all requests, as `REQUEST_SUMS`; each task has its own sums."""
    sums = requests.window.project(_projection(partial(sum_requests, bucket_us=bucket_us)))
    start = f.col("bucket_us") - f.col("bucket_us") % bucket_us
    return REQUEST_SUMS.shape(sums.withColumn("bucket_us", start))


def request_sum_reductions(max_bucket_us: int) -> list[Projection]:
    """Return the projection of `request_sums` before the length of a bucket is known."""
    return [_projection(partial(sum_part, max_bucket_us=max_bucket_us))]


def _projection(reduce_rows: Callable[[pa.Table], pa.Table]) -> Projection:
    return Projection(
        name=REQUEST_SUMS.name,
        api_key=int(ApiKey.API_VERSIONS),  # any: all APIs have these fields
        fields=_FIELDS,
        reduce_rows=reduce_rows,
        schema=_SCHEMA,
        is_of_all_apis=True,
    )


def sum_part(rows: pa.Table, max_bucket_us: int) -> pa.Table:
    """Return the sums over some requests, in buckets that divide those of the capture."""
    return sum_requests(rows, bucket_us_of_part(rows, max_bucket_us))


def sum_requests(rows: pa.Table, bucket_us: int) -> pa.Table:
    """Return the sums over some requests."""
    latency = rows["latency_us"].combine_chunks()
    start_us = np.asarray(rows["start_us"])
    is_long_poll = pc.is_in(rows["api_key"], pa.array(map(int, LONG_POLLS), pa.int16()))
    host_codes, hosts = _encode_hosts(rows["client"].combine_chunks())
    client_ids = pc.dictionary_encode(rows["client_id"].combine_chunks(), null_encoding="encode")
    rounded = _round(latency)
    columns = pa.table(
        {
            "api_key": rows["api_key"],
            "bucket_us": start_us - start_us % bucket_us,
            "host": host_codes,
            "client_id": client_ids.indices,
            "connection": rows["connection"],
            "latency_us": rounded,
            "counted_us": pc.if_else(is_long_poll, pa.scalar(None, pa.int64()), rounded),
            "exact_us": latency,
            "unanswered": pc.cast(pc.is_null(rows["end_us"]), pa.int64()),
            "request_bytes": rows["request_bytes"],
            "response_bytes": rows["response_bytes"],
        }
    )
    kinds = {
        BY_TIME: _sum(
            columns,
            ("api_key", "bucket_us", "latency_us"),
            {
                "bytes_in": ("request_bytes", "sum"),
                "bytes_out": ("response_bytes", "sum"),
                "max_latency_us": ("exact_us", "max"),
            },
        ),
        BY_CLIENT: _sum(
            columns.drop_columns("latency_us").rename_columns({"counted_us": "latency_us"}),
            ("host", "client_id", "latency_us"),
            {},
        ),
        BY_CONNECTION: columns.select(_CONNECTION)
        .group_by(_CONNECTION, use_threads=False)
        .aggregate([]),
    }
    return pa.concat_tables(
        [_shape(kind, sums, hosts, client_ids.dictionary) for kind, sums in kinds.items()],
        promote_options="default",
    )


_CONNECTION: Final = ["host", "client_id", "connection"]


def _shape(kind: str, sums: pa.Table, hosts: pa.Array, client_ids: pa.Array) -> pa.Table:
    """Return sums with their kind, and with names instead of the numbers of names."""
    columns = {"kind": pa.repeat(kind, sums.num_rows)}
    columns |= {name: sums[name] for name in sums.column_names}
    if "host" in columns:
        columns["host"] = hosts.take(columns["host"])
        columns["client_id"] = client_ids.take(columns["client_id"])
    return pa.table(columns)


def _sum(rows: pa.Table, by: Sequence[str], more: Mapping[str, tuple[str, str]]) -> pa.Table:
    """Return the number of requests and the other sums: column → (column to sum, function)."""
    sums = rows.group_by([*by], use_threads=False).aggregate(
        [([], "count_all"), ("unanswered", "sum"), *more.values()]
    )
    columns = {name: sums[name] for name in by}
    columns |= {"requests": sums["count_all"], "unanswered": sums["unanswered_sum"]}
    columns |= {name: sums["_".join(of)] for name, of in more.items()}
    return pa.table(columns)


def _encode_hosts(clients: pa.StringArray) -> tuple[npt.NDArray[np.int32], pa.StringArray]:
    """Return the number of each client's host, and the hosts."""
    encoded = pc.dictionary_encode(clients)
    hosts = pc.dictionary_encode(
        pa.array([name.rpartition(":")[0] for name in encoded.dictionary.to_pylist()], pa.string())
    )
    return np.asarray(hosts.indices)[np.asarray(encoded.indices)], hosts.dictionary


def _round(latency: Any) -> pa.Array:  # noqa: ANN401 - an array of integers
    """Return latencies with all but the first four digits set to zero; null stays null."""
    is_null = np.asarray(pc.is_null(latency))
    values = np.asarray(pc.fill_null(latency, 0))
    units = 10 ** np.searchsorted(_ROUNDING_LIMITS, values, side="right").astype(np.int64)
    return pa.array(values - values % units, mask=is_null)


def percentiles(
    sums: DataFrame, by: Sequence[str], fractions: Mapping[str, float], *others: Column
) -> DataFrame:
    """Return percentiles of the latency in ms: one row per value of `by`, one column per fraction.

    `sums` may have several rows with equal latencies. A percentile is the smallest latency that is
    at least as long as this fraction of all latencies. `others` are sums of the same rows.
    """
    known = f.when(f.col("latency_us").isNotNull(), f.col("requests")).otherwise(0)
    of_group = Window.partitionBy(*by)
    up_to_equal = ordered_rows(by, ("latency_us",))  # without a frame: all rows with equal latency
    ranked = sums.withColumns(
        {"rank": f.sum(known).over(up_to_equal), "total": f.sum(known).over(of_group)}
    )
    return ranked.groupBy(*by).agg(
        *others,
        *(
            (
                f.min(
                    f.when(
                        f.col("rank") >= f.col("total") * f.lit(fraction),
                        f.col("latency_us"),
                    )
                )
                / 1000
            ).alias(name)
            for name, fraction in fractions.items()
        ),
    )
