"""Stale metadata (KIP-232): answers older than what their client already knew, and what came of it.

A client asks whichever broker it likes, and brokers learn of changes one after the other. Who a
client is, a capture tells only by its address and name: that two connections are one client's is
certain for none, so each finding says whether the connection itself had told the newer state.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits import resets
from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.state.marks import every_mark
from kafkalite.spark.state.order import before_now
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named
from kafkalite.spark.state.views import host, views

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.spark.requests import Requests

BY_EPOCH: Final = "leader epoch"
BY_ID: Final = "topic id"

STALE = table(
    "stale_metadata",
    "An answer that told a client of a partition what was no longer so, as it knew",
    ("at", "timestamp", "when the answer went"),
    ("host", "string", "the client's address"),
    ("client_id", "string", "and its name"),
    ("client", "string", "host:port of the connection"),
    ("broker", "string", "who told it: host:port"),
    ("api", "string", "what it had asked"),
    ("topic", "string", "the topic"),
    ("partition", "int", "the partition"),
    ("kind", "string", "leader epoch: an earlier one; topic id: that of a topic deleted since"),
    ("told_epoch", "int", "the leader epoch of the answer"),
    ("known_epoch", "int", "the one known before"),
    ("known_since", "timestamp", "since when"),
    (
        "evidence",
        "string",
        (
            "connection: the same connection had told the newer state; "
            "client: another one of the same address and name had"
        ),
    ),
    ("errors_after", "bigint", "FENCED and UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER after it"),
    ("out_of_range_after", "bigint", "OFFSET_OUT_OF_RANGE after it"),
    ("resets_after", "bigint", "offsets that the client looked up anew after being out of range"),
    ("epoch_checks_after", "bigint", "OffsetForLeaderEpoch requests after it"),
)

_PARTITION: Final = ("host", "client_id", "topic", "topic_id", "partition")
_ORDER: Final = ("at_us", "position")
_ERRORS: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
_RESET, _CHECK, _ERROR, _OUT = "reset", "check", "error", "out of range"


def metadata(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    topics = requests.state("topics")
    refused = resets.refusals(requests, topics)
    return {
        STALE.name: stale(views(requests), aftermath(requests, topics), options.aftermath_ms),
        resets.RESETS.name: resets.resets(
            refused,
            resets.told_offsets(requests),
            every_mark(requests, topics),
            options.aftermath_ms * 1000,
        ),
        resets.EPOCH_ERRORS.name: resets.epoch_errors(refused),
    }


def stale(told: DataFrame, consequences: DataFrame, aftermath_ms: int) -> DataFrame:
    """Return every stale answer, as `STALE`."""
    seen = f.struct("leader_epoch", f.negative("at_us").alias("minus_at"))
    known = f.max(seen).over(before_now(_PARTITION, _ORDER))
    here = f.max("leader_epoch").over(before_now((*_PARTITION, "connection"), _ORDER))
    topic = ("host", "client_id", "topic", "partition")
    first_seen = f.min("at_us").over(Window.partitionBy(*_PARTITION))
    judged = (
        told.withColumns({"known": known, "here": here, "first_us": first_seen})
        .withColumn("newest_us", f.max("first_us").over(before_now(topic, _ORDER)))
        .withColumn("is_older", f.col("leader_epoch") < f.col("known.leader_epoch"))
        .withColumn("is_gone", (f.col("topic_id") != "") & (f.col("first_us") < f.col("newest_us")))
        .where("is_older or is_gone")
    )
    found = judged.select(
        *VIEW_COLUMNS,
        f.when(f.col("is_older"), BY_EPOCH).otherwise(BY_ID).alias("kind"),
        f.col("leader_epoch").alias("told_epoch"),
        f.when(f.col("is_older"), f.col("known.leader_epoch")).alias("known_epoch"),
        f.when(f.col("is_older"), -f.col("known.minus_at"))
        .otherwise(f.col("newest_us"))
        .alias("known_us"),
        f.when(f.col("here") > f.col("leader_epoch"), "connection")
        .otherwise("client")
        .alias("evidence"),
    )
    return _with_aftermath(found, consequences, aftermath_ms * 1000)


VIEW_COLUMNS: Final = (
    "host", "client_id", "client", "broker", "api", "topic", "partition", "at_us"
)  # fmt: skip


def _with_aftermath(found: DataFrame, consequences: DataFrame, within_us: int) -> DataFrame:
    meets = f.expr(
        "s.host = a.host and s.client_id <=> a.client_id and s.topic = a.topic"
        " and s.partition = a.partition and a.after_us >= s.at_us"
        f" and a.after_us < s.at_us + {within_us}"
    )
    row = f.struct(*(f"s.{name}" for name in found.columns)).alias("s")
    counts = {
        "errors_after": _ERROR,
        "out_of_range_after": _OUT,
        "resets_after": _RESET,
        "epoch_checks_after": _CHECK,
    }
    return STALE.shape(
        found.alias("s")
        .join(consequences.alias("a"), meets, "left")
        .groupBy(row)
        .agg(
            *(
                f.count_if(f.coalesce(f.col("a.what") == what, f.lit(False))).alias(name)
                for name, what in counts.items()
            )
        )
        .select("s.*", *counts)
        .withColumns(
            {"at": f.timestamp_micros("at_us"), "known_since": f.timestamp_micros("known_us")}
        )
    )


def aftermath(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return what may be a consequence: (host, client_id, topic, partition, after_us, what)."""
    kinds = (_refused(requests), _looked_up(requests), _checked(requests))
    events = named(reduce(DataFrame.unionByName, kinds), topics).drop("topic_id")
    # Offsets are looked up for many reasons; after being out of range it is a reset.
    by = ("host", "client_id", "topic", "partition")
    was_out = f.count_if(f.col("what") == _OUT).over(before_now(by, ("after_us",)))
    return events.withColumn("outs", was_out).where(f"what != '{_RESET}' or outs > 0").drop("outs")


def _refused(requests: Requests) -> DataFrame:
    code = f.col("p.error_code")
    what = f.when(code == ErrorCode.OFFSET_OUT_OF_RANGE, _OUT).when(
        code.isin(*(int(each) for each in _ERRORS)), _ERROR
    )
    return (
        requests.of("Fetch")
        .select(
            host(),
            "client_id",
            f.unix_micros("answered").alias("after_us"),
            f.explode("response.responses").alias("t"),
        )
        .select("*", f.explode("t.partitions").alias("p"))
        .select(
            "host",
            "client_id",
            "after_us",
            f.col("t.topic").alias("topic"),
            f.hex("t.topic_id").alias("topic_id"),
            f.col("p.partition_index").alias("partition"),
            what.alias("what"),
        )
        .where("what is not null")
    )


def _looked_up(requests: Requests) -> DataFrame:
    return _asked(requests, "ListOffsets", "name", "partition_index", _RESET)


def _checked(requests: Requests) -> DataFrame:
    return _asked(requests, "OffsetForLeaderEpoch", "topic", "partition", _CHECK)


def _asked(requests: Requests, api: str, name: str, partition: str, what: str) -> DataFrame:
    return (
        requests.of(api)
        .select(
            host(),
            "client_id",
            f.unix_micros("ts").alias("after_us"),
            f.explode("request.topics").alias("t"),
        )
        .select("*", f.explode("t.partitions").alias("p"))
        .select(
            "host",
            "client_id",
            "after_us",
            f.col(f"t.{name}").alias("topic"),
            f.lit(None).cast("string").alias("topic_id"),
            f.col(f"p.{partition}").alias("partition"),
            f.lit(what).alias("what"),
        )
    )


METADATA = Audit(
    "metadata",
    "who was told of leaders that it knew to be past, lost its place, or asked the wrong one",
    (STALE, resets.RESETS, resets.EPOCH_ERRORS),
    metadata,
)
"""The audit."""
