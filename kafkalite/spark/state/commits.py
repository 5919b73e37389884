"""Commits of offsets, plain and in transactions, in one shape: a row a request."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.spark.requests import api_key
from kafkalite.spark.stages.narrowing import Narrowing, is_there, types
from kafkalite.spark.state.spans import SPAN, span
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from kafkalite.spark.requests import Requests

    Bools = npt.NDArray[np.bool_]

_ASKED: Final = (
    "array<struct<name: string, topic_id: binary, partitions:"
    " array<struct<partition_index: int, committed_offset: bigint>>>>"
)
_ANSWERED: Final = (
    "array<struct<name: string, topic_id: binary, partitions:"
    " array<struct<partition_index: int, error_code: smallint>>>>"
)

COMMITS = table(
    "commits",
    "A request to commit offsets",
    *SPAN,
    ("client", "string", "who sent it: host:port"),
    ("is_transactional", "boolean", "whether it is a TxnOffsetCommit"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member; empty for one without"),
    ("commit_epoch", "int", "the epoch or generation it is made at; -1 for none"),
    ("transactional_id", "string", "of a TxnOffsetCommit"),
    ("producer_id", "bigint", "of a TxnOffsetCommit"),
    ("producer_epoch", "smallint", "of a TxnOffsetCommit"),
    ("retention_ms", "bigint", "how long to keep it, where an old client says so; else -1"),
    ("asked", _ASKED, "what is to be committed"),
    ("answered", _ANSWERED, "what became of it"),
)

COMMITTED: Final = (
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("error", "smallint", "what the broker answered; null without an answer"),
)
"""The columns that `by_partition` puts in the place of the two arrays."""


def commits(requests: Requests) -> DataFrame:
    """Return every request to commit offsets, as `COMMITS`."""
    kinds = []
    for kind in _KINDS:
        paths = {**_FIELDS, **kind.fields}.items()
        rows = requests.of(kind.api).select(
            *span(), *(f.col(path).alias(name) for name, path in paths)
        )
        kinds.append(_shaped(rows, kind))
    return reduce(DataFrame.unionByName, kinds)


def narrowed(
    requests: Requests, narrow: Callable[[pa.Table], pa.Table], added: pa.Schema
) -> DataFrame:
    """Return as `COMMITS` what `narrow` leaves where requests are read, and what it has `added`.

    It is given requests of one API or of the other, with `asked` and `answered` as it has them.
    """
    kinds = []
    for kind in _KINDS:
        key, fields = api_key(kind.api), {**_FIELDS, **kind.fields}
        schema = pa.schema([*types(key, fields).items(), *added])
        narrowing = Narrowing(api_key=key, fields=fields, narrow=narrow, schema=schema)
        kinds.append(_shaped(requests.narrowed(narrowing), kind))
    return reduce(DataFrame.unionByName, kinds)


@dataclass(frozen=True, slots=True)
class _Kind:
    """An API by which offsets are committed, and how its versions name what we need."""

    api: str
    fields: Mapping[str, str]
    """Columns, and where in a request each is, besides those that all kinds have."""
    columns: Mapping[str, str]
    """SQL for columns of which a request does not say, or not in every version, what they are."""
    topic_id: str
    """SQL for the id of a topic `t`."""


_FIELDS: Final = {
    "client": "client",
    "group_id": "request.group_id",
    "member_id": "request.member_id",
    "asked": "request.topics",
    "answered": "response.topics",
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
        "t.topic_id",
    ),
    _Kind(
        "TxnOffsetCommit",
        {
            "commit_epoch": "request.generation_id",
            "transactional_id": "request.transactional_id",
            "producer_id": "request.producer_id",
            "producer_epoch": "request.producer_epoch",
        },
        {"is_transactional": "true", "retention_ms": "cast(-1 as bigint)"},
        "cast(null as binary)",
    ),
)

_EVERY: Final = {
    "member_id": "coalesce(member_id, '')",
    "commit_epoch": "coalesce(commit_epoch, -1)",
}


def with_outcomes(commits: DataFrame) -> DataFrame:
    """Add `is_taken`: whether a broker took all of it, and `is_refused`: whether it refused any.

    Paths and these functions are compiled; lambdas are not, and all around them neither.
    """
    errors = "flatten(answered.partitions).error_code"
    said = {
        "is_taken": f"coalesce(array_max({errors}) = 0 and array_min({errors}) = 0, false)",
        "is_refused": f"coalesce(array_max({errors}) != 0 or array_min({errors}) != 0, false)",
    }
    return commits.withColumns({name: f.expr(each) for name, each in said.items()})


def outcomes(answered: pa.ChunkedArray) -> tuple[Bools, Bools, Bools]:
    """Return of which requests a broker took all, refused any, and said all that there is to say.

    `answered` has the topics of each answer, or null.
    """
    topics = answered.combine_chunks()
    of_topic = np.asarray(pc.list_parent_indices(topics))
    partitions = pc.struct_field(pc.list_flatten(topics), "partitions")
    of_error = of_topic[np.asarray(pc.list_parent_indices(partitions))]
    errors = pc.struct_field(pc.list_flatten(partitions), "error_code")
    is_told = is_there(topics)
    is_told[of_topic[~is_there(partitions)]] = False
    is_told[of_error[~is_there(errors)]] = False
    is_any, is_refused = (np.zeros(len(topics), np.bool_) for _ in range(2))
    is_any[of_error] = True
    is_refused[of_error[np.asarray(pc.fill_null(errors, 0)) != 0]] = True
    return is_told & is_any & ~is_refused, is_told & is_refused, is_told


def _shaped(rows: DataFrame, kind: _Kind) -> DataFrame:
    """Fill in what requests do not say, and leave out what is not asked of their partitions."""
    said = {
        **_EVERY,
        **kind.columns,
        "asked": _topics("asked", "committed_offset", kind.topic_id),
        "answered": _topics("answered", "error_code", kind.topic_id),
    }
    return rows.withColumns({name: f.expr(each) for name, each in said.items()})


def _topics(where: str, said: str, topic_id: str) -> str:
    """Return SQL for what a message says of partitions, without the rest of it."""
    return (
        f"transform({where}, t -> struct(t.name as name, {topic_id} as topic_id,"
        f" transform(t.partitions, p -> struct(p.partition_index, p.{said})) as partitions))"
    )


def by_partition(requests: DataFrame, names: DataFrame) -> DataFrame:
    """Return a row a partition, with `COMMITTED` in the place of `asked` and `answered`.

    An answer mostly has its request's order, but one that some of it was refused early has not.
    """
    rows = (
        requests.select("*", f.posexplode("asked").alias("i", "topic_asked"))
        .select("*", f.posexplode("topic_asked.partitions").alias("j", "partition_asked"))
        .withColumn("here", f.expr("get(answered, i)"))
        .withColumn("there", f.expr("get(here.partitions, j)"))
    )
    is_there = (
        "here.name <=> topic_asked.name and here.topic_id <=> topic_asked.topic_id"
        " and there.partition_index = partition_asked.partition_index"
    )
    elsewhere = (
        "get(filter(flatten(transform(filter(answered, t -> t.name <=> topic_asked.name"
        " and t.topic_id <=> topic_asked.topic_id), t -> t.partitions)),"
        " p -> p.partition_index = partition_asked.partition_index), 0).error_code"
    )
    told = rows.withColumns(
        {
            "error": f.expr(f"case when {is_there} then there.error_code else {elsewhere} end"),
            "topic": f.col("topic_asked.name"),
            "topic_id": f.hex("topic_asked.topic_id"),
            "partition": f.col("partition_asked.partition_index"),
            "committed_offset": f.col("partition_asked.committed_offset"),
        }
    ).drop("i", "j", "topic_asked", "partition_asked", "here", "there", "asked", "answered")
    return named(told, names).drop("topic_id")
