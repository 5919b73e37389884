"""Offset commits inside and outside of transactions, in one table: one row per request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.requests import api_key
from kafkalite.lab.spark.stages.projection import Projection, column_types, is_valid
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.timing import TIME_COLUMNS, time_columns
from kafkalite.lab.spark.state.topics import with_topic_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

    Bools = npt.NDArray[np.bool_]

_REQUEST_TOPICS: Final = (
    "array<struct<name: string, topic_id: binary, partitions:"
    " array<struct<partition_index: int, committed_offset: bigint>>>>"
)
_RESPONSE_TOPICS: Final = (
    "array<struct<name: string, topic_id: binary, partitions:"
    " array<struct<partition_index: int, error_code: smallint>>>>"
)

COMMITS = table(
    "commits",
    "A request to commit offsets",
    *TIME_COLUMNS,
    ("client", "string", "the client: host:port"),
    ("is_transactional", "boolean", "whether it is a TxnOffsetCommit"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member; empty without one"),
    ("commit_epoch", "int", "the member epoch or generation in the request; -1 for none"),
    ("transactional_id", "string", "of a TxnOffsetCommit, else null"),
    ("producer_id", "bigint", "of a TxnOffsetCommit, else null"),
    ("producer_epoch", "smallint", "of a TxnOffsetCommit, else null"),
    ("retention_ms", "bigint", "retention time in the request of an old client, else -1"),
    ("request_topics", _REQUEST_TOPICS, "offsets in the request"),
    ("response_topics", _RESPONSE_TOPICS, "error codes in the response"),
)

PARTITION_COLUMNS: Final = (
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("error", "smallint", "error code of the response; null without a response"),
)
"""The columns that `by_partition` returns in place of `request_topics` and `response_topics`."""


def commits(requests: Requests) -> DataFrame:
    """Return every request to commit offsets, as `COMMITS`."""
    tables = []
    for kind in _KINDS:
        paths = {**_FIELDS, **kind.fields}.items()
        rows = requests.of(kind.api).select(
            *time_columns(), *(f.col(path).alias(name) for name, path in paths)
        )
        tables.append(_to_commits(rows, kind))
    return union(tables)


def project_commits(
    requests: Requests,
    reduce_rows: Callable[[pa.Table], pa.Table],
    added: pa.Schema,
    name: str = "",
) -> DataFrame:
    """Return commits as `COMMITS`, filtered by `reduce_rows` where they are read.

    `reduce_rows` receives tables of one API at a time, with `request_topics` and `response_topics`
    as the API has them. It may add columns; `added` has their types.
    """
    projections = commit_projections(reduce_rows, added, name)
    return union(
        _to_commits(requests.project(projection), kind)
        for projection, kind in zip(projections, _KINDS, strict=True)
    )


def commit_projections(
    reduce_rows: Callable[[pa.Table], pa.Table], added: pa.Schema, name: str
) -> list[Projection]:
    """Return the projections of `project_commits`, one of each API."""
    projections = []
    for kind in _KINDS:
        key, fields = api_key(kind.api), {**_FIELDS, **kind.fields}
        schema = pa.schema([*column_types(key, fields).items(), *added])
        projections.append(
            Projection(
                name=name, api_key=key, fields=fields, reduce_rows=reduce_rows, schema=schema
            )
        )
    return projections


@dataclass(frozen=True, slots=True)
class _Kind:
    """An API that commits offsets, and the names of its fields."""

    api: str
    fields: Mapping[str, str]
    """Column → path of its field, for fields that not all kinds have."""
    columns: Mapping[str, str]
    """Column → SQL, for fields that an API or a version of it lacks."""


_FIELDS: Final = {
    "client": "client",
    "group_id": "request.group_id",
    "member_id": "request.member_id",
    "request_topics": "request.topics",
    "response_topics": "response.topics",
}

_KINDS: Final = (
    _Kind(
        "OffsetCommit",
        {
            "commit_epoch": "request.generation_id_or_member_epoch",
            "retention_ms": "request.retention_time_ms",
        },
        {
            "is_transactional": "false",
            "transactional_id": "cast(null as string)",
            "producer_id": "cast(null as bigint)",
            "producer_epoch": "cast(null as smallint)",
            "retention_ms": "coalesce(retention_ms, cast(-1 as bigint))",
        },
    ),
    _Kind(
        "TxnOffsetCommit",
        {
            "commit_epoch": "request.generation_id_or_member_epoch",
            "transactional_id": "request.transactional_id",
            "producer_id": "request.producer_id",
            "producer_epoch": "request.producer_epoch",
        },
        {"is_transactional": "true", "retention_ms": "cast(-1 as bigint)"},
    ),
)
COMMIT_APIS: Final = frozenset(api_key(kind.api) for kind in _KINDS)
"""The APIs that commit offsets."""

_COMMON_COLUMNS: Final = {
    "member_id": "coalesce(member_id, '')",
    "commit_epoch": "coalesce(commit_epoch, -1)",
}


def with_outcomes(commits: DataFrame) -> DataFrame:
    """Add `is_accepted`: every partition was accepted; and `is_refused`: at least one was refused.

    Only field paths and functions that Spark compiles are used. With lambdas, Spark would interpret
    the whole query.
    """
    errors = "flatten(response_topics.partitions).error_code"
    columns = {
        "is_accepted": f"coalesce(array_max({errors}) = 0 and array_min({errors}) = 0, false)",
        "is_refused": f"coalesce(array_max({errors}) != 0 or array_min({errors}) != 0, false)",
    }
    return commits.withColumns({name: f.expr(expression) for name, expression in columns.items()})


def outcomes(response_topics: pa.ChunkedArray) -> tuple[Bools, Bools, Bools]:
    """Return three masks: entirely accepted, with a refused partition, with a complete response.

    `response_topics` has the topics of each response, or null.
    """
    topics = response_topics.combine_chunks()
    of_topic = np.asarray(pc.list_parent_indices(topics))
    partitions = pc.struct_field(pc.list_flatten(topics), "partitions")
    of_error = of_topic[np.asarray(pc.list_parent_indices(partitions))]
    errors = pc.struct_field(pc.list_flatten(partitions), "error_code")
    is_answered = is_valid(topics)
    is_answered[of_topic[~is_valid(partitions)]] = False
    is_answered[of_error[~is_valid(errors)]] = False
    is_any, is_refused = (np.zeros(len(topics), np.bool_) for _ in range(2))
    is_any[of_error] = True
    is_refused[of_error[np.asarray(pc.fill_null(errors, 0)) != 0]] = True
    return is_answered & is_any & ~is_refused, is_answered & is_refused, is_answered


def _to_commits(rows: DataFrame, kind: _Kind) -> DataFrame:
    """Add the columns that the API lacks, and drop unneeded fields of partitions."""
    columns = {
        **_COMMON_COLUMNS,
        **kind.columns,
        "request_topics": _topics("request_topics", "committed_offset"),
        "response_topics": _topics("response_topics", "error_code"),
    }
    return rows.withColumns({name: f.expr(expression) for name, expression in columns.items()})


def _topics(path: str, field_: str) -> str:
    """Return SQL for a message's topics with a single field per partition."""
    return (
        f"transform({path}, t -> struct(t.name as name, t.topic_id as topic_id,"
        f" transform(t.partitions, p -> struct(p.partition_index, p.{field_})) as partitions))"
    )


def by_partition(requests: DataFrame, names: DataFrame) -> DataFrame:
    """Return one row per partition, with `PARTITION_COLUMNS` in place of the two lists of topics.

    A response has its partitions in the order of the request, unless some were refused early. So
    the same position is tried first, then the others are searched.
    """
    rows = (
        requests.select("*", f.posexplode("request_topics").alias("i", "request_topic"))
        .select("*", f.posexplode("request_topic.partitions").alias("j", "request_partition"))
        .withColumn("response_topic", f.expr("get(response_topics, i)"))
        .withColumn("response_partition", f.expr("get(response_topic.partitions, j)"))
    )
    is_same_position = (
        "response_topic.name <=> request_topic.name"
        " and response_topic.topic_id <=> request_topic.topic_id"
        " and response_partition.partition_index = request_partition.partition_index"
    )
    elsewhere = (
        "get(filter(flatten(transform(filter(response_topics, t -> t.name <=> request_topic.name"
        " and t.topic_id <=> request_topic.topic_id), t -> t.partitions)),"
        " p -> p.partition_index = request_partition.partition_index), 0).error_code"
    )
    by_partition_ = rows.withColumns(
        {
            "error": f.expr(
                f"case when {is_same_position} then response_partition.error_code"
                f" else {elsewhere} end"
            ),
            "topic": f.col("request_topic.name"),
            "topic_id": f.hex("request_topic.topic_id"),
            "partition": f.col("request_partition.partition_index"),
            "committed_offset": f.col("request_partition.committed_offset"),
        }
    ).drop(
        "i",
        "j",
        "request_topic",
        "request_partition",
        "response_topic",
        "response_partition",
        "request_topics",
        "response_topics",
    )
    return with_topic_names(by_partition_, names).drop("topic_id")
