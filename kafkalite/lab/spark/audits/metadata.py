"""Audit of stale metadata (KIP-232): responses with outdated metadata, and their consequences.

A client may ask any broker, and brokers learn of changes at different times. Metadata is stale if
the client had already received newer metadata. A capture identifies a client only by address and
client id, which several clients can share. Each finding says whether the connection itself had
already returned the newer metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits import resets
from kafkalite.lab.spark.audits.contract import Audit, AuditOptions
from kafkalite.lab.spark.audits.partition_epochs import (
    OUTDATED_REQUESTS,
    RECREATED,
    outdated_requests,
    recreated_topics,
)
from kafkalite.lab.spark.dataframes import Window, shared, union
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.high_watermarks import NO_HIGH_WATERMARKS, all_high_watermarks
from kafkalite.lab.spark.state.metadata_views import host, max_epochs, views
from kafkalite.lab.spark.state.partition_epochs import PARTITION_EPOCHS
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.lab.spark.state.windows import rows_before_current
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

BY_PARTITION_EPOCH: Final = "partition epoch"
BY_EPOCH: Final = "leader epoch"
BY_MAX_EPOCH: Final = "maximum partition epoch"
BY_ID: Final = "topic id"

STALE = table(
    "stale_metadata",
    "A response with metadata of a partition that was older than the metadata the client knew",
    ("at", "timestamp", "time of the response"),
    ("host", "string", "the client's address"),
    ("client_id", "string", "the client id"),
    ("client", "string", "host:port of the connection"),
    ("broker", "string", "the broker: host:port"),
    ("api", "string", "API of the request"),
    ("topic", "string", "the topic; null for a maximum partition epoch"),
    ("partition", "int", "the partition; null for a maximum partition epoch"),
    (
        "kind",
        "string",
        (
            "partition epoch: that of a partition deleted since; leader epoch: an earlier leader; "
            "maximum partition epoch: only this shows that a topic was created or deleted since; "
            "topic id: the id of a topic deleted since, in a response without partition epochs"
        ),
    ),
    ("received_epoch", "int", "the epoch of this kind in the response; a leader epoch for an id"),
    ("known_epoch", "int", "the epoch of this kind that the client knew; null for a topic id"),
    ("known_since", "timestamp", "time since which the client knew the newer metadata"),
    (
        "evidence",
        "string",
        (
            "connection: the same connection had returned the newer metadata; "
            "client: another connection of the same address and client id had"
        ),
    ),
    (
        "errors_after",
        "bigint",
        (
            "FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, "
            "INVALID_PARTITION_EPOCH errors afterwards"
        ),
    ),
    ("out_of_range_after", "bigint", "OFFSET_OUT_OF_RANGE errors afterwards"),
    ("resets_after", "bigint", "offset lookups by the client after OFFSET_OUT_OF_RANGE"),
    ("epoch_checks_after", "bigint", "OffsetForLeaderEpoch requests afterwards"),
    times=("at",),
)

_PARTITION: Final = ("host", "client_id", "topic", "partition")
_ORDER: Final = ("at_us", "position")
_EPOCH_ERRORS: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.INVALID_PARTITION_EPOCH,
)
_IS_OUT_OF_RANGE: Final = f"error = {int(ErrorCode.OFFSET_OUT_OF_RANGE)}"
_RESET, _EPOCH_CHECK, _EPOCH_ERROR, _OUT_OF_RANGE = "reset", "check", "error", "out of range"


def metadata(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    topics = requests.state("topics")
    errors = shared(resets.partition_errors(requests, topics))
    epochs = requests.state(PARTITION_EPOCHS.name)
    view_rows = shared(views(requests))
    stale_rows = all_kinds(stale_partitions(view_rows, epochs), stale_maxima(max_epochs(requests)))
    return {
        STALE.name: with_consequences(
            stale_rows, consequence_rows(requests, topics), options.effect_window_ms * 1000
        ),
        RECREATED.name: recreated_topics(view_rows),
        OUTDATED_REQUESTS.name: outdated_requests(requests, topics, epochs),
        resets.RESETS.name: resets.resets(
            errors,
            resets.listed_offsets(requests),
            _high_watermarks(requests, topics, errors),
            resets.log_starts(requests, topics, errors.where(_IS_OUT_OF_RANGE)),
            options.effect_window_ms * 1000,
        ),
        resets.EPOCH_ERRORS.name: resets.epoch_errors(errors),
    }


def _high_watermarks(requests: Requests, topics: DataFrame, errors: DataFrame) -> DataFrame:
    """Return all high watermarks; none if no fetch was out of range, because all are many."""
    if errors.where(_IS_OUT_OF_RANGE).isEmpty():
        return NO_HIGH_WATERMARKS.empty(requests.spark)
    return all_high_watermarks(requests, topics)


def stale_partitions(view_rows: DataFrame, epochs: DataFrame) -> DataFrame:
    """Return the partitions in stale responses, from rows of `views` and of `partition_epochs`."""
    outdated = _outdated_views(view_rows, epochs)
    by_partition_epoch = f.col("is_of_deleted")
    return outdated.select(
        *VIEW_COLUMNS,
        f.when(by_partition_epoch, BY_PARTITION_EPOCH)
        .when(f.col("is_older"), BY_EPOCH)
        .otherwise(BY_ID)
        .alias("kind"),
        f.when(by_partition_epoch, f.col("partition_epoch"))
        .otherwise(f.col("leader_epoch"))
        .alias("received_epoch"),
        f.when(by_partition_epoch, f.col("known_epoch.partition_epoch"))
        .when(f.col("is_older"), f.col("known.leader_epoch"))
        .alias("known_epoch"),
        f.when(by_partition_epoch, -f.col("known_epoch.minus_at"))
        .when(f.col("is_older"), -f.col("known.minus_at"))
        .otherwise(f.col("newest_us"))
        .alias("known_us"),
        _evidence(
            f.when(by_partition_epoch, f.expr("epoch_here > partition_epoch")).otherwise(
                f.expr("here > leader_epoch")
            )
        ),
    )


def _outdated_views(view_rows: DataFrame, epochs: DataFrame) -> DataFrame:
    """Return the outdated rows of `views`, with what the client knew, and why they are outdated."""
    seen = f.struct("leader_epoch", f.negative("at_us").alias("minus_at"))
    first_seen = f.min("at_us").over(Window.partitionBy(*_PARTITION, "topic_id"))
    # Leader epochs of one incarnation are comparable. Some versions have no topic ids.
    incarnation = f.when(f.col("topic_id") == "", f.col("partition_epoch").cast("string"))
    of_incarnation = (*_PARTITION, "incarnation")
    return (
        _with_known_partition_epochs(view_rows, epochs)
        .withColumn("incarnation", f.coalesce(incarnation, "topic_id"))
        .withColumns(
            {
                "known": f.max(seen).over(rows_before_current(of_incarnation, _ORDER)),
                "here": f.max("leader_epoch").over(
                    rows_before_current((*of_incarnation, "connection"), _ORDER)
                ),
                "first_us": first_seen,
            }
        )
        .withColumn("newest_us", f.max("first_us").over(rows_before_current(_PARTITION, _ORDER)))
        .withColumns(
            {
                "is_of_deleted": f.expr("partition_epoch < known_epoch.partition_epoch"),
                "is_older": f.expr("leader_epoch < known.leader_epoch"),
                "is_gone": f.expr(
                    "topic_id != '' and partition_epoch is null and first_us < newest_us"
                ),
            }
        )
        .where("is_of_deleted or is_older or is_gone")
    )


def _with_known_partition_epochs(view_rows: DataFrame, epochs: DataFrame) -> DataFrame:
    """Add the largest partition epoch in earlier responses, to the client and on the connection."""
    seen = f.struct("partition_epoch", f.negative("at_us").alias("minus_at"))
    received = epochs.withColumns({"position": f.lit(-1), "is_view": f.lit(False)})
    return (
        view_rows.withColumn("is_view", f.lit(True))
        .unionByName(received, allowMissingColumns=True)
        .withColumns(
            {
                "known_epoch": f.max(seen).over(rows_before_current(_PARTITION, _ORDER)),
                "epoch_here": f.max("partition_epoch").over(
                    rows_before_current((*_PARTITION, "connection"), _ORDER)
                ),
            }
        )
        .where("is_view")
    )


def stale_maxima(max_rows: DataFrame) -> DataFrame:
    """Return the responses whose maximum partition epoch is stale, from rows of `max_epochs`."""
    cluster = ("host", "client_id", "cluster_id")
    seen = f.struct("max_partition_epoch", f.negative("at_us").alias("minus_at"))
    return (
        max_rows.withColumns(
            {
                "known": f.max(seen).over(rows_before_current(cluster, _ORDER)),
                "here": f.max("max_partition_epoch").over(
                    rows_before_current((*cluster, "connection"), _ORDER)
                ),
                "topic": f.lit(None).cast("string"),
                "partition": f.lit(None).cast("int"),
            }
        )
        .where("max_partition_epoch < known.max_partition_epoch")
        .select(
            *VIEW_COLUMNS,
            f.lit(BY_MAX_EPOCH).alias("kind"),
            f.col("max_partition_epoch").alias("received_epoch"),
            f.col("known.max_partition_epoch").alias("known_epoch"),
            (-f.col("known.minus_at")).alias("known_us"),
            _evidence(f.expr("here > max_partition_epoch")),
        )
    )


def all_kinds(partitions: DataFrame, maxima: DataFrame) -> DataFrame:
    """Return stale partitions, and stale maxima in responses without stale partitions."""
    response = ["connection", "position"]
    others = maxima.join(partitions.select(*response).distinct(), response, "left_anti")
    return partitions.unionByName(others)


def _evidence(is_on_connection: Column) -> Column:
    return f.when(is_on_connection, "connection").otherwise("client").alias("evidence")


VIEW_COLUMNS: Final = (
    "host", "client_id", "client", "broker", "connection", "position", "api", "topic", "partition",
    "at_us",
)  # fmt: skip


def with_consequences(stale_rows: DataFrame, consequences: DataFrame, within_us: int) -> DataFrame:
    """Return stale responses with the numbers of consequences, as `STALE`."""
    is_consequence = f.expr(
        "s.host = a.host and s.client_id <=> a.client_id and s.topic = a.topic"
        " and s.partition = a.partition and a.after_us >= s.at_us"
        f" and a.after_us < s.at_us + {within_us}"
    )
    row = f.struct(*(f"s.{name}" for name in stale_rows.columns)).alias("s")
    counts = {
        "errors_after": _EPOCH_ERROR,
        "out_of_range_after": _OUT_OF_RANGE,
        "resets_after": _RESET,
        "epoch_checks_after": _EPOCH_CHECK,
    }
    return STALE.shape(
        stale_rows.alias("s")
        .join(consequences.alias("a"), is_consequence, "left")
        .groupBy(row)
        .agg(
            *(
                f.count_if(f.coalesce(f.col("a.consequence") == consequence, f.lit(False))).alias(
                    name
                )
                for name, consequence in counts.items()
            )
        )
        .select("s.*", *counts)
        .withColumns(
            {"at": f.timestamp_micros("at_us"), "known_since": f.timestamp_micros("known_us")}
        )
    )


def consequence_rows(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return possible consequences of stale metadata.

    The columns are host, client_id, topic, partition, after_us and consequence.
    """
    kinds = (_fetch_errors(requests), _offset_lookups(requests), _epoch_checks(requests))
    events = with_topic_names(union(kinds), topics).drop("topic_id")
    # Clients look offsets up for many reasons. Only a lookup after OFFSET_OUT_OF_RANGE is a reset.
    by = ("host", "client_id", "topic", "partition")
    out_of_range_count = f.count_if(f.col("consequence") == _OUT_OF_RANGE).over(
        rows_before_current(by, ("after_us",))
    )
    return (
        events.withColumn("out_of_range_count", out_of_range_count)
        .where(f"consequence != '{_RESET}' or out_of_range_count > 0")
        .drop("out_of_range_count")
    )


def _fetch_errors(requests: Requests) -> DataFrame:
    code = f.col("p.error_code")
    consequence = f.when(code == ErrorCode.OFFSET_OUT_OF_RANGE, _OUT_OF_RANGE).when(
        code.isin(*(int(code) for code in _EPOCH_ERRORS)), _EPOCH_ERROR
    )
    return (
        requests.not_plain("Fetch")
        .select(
            host(),
            "client_id",
            f.unix_micros("response_ts").alias("after_us"),
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
            consequence.alias("consequence"),
        )
        .where("consequence is not null")
    )


def _offset_lookups(requests: Requests) -> DataFrame:
    return _partition_requests(requests, "ListOffsets", "name", "partition_index", _RESET)


def _epoch_checks(requests: Requests) -> DataFrame:
    return _partition_requests(requests, "OffsetForLeaderEpoch", "topic", "partition", _EPOCH_CHECK)


def _partition_requests(
    requests: Requests, api: str, name: str, partition: str, consequence: str
) -> DataFrame:
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
            f.lit(consequence).alias("consequence"),
        )
    )


METADATA = Audit(
    "metadata",
    (
        "responses with stale metadata, fetches out of range, requests to the wrong leader or with "
        "outdated partition epochs, and recreated topics"
    ),
    (STALE, resets.RESETS, resets.EPOCH_ERRORS, RECREATED, OUTDATED_REQUESTS),
    metadata,
)
"""The audit `metadata`."""
