"""Health of a cluster: latency, errors, rebalances, retries, hot partitions, slow clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.contract import Audit, AuditOptions
from kafkalite.lab.spark.dataframes import Window
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.errors import ERROR_NAMES, errors
from kafkalite.lab.spark.state.heartbeats import RUNS
from kafkalite.lab.spark.state.liveness import CLASSIC, JOIN, LEAVE, MEMBERSHIP_REQUESTS
from kafkalite.lab.spark.state.metadata_views import host
from kafkalite.lab.spark.state.partition_sums import PARTITION_SUMS
from kafkalite.lab.spark.state.request_sums import (
    BY_CLIENT,
    BY_CONNECTION,
    BY_TIME,
    LONG_POLLS,
    REQUEST_SUMS,
    percentiles,
)
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.lab.spark.state.written_batches import WRITTEN_BATCHES, written_batches
from kafkalite.protocol import codec
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

LATENCY = table(
    "latency",
    "Latency of one API over the whole capture",
    ("api", "string", "the API"),
    ("requests", "bigint", "number of requests"),
    ("unanswered", "bigint", "requests without a response, including those that expect none"),
    ("bytes_in", "bigint", "bytes of requests"),
    ("bytes_out", "bigint", "bytes of responses"),
    ("p50_ms", "double", "latency: median, as all percentiles to four significant digits"),
    ("p90_ms", "double", "latency: 90th percentile"),
    ("p99_ms", "double", "latency: 99th percentile"),
    ("p999_ms", "double", "latency: 99.9th percentile"),
    ("max_ms", "double", "latency: maximum"),
)

LOAD = table(
    "load",
    "Requests of one API in a bucket of time",
    ("at", "timestamp", "start of the bucket"),
    ("api", "string", "the API"),
    ("requests", "bigint", "number of requests"),
    ("p99_ms", "double", "latency: 99th percentile"),
)

ERRORS = table(
    "error_counts",
    "Occurrences of one error in the responses of one API",
    ("api", "string", "the API"),
    ("error", "smallint", "the error code"),
    ("name", "string", "the error's name"),
    ("occurrences", "bigint", "number of occurrences, one per partition"),
    (
        "expected",
        "bigint",
        (
            "of these, occurrences in normal use: the protocol assigns a member id or starts a "
            "rebalance by this error, or the topic was created after the request"
        ),
    ),
    ("clients", "bigint", "number of clients that received it"),
    ("first_at", "timestamp", "first occurrence"),
    ("last_at", "timestamp", "last occurrence"),
)

REBALANCES = table(
    "rebalances",
    "Number of new epochs or generations of a group in a minute",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams, share or classic"),
    ("at", "timestamp", "start of the minute"),
    ("rebalances", "bigint", "number of new epochs or generations"),
    (
        "is_storm",
        "boolean",
        (
            "whether it has at least --rebalance-storm-threshold rebalances, and more than two for"
            " each join and leave in this minute or the one before, of which four per client count"
        ),
    ),
    times=("at",),
)

TRAFFIC = table(
    "partition_traffic",
    "Bytes written to and read from a partition",
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("bytes_in", "bigint", "bytes of records written, after compression"),
    ("bytes_out", "bigint", "bytes of records read, after compression"),
    ("share_of_topic", "double", "its share of the topic's written and read bytes"),
    ("is_hot", "boolean", "whether the share is more than three times an even share"),
)

CLIENTS = table(
    "clients",
    "A client, identified by address and client id",
    ("host", "string", "its address"),
    ("client_id", "string", "its client id"),
    ("connections", "bigint", "number of connections"),
    ("requests", "bigint", "number of requests"),
    ("unanswered", "bigint", "of these, requests without a response"),
    ("p50_ms", "double", "latency without long polls: median"),
    ("p99_ms", "double", "latency without long polls: 99th percentile"),
    ("retries", "bigint", "batches sent again: same producer id, epoch and sequence"),
)

_CLIENT_PERCENTILES: Final = ("p50_ms", "p99_ms")
LONG_POLL_APIS: Final = tuple(codec.api_name(int(key)) for key in LONG_POLLS)
_BYTES: Final = ("bytes_in", "bytes_out")
_EXPECTED_ERRORS: Final = (
    ("JoinGroup", ErrorCode.MEMBER_ID_REQUIRED),
    ("Heartbeat", ErrorCode.REBALANCE_IN_PROGRESS),
    ("SyncGroup", ErrorCode.REBALANCE_IN_PROGRESS),
    *(
        (api, ErrorCode.CONCURRENT_TRANSACTIONS)
        for api in (
            "InitProducerId",
            "AddPartitionsToTxn",
            "AddOffsetsToTxn",
            "EndTxn",
            "TxnOffsetCommit",
            "Produce",
        )
    ),
)
"""(API, error) by which the classic protocol assigns a member id or starts a rebalance, or by which
a producer waits until the coordinator has ended its previous transaction."""
_CREATION_ERRORS: Final = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
)
"""Errors of a topic that is being created."""
_HOT_FACTOR: Final = 3
_MINUTE_US: Final = 60_000_000
_MINUTES: Final = ("group_id", "protocol", "minute_us")
_REBALANCES_PER_CHANGE: Final = 2
"""A member that joins or leaves causes two rebalances in a cooperative group: one that revokes
partitions, and one that assigns them."""
_CHANGES_PER_CLIENT: Final = 4


def health(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    sums = requests.state(REQUEST_SUMS.name)
    occurrences = errors(requests)
    return {
        LATENCY.name: latency(sums),
        LOAD.name: load(sums),
        ERRORS.name: error_counts(occurrences, errors_before_creation(requests)),
        REBALANCES.name: rebalances(
            requests.state(MEMBERSHIP_REQUESTS.name), options.rebalance_storm_threshold
        ),
        TRAFFIC.name: traffic(requests, requests.state("topics"), options.since_us),
        CLIENTS.name: clients(sums, retries(requests)),
    }


def _api_name() -> Column:
    pairs = [f.lit(item) for key in codec.api_keys() for item in (key, codec.api_name(key))]
    return f.coalesce(
        f.create_map(*pairs)[f.col("api_key").cast("int")], f.col("api_key").cast("string")
    )


_PERCENTILES: Final = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


def latency(sums: DataFrame) -> DataFrame:
    """Return the latency of each API, as `LATENCY`; `sums` has rows of `REQUEST_SUMS`."""
    return LATENCY.shape(
        percentiles(
            sums.where(f.col("kind") == BY_TIME).withColumn("api", _api_name()),
            ("api",),
            _PERCENTILES,
            *(f.sum(name).alias(name) for name in ("requests", "unanswered", *_BYTES)),
            (f.max("max_latency_us") / 1000).alias("max_ms"),
        )
    )


def load(sums: DataFrame) -> DataFrame:
    """Return requests over time, as `LOAD`; `sums` has rows of `REQUEST_SUMS`."""
    by_time = sums.where(f.col("kind") == BY_TIME).withColumns(
        {"api": _api_name(), "at": f.timestamp_micros("bucket_us")}
    )
    fractions = {"p99_ms": _PERCENTILES["p99_ms"]}
    return LOAD.shape(
        percentiles(by_time, ("api", "at"), fractions, f.sum("requests").alias("requests"))
    )


def error_counts(occurrences: DataFrame, before_creation: DataFrame) -> DataFrame:
    """Return the number of each error, as `ERRORS`.

    `before_creation` is the result of `errors_before_creation`.
    """
    names = f.create_map(*(f.lit(item) for pair in ERROR_NAMES.items() for item in pair))
    expected = [f"(api = '{api}' and error = {int(error)})" for api, error in _EXPECTED_ERRORS]
    return ERRORS.shape(
        occurrences.groupBy("api", "error")
        .agg(
            f.count(f.lit(1)).alias("occurrences"),
            f.count_distinct("client").alias("clients"),
            f.min("at").alias("first_at"),
            f.max("at").alias("last_at"),
        )
        .join(f.broadcast(before_creation), ["api", "error"], "left")
        .withColumn(
            "expected",
            f.when(f.expr(" or ".join(expected)), f.col("occurrences")).otherwise(
                f.coalesce("before_creation", f.lit(0))
            ),
        )
        .withColumn("name", names[f.col("error").cast("int")])
    )


def errors_before_creation(requests: Requests) -> DataFrame:
    """Return errors of Metadata before a topic was created: (api, error, before_creation).

    The first response without an error for such a topic follows within a minute.
    """
    topics = (
        requests.of("Metadata")
        .where("response_ts is not null")
        .select(f.unix_micros("ts").alias("at_us"), f.explode("response.topics").alias("t"))
        .where("t.name is not null")
        .select(
            "at_us",
            f.col("t.name").alias("topic"),
            f.expr("concat(array(t.error_code), t.partitions.error_code)").alias("codes"),
        )
    )
    has_no_error = "array_max(codes) = 0 and array_min(codes) = 0"
    created = topics.where(has_no_error).groupBy("topic").agg(f.min("at_us").alias("created_us"))
    return (
        topics.where(f"not ({has_no_error})")
        .join(created, "topic")
        .where(f"at_us < created_us and created_us - at_us <= {_MINUTE_US}")
        .select(f.explode("codes").alias("error"))
        .where(f.col("error").isin([int(error) for error in _CREATION_ERRORS]))
        .groupBy("error")
        .agg(f.count(f.lit(1)).alias("before_creation"))
        .select(f.lit("Metadata").alias("api"), "error", "before_creation")
    )


def rebalances(membership_requests: DataFrame, rebalance_storm_threshold: int) -> DataFrame:
    """Return the number of rebalances of groups, as `REBALANCES`."""
    accepted = membership_requests.where(
        (f.col("error") == ErrorCode.NONE) & (f.col("generation") > 0) & f.col("end_us").isNotNull()
    )
    new_generations = accepted.groupBy("group_id", "protocol", "generation").agg(
        f.min("end_us").alias("at_us")
    )
    per_minute = new_generations.groupBy("group_id", "protocol", _minute(f.col("at_us"))).agg(
        f.count(f.lit(1)).alias("rebalances")
    )
    is_explained = f.col("rebalances") <= f.coalesce("changes", f.lit(0)) * _REBALANCES_PER_CHANGE
    return REBALANCES.shape(
        per_minute.join(_membership_changes(membership_requests), [*_MINUTES], "left")
        .withColumn("is_storm", (f.col("rebalances") >= rebalance_storm_threshold) & ~is_explained)
        .withColumn("at", f.timestamp_micros("minute_us"))
    )


def _membership_changes(membership_requests: DataFrame) -> DataFrame:
    """Return how often clients joined or left a group in a minute or the one before.

    Of each client, only as many changes count as a start, a restart and a stop have.
    """
    has_no_id = (f.col("protocol") != CLASSIC) | (f.col("request_member_id") == "")
    is_change = (f.col("action") == LEAVE) | ((f.col("action") == JOIN) & has_no_id)
    # A rebalance may follow in the next minute.
    minutes = f.array(*(f.col("start_us") + delay_us for delay_us in (0, _MINUTE_US)))
    return (
        membership_requests.where(is_change)
        .select(
            "group_id",
            "protocol",
            f.coalesce("client_id", f.lit("")).alias("client_id"),
            host(),
            f.explode(minutes).alias("at_us"),
        )
        .groupBy("group_id", "protocol", _minute(f.col("at_us")), "client_id", "host")
        .agg(f.count(f.lit(1)).alias("changes"))
        .select(*_MINUTES, f.least("changes", f.lit(_CHANGES_PER_CLIENT)).alias("changes"))
        .groupBy(*_MINUTES)
        .agg(f.sum("changes").alias("changes"))
    )


def _minute(at_us: Column) -> Column:
    """Return the start of a minute in microseconds, as the last of `_MINUTES`."""
    return (at_us - at_us % _MINUTE_US).alias(_MINUTES[-1])


def traffic(requests: Requests, topics: DataFrame, since_us: int | None) -> DataFrame:
    """Return bytes written and read by partition since a time, as `TRAFFIC`."""
    by = ("topic", "partition")
    in_buckets = requests.state(PARTITION_SUMS.name)
    if since_us is not None:
        in_buckets = in_buckets.where(f.col("bucket_us") >= since_us)
    # Joining with names after the sum handles one row per partition instead of one per request.
    sums = with_topic_names(_sum_bytes(in_buckets, *by, "topic_id"), topics)
    same_topic = Window.partitionBy("topic")
    total_bytes = f.col("bytes_in") + f.col("bytes_out")
    share = f.try_divide(total_bytes, f.sum(total_bytes).over(same_topic))
    shares = _sum_bytes(sums, *by).withColumns(
        {"share_of_topic": share, "partitions": f.count(f.lit(1)).over(same_topic)}
    )
    is_hot = (f.col("partitions") > _HOT_FACTOR) & (
        f.col("share_of_topic") * f.col("partitions") > _HOT_FACTOR
    )
    return TRAFFIC.shape(shares.withColumn("is_hot", is_hot))


def _sum_bytes(sums: DataFrame, *by: str) -> DataFrame:
    return sums.groupBy(*by).agg(
        f.coalesce(f.sum("bytes_in"), f.lit(0)).alias("bytes_in"),
        f.coalesce(f.sum("bytes_out"), f.lit(0)).alias("bytes_out"),
    )


def retries(requests: Requests) -> DataFrame:
    """Return the number of batches that each client sent again: (host, client_id, retries)."""
    repeated = (
        written_batches(requests)
        .withColumn("host", host())
        .groupBy("host", "client_id", "topic", "topic_id", "partition", "batch")
        .agg(f.sum("times").alias("times"))
        .where("times > 1")
    )
    return repeated.groupBy("host", "client_id").agg(f.sum(f.col("times") - 1).alias("retries"))


def clients(sums: DataFrame, retry_counts: DataFrame) -> DataFrame:
    """Return requests, latency and retries of each client, as `CLIENTS`.

    `sums` has rows of `REQUEST_SUMS`.
    """
    of_clients = sums.where(f.col("kind").isin(BY_CLIENT, BY_CONNECTION))
    by_client = percentiles(
        of_clients,
        ("host", "client_id"),
        {name: _PERCENTILES[name] for name in _CLIENT_PERCENTILES},
        f.count_distinct("connection").alias("connections"),
        *(f.sum(name).alias(name) for name in ("requests", "unanswered")),
    )
    counted = retry_counts.withColumnRenamed("host", "its_host").withColumnRenamed(
        "client_id", "its_id"
    )
    is_same_client = (f.col("host") == f.col("its_host")) & f.col("client_id").eqNullSafe(
        f.col("its_id")
    )
    return CLIENTS.shape(
        by_client.join(counted, is_same_client, "left").withColumn(
            "retries", f.coalesce("retries", f.lit(0))
        )
    )


HEALTH = Audit(
    "health",
    "latency, errors, rebalance storms, retries, hot partitions and slow clients",
    (LATENCY, LOAD, ERRORS, REBALANCES, TRAFFIC, CLIENTS),
    health,
    (RUNS.name, PARTITION_SUMS.name, REQUEST_SUMS.name),
    (WRITTEN_BATCHES,),
)
"""The audit `health`."""
