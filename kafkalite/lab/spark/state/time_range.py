"""The time range of a capture."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.stages.projection import Projection
from kafkalite.lab.spark.state.tables import table
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests


TIME_RANGE = table(
    "time_range",
    "The first and last time in a capture, one row, in microseconds since the Unix epoch",
    ("first_us", "bigint", "time of the first request; null for an empty capture"),
    ("last_us", "bigint", "time of the last request or response"),
)


def time_range(requests: Requests) -> DataFrame:
    """Return the time range of all requests and responses, as `TIME_RANGE`."""
    ranges = requests.window.reduced(TIME_RANGES)
    if ranges is None:
        ranges = requests.window.map_files(_SCHEMA, read_time_ranges)
    if ranges is None:
        ranges = requests.window.envelopes().select(
            f.unix_micros("ts").alias("first_us"),
            f.greatest(f.unix_micros("ts"), f.unix_micros("response_ts")).alias("last_us"),
        )
    return ranges.agg(f.min("first_us").alias("first_us"), f.max("last_us").alias("last_us"))


_SCHEMA: Final = pa.schema([("first_us", pa.int64()), ("last_us", pa.int64())])
_TIMES: Final = ("ts", "response_ts")


def time_range_of(rows: pa.Table) -> pa.Table:
    """Return the time range of some requests, one row; none without requests."""
    if not rows.num_rows:
        return _SCHEMA.empty_table()
    last_us = pc.max(pc.coalesce(rows["end_us"], rows["start_us"]))
    return pa.table(
        {
            "first_us": [pc.min(rows["start_us"]).as_py()],
            "last_us": [max(last_us.as_py(), pc.max(rows["start_us"]).as_py())],
        }
    )


TIME_RANGES: Final = Projection(
    name=TIME_RANGE.name,
    api_key=int(ApiKey.API_VERSIONS),  # any: all APIs have the columns of the time
    fields={},
    reduce_rows=time_range_of,
    schema=_SCHEMA,
    is_of_all_apis=True,
)


def read_time_ranges(urls: Iterable[str]) -> pa.Table:
    """Return the time range of each file, from the statistics in its footer if it has them."""
    rows = []
    for url in urls:
        where = location(url)
        with where.files.open_input_file(where.path) as stream:
            file = parquet.ParquetFile(stream)
            times = _times_in_footer(file.metadata) or _times_in_rows(file)
            if times:
                rows.append({"first_us": min(times), "last_us": max(times)})
    return pa.Table.from_pylist(rows, _SCHEMA)


def _times_in_footer(metadata: parquet.FileMetaData) -> list[int]:
    """Return the smallest and largest times of each row group; none if a group lacks them."""
    columns = {metadata.schema.column(index).path: index for index in range(metadata.num_columns)}
    times: list[int] = []
    for group in range(metadata.num_row_groups):
        for name in _TIMES:
            column = metadata.row_group(group).column(columns[name])
            statistics = column.statistics if column.is_stats_set else None
            if statistics is None or not statistics.has_min_max:
                if statistics is not None and statistics.null_count == column.num_values:
                    continue  # no request has a response
                return []
            times += (_to_us(statistics.min), _to_us(statistics.max))
    return times


def _times_in_rows(file: parquet.ParquetFile) -> list[int]:
    rows = file.read(columns=[*_TIMES])
    return [_to_us(time) for name in _TIMES for time in rows[name].to_pylist() if time is not None]


def _to_us(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
