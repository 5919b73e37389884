"""Commits of offsets, plain and in transactions, in one shape: a row a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f

from kafkalite.spark.state.spans import SPAN, field, span
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests

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
    return _plain(requests).unionByName(_transactional(requests))


def _plain(requests: Requests) -> DataFrame:
    return COMMITS.shape(
        requests.of("OffsetCommit").select(
            *span(),
            "client",
            f.lit(False).alias("is_transactional"),
            "request.group_id",
            f.expr(field("request.member_id", "''")).alias("member_id"),
            f.expr(field("request.generation_id_or_member_epoch", "-1")).alias("commit_epoch"),
            f.lit(None).alias("transactional_id"),
            f.lit(None).alias("producer_id"),
            f.lit(None).alias("producer_epoch"),
            f.expr(field("request.retention_time_ms", "-1")).alias("retention_ms"),
            f.expr(_topics("request.topics", "committed_offset", "t.topic_id")).alias("asked"),
            f.expr(_topics("response.topics", "error_code", "t.topic_id")).alias("answered"),
        )
    )


def _transactional(requests: Requests) -> DataFrame:
    no_id = "cast(null as binary)"
    return COMMITS.shape(
        requests.of("TxnOffsetCommit").select(
            *span(),
            "client",
            f.lit(True).alias("is_transactional"),
            "request.group_id",
            f.expr(field("request.member_id", "''")).alias("member_id"),
            f.expr(field("request.generation_id", "-1")).alias("commit_epoch"),
            "request.transactional_id",
            "request.producer_id",
            "request.producer_epoch",
            f.lit(-1).alias("retention_ms"),
            f.expr(_topics("request.topics", "committed_offset", no_id)).alias("asked"),
            f.expr(_topics("response.topics", "error_code", no_id)).alias("answered"),
        )
    )


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
