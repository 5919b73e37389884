"""Consumers that lost their place, and those that asked the wrong leader (KIP-232).

An offset out of range makes a consumer look for a new one. Where the log had reached the offset
before, nothing was wrong with it but who was asked: a broker that was behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.topics import named
from kafkalite.spark.state.views import host

if TYPE_CHECKING:
    from kafkalite.spark.requests import Requests

BEHIND: Final = "broker behind"
DELETED: Final = "deleted"
BEYOND: Final = "beyond the end"
UNKNOWN: Final = "unknown"

RESETS = table(
    "offset_resets",
    "A fetch at an offset that its broker said was out of range, and where its client went on",
    ("at", "timestamp", "when the answer went"),
    ("host", "string", "the client's address"),
    ("client_id", "string", "and its name"),
    ("client", "string", "host:port of the connection"),
    ("broker", "string", "who said so: host:port"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("fetch_offset", "bigint", "the offset; null where the fetch session knew it from before"),
    ("reached", "bigint", "how far the log reached by answers until then; by a later one if less"),
    (
        "cause",
        "string",
        (
            "broker behind: the log had reached it, unless it was cut back since; deleted: it "
            "begins later by now; beyond the end: it had not; unknown: the capture does not tell"
        ),
    ),
    ("reset_at", "timestamp", "when the client was told another offset; null for never"),
    ("reset_by", "string", "earliest, latest, or time: what it had asked for"),
    ("reset_to", "bigint", "the offset"),
    ("records_again", "bigint", "how many records it reads again; null where not known"),
    ("records_skipped", "bigint", "how many it never reads; null where not known"),
)

EPOCH_ERRORS = table(
    "leader_epoch_errors",
    "A kind of refusal of a client by a broker over who leads a partition",
    ("host", "string", "the client's address"),
    ("client_id", "string", "and its name"),
    ("broker", "string", "who refused: host:port"),
    ("api", "string", "what it was"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    (
        "error",
        "string",
        (
            "FENCED_LEADER_EPOCH: the client is behind; UNKNOWN_LEADER_EPOCH: the broker is; "
            "NOT_LEADER_OR_FOLLOWER: one of the two"
        ),
    ),
    ("times", "bigint", "how often"),
    ("first_at", "timestamp", "when first"),
    ("last_at", "timestamp", "and last"),
    ("lowest_epoch", "int", "the lowest leader epoch that the client gave; null for none"),
    ("highest_epoch", "int", "and the highest"),
)

_BY: Final = ("host", "client_id", "topic", "partition")
_EARLIEST, _LATEST = -2, -1
_EPOCHS: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
_CODES: Final = ", ".join(str(int(each)) for each in (*_EPOCHS, ErrorCode.OFFSET_OUT_OF_RANGE))
_NOTHING: Final = "cast(null as {})"


@dataclass(frozen=True, slots=True)
class _Asking:
    """Where an API's requests and answers have topics, and what of them."""

    api: str
    answers: str
    name: str
    asked_partition: str
    partition: str
    has_ids: bool = False
    has_offsets: bool = False


_ASKING: Final = (
    _Asking(
        "Fetch",
        "response.responses",
        "topic",
        "partition",
        "partition_index",
        has_ids=True,
        has_offsets=True,
    ),
    _Asking("ListOffsets", "response.topics", "name", "partition_index", "partition_index"),
    _Asking("OffsetForLeaderEpoch", "response.topics", "topic", "partition", "partition"),
)


def refusals(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return the partitions of requests that brokers refused, with what had been asked of them."""
    kinds = [_refused(requests, each) for each in _ASKING]
    return named(reduce(DataFrame.unionByName, kinds), topics).drop("topic_id")


def _refused(requests: Requests, asking: _Asking) -> DataFrame:
    is_same = f"a.{asking.name} <=> t.{asking.name}" + (
        " and a.topic_id <=> t.topic_id" if asking.has_ids else ""
    )
    offset = "q.fetch_offset" if asking.has_offsets else _NOTHING.format("bigint")
    given = (
        f"get(flatten(transform(filter(request.topics, a -> {is_same}), a -> transform("
        f"filter(a.partitions, q -> q.{asking.asked_partition} = p.{asking.partition}),"
        f" q -> struct(q.current_leader_epoch as epoch, {offset} as fetch_offset)))), 0)"
    )
    wrong = f"p.error_code in ({_CODES})"
    return (
        requests.of(asking.api)
        # Nearly none is refused: the others are not taken apart.
        .where(f"exists({asking.answers}, t -> exists(t.partitions, p -> {wrong}))")
        .select(
            host(),
            "client_id",
            "client",
            "broker",
            f.col("offset").alias("position"),
            f.unix_micros("answered").alias("end_us"),
            "request",
            f.explode(asking.answers).alias("t"),
        )
        .select("*", f.explode("t.partitions").alias("p"))
        .where(wrong)
        .withColumn("given", f.expr(given))
        .select(
            *("host", "client_id", "client", "broker", "position", "end_us"),
            f.lit(asking.api).alias("api"),
            f.col(f"t.{asking.name}").alias("topic"),
            (f.hex("t.topic_id") if asking.has_ids else f.lit(None).cast("string")).alias(
                "topic_id"
            ),
            f.col(f"p.{asking.partition}").alias("partition"),
            f.col("p.error_code").alias("error"),
            f.expr("nullif(given.epoch, -1)").alias("epoch"),
            "given.fetch_offset",
        )
    )


def epoch_errors(refused: DataFrame) -> DataFrame:
    """Return who was refused over who leads what, as `EPOCH_ERRORS`."""
    names = f.create_map(*(f.lit(each) for code in _EPOCHS for each in (int(code), code.name)))
    return EPOCH_ERRORS.shape(
        refused.where(f.col("error") != ErrorCode.OFFSET_OUT_OF_RANGE)
        .groupBy(*_BY, "broker", "api", names[f.col("error").cast("int")].alias("error"))
        .agg(
            f.count(f.lit(1)).alias("times"),
            f.timestamp_micros(f.min("end_us")).alias("first_at"),
            f.timestamp_micros(f.max("end_us")).alias("last_at"),
            f.min("epoch").alias("lowest_epoch"),
            f.max("epoch").alias("highest_epoch"),
        )
    )


def told_offsets(requests: Requests) -> DataFrame:
    """Return the offsets that clients were told: the earliest, the latest, one of a time."""
    asked = (
        "get(flatten(transform(filter(request.topics, a -> a.name = t.name), a ->"
        " transform(filter(a.partitions, q -> q.partition_index = p.partition_index), q ->"
        " q.timestamp))), 0)"
    )
    return (
        requests.of("ListOffsets")
        .select(
            host(),
            "client_id",
            f.unix_micros("ts").alias("asked_us"),
            f.unix_micros("answered").alias("told_us"),
            "request",
            f.explode("response.topics").alias("t"),
        )
        .select("*", f.explode("t.partitions").alias("p"))
        .where((f.col("p.error_code") == ErrorCode.NONE) & (f.col("p.offset") >= 0))
        .select(
            "host",
            "client_id",
            f.col("t.name").alias("topic"),
            f.col("p.partition_index").alias("partition"),
            "asked_us",
            "told_us",
            f.expr(asked).alias("of"),
            f.col("p.offset").alias("offset"),
        )
    )


def _with_reach(lost: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Put beside each fetch how far its partition was known to reach by then."""
    # Few partitions are ever lost, if any: of all others no watermark goes further than this.
    its = f.broadcast(lost.select("topic", "partition").distinct())
    reach = watermarks.join(its, ["topic", "partition"], "left_semi").select(
        f.col("topic").alias("of_topic"),
        f.col("partition").alias("of_partition"),
        "at_us",
        "high_watermark",
    )
    is_its = f.expr("topic = of_topic and partition = of_partition")
    # A log that had less later had no more then; what it came to later than that says nothing.
    reached = (
        "coalesce(max(high_watermark) filter (where at_us <= end_us),"
        " min(high_watermark) filter (where at_us > end_us and high_watermark < fetch_offset))"
    )
    row = f.struct(*lost.columns).alias("r")
    return (
        lost.join(reach, is_its, "left")
        .groupBy(row)
        .agg(f.expr(reached).alias("reached"))
        .select("r.*", "reached")
    )


def _with_reset(lost: DataFrame, told: DataFrame, within_us: int) -> DataFrame:
    """Put beside each fetch the next offset that its client was told, if it was soon."""
    its = told.select(
        *(f.col(name).alias(f"its_{name}") for name in _BY),
        "asked_us",
        f.struct("told_us", "of", "offset").alias("o"),
    )
    is_its = f.expr(
        " and ".join(f"{name} <=> its_{name}" for name in _BY)
        + f" and asked_us >= end_us and asked_us < end_us + {within_us}"
    )
    row = f.struct(*lost.columns).alias("r")
    return (
        lost.join(its, is_its, "left")
        .groupBy(row)
        .agg(f.min_by("o", f.struct("asked_us", "o")).alias("reset"))
        .select("r.*", "reset")
    )


def resets(refused: DataFrame, told: DataFrame, watermarks: DataFrame, within_us: int) -> DataFrame:
    """Return who was out of range, and what came of it, as `RESETS`."""
    lost = refused.where(f.col("error") == ErrorCode.OFFSET_OUT_OF_RANGE).drop("error", "epoch")
    found = _with_reset(_with_reach(lost, watermarks), told, within_us)
    start = f.when(f.col("reset.of") == _EARLIEST, f.col("reset.offset"))
    cause = (
        f.when(f.col("fetch_offset") < start, DELETED)
        .when(f.col("fetch_offset") <= f.col("reached"), BEHIND)
        .when(f.col("fetch_offset") > f.col("reached"), BEYOND)
        .otherwise(UNKNOWN)
    )
    # What was never written cannot be read again.
    read = f.when(f.col("cause") == BEYOND, f.col("reached")).otherwise(f.col("fetch_offset"))
    moved = f.col("reset.offset") - read
    return RESETS.shape(
        found.withColumn("cause", cause).withColumns(
            {
                "at": f.timestamp_micros("end_us"),
                "reset_at": f.timestamp_micros("reset.told_us"),
                "reset_by": f.when(f.col("reset.of") == _EARLIEST, "earliest")
                .when(f.col("reset.of") == _LATEST, "latest")
                .when(f.col("reset").isNotNull(), "time"),
                "reset_to": f.col("reset.offset"),
                "records_again": f.when(moved.isNotNull(), f.greatest(-moved, f.lit(0))),
                "records_skipped": f.when(moved.isNotNull(), f.greatest(moved, f.lit(0))),
            }
        )
    )
