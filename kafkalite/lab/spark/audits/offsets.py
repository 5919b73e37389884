"""Expiry of committed offsets (KIP-211), rewinds caused by it, and consumer lag.

Offsets of a classic group expire after the group has been empty for the retention time. Offsets
of consumer and streams groups, and of clients that are not members, expire the retention time after
their commit, but not while the group has members. Offsets of a topic that no member subscribes to
expire the retention time after their commit too. Old clients may request another retention time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.audits.contract import Audit, AuditOptions
from kafkalite.lab.spark.audits.retained_offsets import (
    RETAINED_OFFSETS,
    retained_offsets,
    retention_us,
)
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import shared, union
from kafkalite.lab.spark.state.accepted_offsets import ACCEPTED_OFFSETS
from kafkalite.lab.spark.state.group_presence import empty_intervals
from kafkalite.lab.spark.state.heartbeats import RUNS
from kafkalite.lab.spark.state.high_watermarks import high_watermarks
from kafkalite.lab.spark.state.liveness import CLASSIC, MEMBERSHIP_REQUESTS
from kafkalite.lab.spark.state.partition_sums import PARTITION_SUMS
from kafkalite.lab.spark.state.subscriptions import SUBSCRIPTIONS
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.time_range import TIME_RANGE
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.lab.spark.state.windows import ordered_rows, rows_up_to_current
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

LOST: Final = "lost"
EXPIRED: Final = "expired"
AT_RISK: Final = "at risk"
SIMPLE: Final = "simple"

EXPIRY = table(
    "offset_expiry",
    "A committed offset that expires before the group commits it again",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams or classic; simple without members"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("committed_at", "timestamp", "time of the commit"),
    ("empty_since", "timestamp", "time since which the group was empty; null if it had no members"),
    (
        "unsubscribed_since",
        "timestamp",
        "time since which no member subscribed to the topic; null if it expires for another reason",
    ),
    ("expires_at", "timestamp", "time at which the offset expires"),
    (
        "outcome",
        "string",
        (
            "lost: it expires, and the group returns within the capture; expired: it expires "
            "within the capture, and the group does not return; at risk: it expires after the "
            "capture unless members return"
        ),
    ),
    ("returned_at", "timestamp", "time at which the group fetched or committed it again"),
    ("was_missing", "boolean", "whether a broker then returned no offset"),
    times=("expires_at", "returned_at"),
)

LAG = table(
    "consumer_lag",
    "A group's lag in a partition at its last commit in a bucket of time",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("at", "timestamp", "start of the bucket"),
    ("committed_offset", "bigint", "the last offset committed in the bucket"),
    ("high_watermark", "bigint", "the highest known high watermark by the end of the bucket"),
    ("lag", "bigint", "high watermark minus committed offset, at least 0"),
    times=("at",),
)

EXPIRY_CANDIDATES = table(
    "expiry_candidates",
    "A committed offset that was not committed again within the retention time",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("at_us", "bigint", "time of the commit in microseconds since the Unix epoch"),
    ("next_us", "bigint", "time of the next commit; null for none"),
    ("retention_ms", "bigint", "retention time in the request of an old client, else -1"),
    ("is_simple", "boolean", "whether the commit came from a client that is not a member"),
)

_PARTITION: Final = ("group_id", "topic", "partition")
_FOREVER: Final = 2**62


def offsets(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    topics = requests.state("topics")
    accepted = requests.state(ACCEPTED_OFFSETS.name)
    empty = shared(
        empty_intervals(requests.state(MEMBERSHIP_REQUESTS.name), options.session_timeout_ms)
    )
    bucket_us = options.bucket_ms * 1000
    lasting = requests.state(EXPIRY_CANDIDATES.name)
    unsubscribed = unsubscribed_intervals(lasting, requests.state(SUBSCRIPTIONS.name), empty)
    expirations_ = shared(expirations(lasting, empty, unsubscribed, options.retention_ms))
    fetched, time_range = shared(fetches(requests, topics)), requests.state(TIME_RANGE.name)
    return {
        EXPIRY.name: _with_outcomes(expirations_, fetched, time_range),
        RETAINED_OFFSETS.name: retained_offsets(
            lasting, expirations_, fetched, time_range, options.retention_ms
        ),
        LAG.name: lag(accepted, high_watermarks(requests, topics, bucket_us), bucket_us),
    }


def fetches(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return fetched offsets: (group_id, topic, partition, at_us, is_missing)."""
    answered_requests = requests.of("OffsetFetch").where("response_ts is not null")
    no_id = "cast(null as binary)"
    old = answered_requests.select(
        f.unix_micros("ts").alias("at_us"),
        "request.group_id",
        f.explode("response.topics").alias("t"),
    ).withColumn("topic_id", f.expr(f"hex({no_id})"))
    new = (
        answered_requests.select(
            f.unix_micros("ts").alias("at_us"), f.explode("response.groups").alias("g")
        )
        .select("at_us", "g.group_id", f.explode("g.topics").alias("t"))
        .withColumn("topic_id", f.hex("t.topic_id"))
    )

    def by_partition(nested: DataFrame) -> DataFrame:
        return nested.select(
            "at_us",
            "group_id",
            "topic_id",
            f.col("t.name").alias("topic"),
            f.explode("t.partitions").alias("p"),
        ).select(
            "at_us",
            "group_id",
            "topic_id",
            "topic",
            f.col("p.partition_index").alias("partition"),
            (f.col("p.committed_offset") < 0).alias("is_missing"),
            f.col("p.error_code").alias("error"),
        )

    fetched = union((by_partition(old), by_partition(new)))
    return with_topic_names(fetched.where(f.col("error") == ErrorCode.NONE), topics).drop(
        "topic_id", "error"
    )


def expiry_candidates(requests: Requests, options: AuditOptions) -> DataFrame:
    """Return the offsets not committed again within the retention time, as `EXPIRY_CANDIDATES`."""
    following = f.lead("first_us").over(ordered_rows(_PARTITION, ("at_us",)))
    commits = requests.state(ACCEPTED_OFFSETS.name).withColumn("next_us", following)
    return _select_lasting(EXPIRY_CANDIDATES.shape(commits), options.retention_ms)


def _select_lasting(commits: DataFrame, retention_ms: int) -> DataFrame:
    """Select the offsets that were not committed again within the retention time."""
    return commits.where(f"next_us is null or next_us - at_us >= {retention_us(retention_ms)}")


def unsubscribed_intervals(
    commits: DataFrame, subscriptions: DataFrame, empty: DataFrame
) -> DataFrame:
    """Return intervals in which a group had members but none subscribed to a committed topic.

    Intervals without members are in `empty`; other rules apply to them.
    """
    topics = (
        commits.where(f"not topic rlike '{_TOPIC_ID_PATTERN}'")
        .select("group_id", "topic")
        .distinct()
    )
    subscribed = subscriptions.select(
        "group_id", f.col("topic").alias("read_topic"), "protocol", "from_us", "until_us"
    )
    is_subscribed = "t.group_id = r.group_id and (r.read_topic is null or r.read_topic = t.topic)"
    subscribed_intervals = (
        topics.alias("t")
        .join(subscribed.alias("r"), f.expr(is_subscribed))
        .select("t.*", *_INTERVAL)
    )
    empty_by_topic = topics.join(empty, "group_id").select(*topics.columns, *_INTERVAL)
    # It is unknown which members the group had before the first one in the capture.
    firsts = subscribed.groupBy("group_id").agg(f.min("from_us").alias("from_us"))
    first_instants = topics.join(firsts, "group_id").withColumns(
        {"protocol": f.lit(None).cast("string"), "until_us": f.col("from_us")}
    )
    covered = union(
        (subscribed_intervals, empty_by_topic, first_instants.select(*topics.columns, *_INTERVAL)),
    )
    order = ("from_us", "until_us")
    by_topic = tuple(topics.columns)
    until_us = f.coalesce("until_us", f.lit(_FOREVER))
    protocols = subscribed.groupBy("group_id").agg(f.max("protocol").alias("protocol"))
    return (
        covered.drop("protocol")
        .withColumn("until_us", f.max(until_us).over(rows_up_to_current(by_topic, order)))
        .withColumn("next_us", f.lead("from_us").over(ordered_rows(by_topic, order)))
        .where(f"until_us < coalesce(next_us, {_FOREVER})")
        .join(protocols, "group_id")
        .select(*by_topic, "protocol", f.col("until_us").alias("from_us"), "next_us")
        .withColumnRenamed("next_us", "until_us")
    )


_INTERVAL: Final = ("protocol", "from_us", "until_us")
_TOPIC_ID_PATTERN: Final = "^[0-9A-F]{32}$"
"""Matches a topic id in hex. If the capture has no name for it, its subscriptions are unknown."""


def expirations(
    commits: DataFrame, empty: DataFrame, unsubscribed: DataFrame, retention_ms: int
) -> DataFrame:
    """Return the offsets that expire, and when.

    `unsubscribed` has the intervals in which a topic had no subscriptions.
    """
    lasting = _select_lasting(commits, retention_ms).withColumn(
        "retention_us", f.expr(retention_us(retention_ms))
    )
    of_empty_groups = _expirations_of_empty_groups(lasting, empty)
    of_simple_groups = (
        lasting.join(empty.select("group_id").distinct(), "group_id", "left_anti")
        .where("is_simple")
        .withColumns({"due_us": f.col("at_us") + f.col("retention_us"), "protocol": f.lit(SIMPLE)})
    )
    of_unsubscribed_topics = (
        lasting.join(unsubscribed, ["group_id", "topic"])
        .withColumns(
            {
                "due_us": f.greatest(f.expr("at_us + retention_us"), "from_us"),
                "unsubscribed_us": f.col("from_us"),
            }
        )
        .where("due_us < coalesce(until_us, due_us + 1)")
    )
    columns = (
        *_PARTITION,
        "protocol",
        "committed_offset",
        "at_us",
        "next_us",
        "due_us",
        *_REASON_COLUMNS,
    )
    kinds = (
        _to_expirations(kind, columns)
        for kind in (of_empty_groups, of_simple_groups, of_unsubscribed_topics)
    )
    all_expirations = union(kinds)
    # An offset may expire in several intervals; the earliest counts. If two are equally early, the
    # empty group takes precedence, because it implies that no member subscribes to the topic.
    first = all_expirations.groupBy(*_PARTITION, "at_us").agg(
        f.min_by(
            f.struct(*columns), f.struct("due_us", "unsubscribed_us", "empty_us", "protocol")
        ).alias("d")
    )
    return first.select("d.*").where("due_us < coalesce(next_us, due_us + 1)")


def _expirations_of_empty_groups(lasting: DataFrame, empty: DataFrame) -> DataFrame:
    expires_by_commit_time = (f.col("s.protocol") != CLASSIC) | (f.col("c.retention_ms") >= 0)
    due_us = f.when(
        expires_by_commit_time, f.greatest(f.expr("c.at_us + c.retention_us"), f.col("s.from_us"))
    ).otherwise(f.greatest(f.expr("s.from_us + c.retention_us"), f.col("c.at_us")))
    return (
        lasting.alias("c")
        .join(empty.alias("s"), "group_id")
        .withColumns(
            {
                "due_us": due_us,
                "empty_us": f.col("s.from_us"),
                "protocol": f.col("s.protocol"),
            }
        )
        .where("due_us < coalesce(s.until_us, due_us + 1) and due_us > at_us")
        .where("s.until_us is null or s.until_us > at_us")
    )


_REASON_COLUMNS: Final = ("empty_us", "unsubscribed_us")


def _to_expirations(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    none = {
        name: f.lit(None).cast("bigint") for name in _REASON_COLUMNS if name not in frame.columns
    }
    return frame.withColumns(none).select(*columns)


def _with_outcomes(
    expirations: DataFrame, fetched: DataFrame, capture_range: DataFrame
) -> DataFrame:
    """Add whether the group fetched or committed the expired offset again, and the result."""
    is_later_fetch = f.expr(
        "d.group_id = q.group_id and d.topic = q.topic and d.partition = q.partition"
        f" and q.at_us >= d.due_us and q.at_us <= coalesce(d.next_us, {_FOREVER})"
    )
    row = f.struct(*(f"d.{name}" for name in expirations.columns)).alias("d")
    with_fetches = (
        expirations.alias("d")
        .join(
            fetched.select(*_PARTITION, f.col("at_us"), "is_missing").alias("q"),
            is_later_fetch,
            "left",
        )
        .groupBy(row)
        .agg(f.min("q.at_us").alias("fetched_us"), f.bool_or("q.is_missing").alias("was_missing"))
        .select("d.*", "fetched_us", "was_missing")
        .crossJoin(f.broadcast(capture_range))
    )
    returned_us = f.least("fetched_us", "next_us")
    outcome = (
        f.when(returned_us.isNotNull(), LOST)
        .when(f.col("due_us") <= f.col("last_us"), EXPIRED)
        .otherwise(AT_RISK)
    )
    return EXPIRY.shape(
        with_fetches.withColumns(
            {
                "outcome": outcome,
                "committed_at": f.timestamp_micros("at_us"),
                "empty_since": f.timestamp_micros("empty_us"),
                "unsubscribed_since": f.timestamp_micros("unsubscribed_us"),
                "expires_at": f.timestamp_micros("due_us"),
                "returned_at": f.timestamp_micros(returned_us),
            }
        )
    )


def lag(accepted: DataFrame, watermarks: DataFrame, bucket_us: int) -> DataFrame:
    """Return the lag of groups, as `LAG`."""
    bucket = (f.col("at_us") - f.col("at_us") % bucket_us).alias("bucket_us")
    last = f.max(f.struct("at_us", "committed_offset")).getField("committed_offset")
    committed = accepted.groupBy(*_PARTITION, bucket).agg(last.alias("committed_offset"))
    rows = committed.unionByName(watermarks, allowMissingColumns=True).withColumn(
        "kind", f.col("group_id").isNotNull().cast("int")
    )
    # High watermarks sort before the commits of the same bucket.
    reached = f.last("high_watermark", ignorenulls=True).over(
        rows_up_to_current(("topic", "partition"), ("bucket_us", "kind"))
    )
    with_watermark = rows.withColumn("reached", reached).where("kind = 1 and reached is not null")
    return LAG.shape(
        with_watermark.withColumns(
            {
                "at": f.timestamp_micros("bucket_us"),
                "high_watermark": f.greatest("reached", "committed_offset"),
                "lag": f.greatest(f.col("reached") - f.col("committed_offset"), f.lit(0)),
            }
        )
    )


OFFSETS = Audit(
    "offsets",
    "committed offsets that expire, groups that rewind because of it, and consumer lag",
    (EXPIRY, RETAINED_OFFSETS, LAG),
    offsets,
    (RUNS.name, SUBSCRIPTIONS.name, ACCEPTED_OFFSETS.name, PARTITION_SUMS.name),
)
"""The audit `offsets`."""
