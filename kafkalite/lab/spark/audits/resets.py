"""Tables of fetches out of range, the resets that followed, and leader epoch errors (KIP-232).

A consumer whose fetch offset is out of range resets it. If the log had already reached the offset,
the offset was valid and the broker was behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.state.metadata_views import host
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

BEHIND: Final = "broker behind"
DELETED: Final = "deleted"
BEYOND: Final = "beyond the end"
UNKNOWN: Final = "unknown"

RESETS = table(
    "offset_resets",
    "A fetch that a broker answered with OFFSET_OUT_OF_RANGE, and the reset that followed",
    ("at", "timestamp", "time of the response"),
    ("host", "string", "the client's address"),
    ("client_id", "string", "the client id"),
    ("client", "string", "host:port of the connection"),
    ("broker", "string", "the broker: host:port"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("fetch_offset", "bigint", "the offset; null if only the fetch session had it"),
    (
        "log_end_offset",
        "bigint",
        "highest high watermark seen before; if none, the lowest later one below the offset",
    ),
    (
        "cause",
        "string",
        (
            "broker behind: the log had reached the offset, unless it was truncated since; "
            "deleted: the log starts at a later offset; beyond the end: the log had not reached "
            "it; unknown: the capture does not show enough"
        ),
    ),
    ("reset_at", "timestamp", "time at which the client received another offset; null for never"),
    ("reset_policy", "string", "the offset that the client requested: earliest, latest or time"),
    ("reset_to", "bigint", "the new offset"),
    ("records_reread", "bigint", "number of records read again; null if unknown"),
    ("records_skipped", "bigint", "number of records skipped; null if unknown"),
    times=("at",),
)

EPOCH_ERRORS = table(
    "leader_epoch_errors",
    "Occurrences of a leader epoch error of one client, broker, API and partition",
    ("host", "string", "the client's address"),
    ("client_id", "string", "the client id"),
    ("broker", "string", "the broker: host:port"),
    ("api", "string", "API of the request"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    (
        "error",
        "string",
        (
            "FENCED_LEADER_EPOCH: the client is behind; UNKNOWN_LEADER_EPOCH: the broker is "
            "behind; NOT_LEADER_OR_FOLLOWER: one of them is behind"
        ),
    ),
    ("occurrences", "bigint", "number of occurrences"),
    ("first_at", "timestamp", "first occurrence"),
    ("last_at", "timestamp", "last occurrence"),
    ("lowest_epoch", "int", "the lowest leader epoch in the requests; null for none"),
    ("highest_epoch", "int", "the highest leader epoch in the requests"),
)

_CLIENT_PARTITION: Final = ("host", "client_id", "topic", "partition")
_EARLIEST, _LATEST = -2, -1
_LEADER_EPOCH_ERRORS: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
_AUDITED_ERRORS: Final = ", ".join(
    str(int(code)) for code in (*_LEADER_EPOCH_ERRORS, ErrorCode.OFFSET_OUT_OF_RANGE)
)
_NULL_SQL: Final = "cast(null as {})"


@dataclass(frozen=True, slots=True)
class _ApiFields:
    """Field names in an API's requests and responses."""

    api: str
    response_topics: str
    topic_name: str
    request_partition: str
    response_partition: str
    has_ids: bool = False
    has_offsets: bool = False


_APIS: Final = (
    _ApiFields(
        "Fetch",
        "response.responses",
        "topic",
        "partition",
        "partition_index",
        has_ids=True,
        has_offsets=True,
    ),
    _ApiFields("ListOffsets", "response.topics", "name", "partition_index", "partition_index"),
    _ApiFields("OffsetForLeaderEpoch", "response.topics", "topic", "partition", "partition"),
)


def partition_errors(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return each partition in a response with one of the audited errors.

    The errors are OFFSET_OUT_OF_RANGE and leader epoch errors. The rows also have the leader epoch
    and the fetch offset of the request.
    """
    kinds = [_errors_in(requests, api_fields) for api_fields in _APIS]
    return with_topic_names(union(kinds), topics).drop("topic_id")


def _errors_in(requests: Requests, api_fields: _ApiFields) -> DataFrame:
    is_same = f"a.{api_fields.topic_name} <=> t.{api_fields.topic_name}" + (
        " and a.topic_id <=> t.topic_id" if api_fields.has_ids else ""
    )
    offset = "q.fetch_offset" if api_fields.has_offsets else _NULL_SQL.format("bigint")
    request_fields = (
        f"get(flatten(transform(filter(request.topics, a -> {is_same}), a -> transform("
        f"filter(a.partitions, q -> q.{api_fields.request_partition}"
        f" = p.{api_fields.response_partition}),"
        f" q -> struct(q.current_leader_epoch as epoch, {offset} as fetch_offset)))), 0)"
    )
    is_audited_error = f"p.error_code in ({_AUDITED_ERRORS})"
    return (
        requests.window.not_plain(api_fields.api)
        # Filtered before exploding: responses with errors are rare.
        .where(
            f"exists({api_fields.response_topics},"
            f" t -> exists(t.partitions, p -> {is_audited_error}))"
        )
        .select(
            host(),
            "client_id",
            "client",
            "broker",
            f.col("offset").alias("position"),
            f.unix_micros("response_ts").alias("end_us"),
            "request",
            f.explode(api_fields.response_topics).alias("t"),
        )
        .select("*", f.explode("t.partitions").alias("p"))
        .where(is_audited_error)
        .withColumn("given", f.expr(request_fields))
        .select(
            *("host", "client_id", "client", "broker", "position", "end_us"),
            f.lit(api_fields.api).alias("api"),
            f.col(f"t.{api_fields.topic_name}").alias("topic"),
            (f.hex("t.topic_id") if api_fields.has_ids else f.lit(None).cast("string")).alias(
                "topic_id"
            ),
            f.col(f"p.{api_fields.response_partition}").alias("partition"),
            f.col("p.error_code").alias("error"),
            f.expr("nullif(given.epoch, -1)").alias("epoch"),
            "given.fetch_offset",
        )
    )


def epoch_errors(errors: DataFrame) -> DataFrame:
    """Return leader epoch errors by client, broker and partition, as `EPOCH_ERRORS`."""
    names = f.create_map(
        *(f.lit(item) for code in _LEADER_EPOCH_ERRORS for item in (int(code), code.name))
    )
    return EPOCH_ERRORS.shape(
        errors.where(f.col("error") != ErrorCode.OFFSET_OUT_OF_RANGE)
        .groupBy(
            *_CLIENT_PARTITION, "broker", "api", names[f.col("error").cast("int")].alias("error")
        )
        .agg(
            f.count(f.lit(1)).alias("occurrences"),
            f.timestamp_micros(f.min("end_us")).alias("first_at"),
            f.timestamp_micros(f.max("end_us")).alias("last_at"),
            f.min("epoch").alias("lowest_epoch"),
            f.max("epoch").alias("highest_epoch"),
        )
    )


def listed_offsets(requests: Requests) -> DataFrame:
    """Return the offsets in ListOffsets responses: earliest, latest, or by time."""
    requested_timestamp = (
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
            f.unix_micros("response_ts").alias("answered_us"),
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
            "answered_us",
            f.expr(requested_timestamp).alias("of"),
            f.col("p.offset").alias("offset"),
        )
    )


def log_starts(requests: Requests, topics: DataFrame, out_of_range: DataFrame) -> DataFrame:
    """Return the starts of logs: (topic, partition, at_us, log_start).

    Those in answers to DeleteRecords, and those that clients out of range got later by Fetch.
    """
    clients = f.broadcast(out_of_range.select("host", "client_id").distinct())
    fetched = (
        requests.window.of("Fetch")
        .select(
            host(),
            "client_id",
            f.unix_micros("response_ts").alias("at_us"),
            f.explode("response.responses").alias("t"),
        )
        .join(clients, ["host", "client_id"], "semi")
        .select(
            "at_us",
            f.col("t.topic").alias("topic"),
            f.hex("t.topic_id").alias("topic_id"),
            f.explode("t.partitions").alias("p"),
        )
        .where((f.col("p.error_code") == ErrorCode.NONE) & (f.col("p.log_start_offset") > 0))
        .select(
            *("at_us", "topic", "topic_id"),
            f.col("p.partition_index").alias("partition"),
            f.col("p.log_start_offset").alias("log_start"),
        )
    )
    deleted = (
        requests.window.of("DeleteRecords")
        .select(
            f.unix_micros("response_ts").alias("at_us"), f.explode("response.topics").alias("t")
        )
        .select("at_us", f.col("t.name").alias("topic"), f.explode("t.partitions").alias("p"))
        .where(f.col("p.error_code") == ErrorCode.NONE)
        .select(
            *("at_us", "topic"),
            f.lit(None).cast("string").alias("topic_id"),
            f.col("p.partition_index").alias("partition"),
            f.col("p.low_watermark").alias("log_start"),
        )
    )
    return with_topic_names(fetched.unionByName(deleted), topics).drop("topic_id")


def _with_log_start(out_of_range: DataFrame, starts: DataFrame, within_us: int) -> DataFrame:
    """Add `log_start` to each fetch: where the log starts, as far as answers show it.

    A log start grows, so an answer within `within_us` shows why the offset was out of range.
    """
    candidates = starts.select(
        f.col("topic").alias("of_topic"),
        f.col("partition").alias("of_partition"),
        f.col("at_us").alias("shown_us"),
        "log_start",
    )
    is_shown = f.expr(
        f"topic = of_topic and partition = of_partition and shown_us < end_us + {within_us}"
    )
    row = f.struct(*out_of_range.columns).alias("r")
    return (
        out_of_range.join(f.broadcast(candidates), is_shown, "left")
        .groupBy(row)
        .agg(f.max("log_start").alias("log_start"))
        .select("r.*", "log_start")
    )


def _with_log_end(out_of_range: DataFrame, watermarks: DataFrame) -> DataFrame:
    """Add `log_end_offset` to each fetch: the end of the log, as far as high watermarks show it."""
    # Few partitions have such errors, so watermarks of other partitions are dropped first.
    partitions = f.broadcast(out_of_range.select("topic", "partition").distinct())
    candidates = watermarks.join(partitions, ["topic", "partition"], "left_semi").select(
        f.col("topic").alias("of_topic"),
        f.col("partition").alias("of_partition"),
        "at_us",
        "high_watermark",
    )
    is_same_partition = f.expr("topic = of_topic and partition = of_partition")
    # If a later high watermark is below the offset, the log ended below the offset before, too.
    log_end_offset = (
        "coalesce(max(high_watermark) filter (where at_us <= end_us),"
        " min(high_watermark) filter (where at_us > end_us and high_watermark < fetch_offset))"
    )
    row = f.struct(*out_of_range.columns).alias("r")
    return (
        out_of_range.join(candidates, is_same_partition, "left")
        .groupBy(row)
        .agg(f.expr(log_end_offset).alias("log_end_offset"))
        .select("r.*", "log_end_offset")
    )


def _with_reset(out_of_range: DataFrame, listed: DataFrame, within_us: int) -> DataFrame:
    """Add `reset` to each fetch: the next offset that its client requested within `within_us`."""
    candidates = listed.select(
        *(f.col(name).alias(f"its_{name}") for name in _CLIENT_PARTITION),
        "asked_us",
        f.struct("answered_us", "of", "offset").alias("o"),
    )
    is_of_client = f.expr(
        " and ".join(f"{name} <=> its_{name}" for name in _CLIENT_PARTITION)
        + f" and asked_us >= end_us and asked_us < end_us + {within_us}"
    )
    row = f.struct(*out_of_range.columns).alias("r")
    return (
        out_of_range.join(candidates, is_of_client, "left")
        .groupBy(row)
        .agg(f.min_by("o", f.struct("asked_us", "o")).alias("reset"))
        .select("r.*", "reset")
    )


def resets(
    errors: DataFrame,
    listed: DataFrame,
    watermarks: DataFrame,
    starts: DataFrame,
    within_us: int,
) -> DataFrame:
    """Return fetches out of range and the resets that followed, as `RESETS`."""
    out_of_range = errors.where(f.col("error") == ErrorCode.OFFSET_OUT_OF_RANGE).drop(
        "error", "epoch"
    )
    with_start = _with_log_start(out_of_range, starts, within_us)
    with_resets = _with_reset(_with_log_end(with_start, watermarks), listed, within_us)
    log_start = f.greatest(
        f.when(f.col("reset.of") == _EARLIEST, f.col("reset.offset")), f.col("log_start")
    )
    cause = (
        f.when(f.col("fetch_offset") < log_start, DELETED)
        .when(f.col("fetch_offset") <= f.col("log_end_offset"), BEHIND)
        .when(f.col("fetch_offset") > f.col("log_end_offset"), BEYOND)
        .otherwise(UNKNOWN)
    )
    # A consumer cannot have read beyond the end of the log.
    read_until = f.when(f.col("cause") == BEYOND, f.col("log_end_offset")).otherwise(
        f.col("fetch_offset")
    )
    difference = f.col("reset.offset") - read_until
    return RESETS.shape(
        with_resets.withColumn("cause", cause).withColumns(
            {
                "at": f.timestamp_micros("end_us"),
                "reset_at": f.timestamp_micros("reset.answered_us"),
                "reset_policy": f.when(f.col("reset.of") == _EARLIEST, "earliest")
                .when(f.col("reset.of") == _LATEST, "latest")
                .when(f.col("reset").isNotNull(), "time"),
                "reset_to": f.col("reset.offset"),
                "records_reread": f.when(difference.isNotNull(), f.greatest(-difference, f.lit(0))),
                "records_skipped": f.when(difference.isNotNull(), f.greatest(difference, f.lit(0))),
            }
        )
    )
