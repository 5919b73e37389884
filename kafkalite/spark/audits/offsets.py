"""Expiry of committed offsets (KIP-211): what a retention takes away, and who would rewind.

A classic group's offsets expire when it has been empty for so long; those of consumer and streams
groups, and of whoever commits without being a member, so long after their commit, but not while
the group has members. Offsets of a topic that none of its members subscribes to expire all the
same, so long after their commit. An old client may say itself how long.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.audits.contract import Audit, AuditOptions
from kafkalite.spark.audits.spared import SPARED, retention_us, spared
from kafkalite.spark.state.extent import EXTENT
from kafkalite.spark.state.marks import marks
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.presence import empty_spells
from kafkalite.spark.state.signs import CLASSIC, SIGNS
from kafkalite.spark.state.subscriptions import SUBSCRIPTIONS
from kafkalite.spark.state.tables import table
from kafkalite.spark.state.taken import TAKEN
from kafkalite.spark.state.topics import named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.spark.requests import Requests

LOST: Final = "lost"
EXPIRED: Final = "expired"
AT_RISK: Final = "at risk"
SIMPLE: Final = "simple"

EXPIRY = table(
    "offset_expiry",
    "A committed offset that the retention takes away before it is committed again",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams, classic; simple without members"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("committed_at", "timestamp", "when it was committed"),
    ("empty_since", "timestamp", "since when the group had no members; null for one without any"),
    (
        "unread_since",
        "timestamp",
        "since when no member subscribed to the topic; null for one that expires otherwise",
    ),
    ("expires_at", "timestamp", "when the retention is over"),
    (
        "fate",
        "string",
        (
            "lost: it expires, and the group comes back within the capture; "
            "expired: it expires within the capture; at risk: it does after it, unless members come"
        ),
    ),
    ("returned_at", "timestamp", "when the group asked for it again or committed it again"),
    ("was_missing", "boolean", "whether a broker said then that it had no such offset"),
)

LAG = table(
    "consumer_lag",
    "How far a group was behind a partition's end, by the last commit in a bucket of time",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("at", "timestamp", "when the bucket begins"),
    ("committed_offset", "bigint", "the last offset committed in it"),
    ("high_watermark", "bigint", "how far the log was known to reach by its end"),
    ("lag", "bigint", "the difference"),
)

LASTING = table(
    "lasting_commits",
    "A committed offset that was not committed again for as long as offsets are kept",
    ("group_id", "string", "the group"),
    ("topic", "string", "the topic's name, or its id in hex where the capture never names it"),
    ("partition", "int", "the partition"),
    ("committed_offset", "bigint", "the offset"),
    ("at_us", "bigint", "when it was committed: microseconds since the Unix epoch"),
    ("next_us", "bigint", "when it was committed again; null for never"),
    ("retention_ms", "bigint", "how long to keep it, where an old client says so; else -1"),
    ("is_simple", "boolean", "whether it was committed by nobody who is a member"),
)

_PARTITION: Final = ("group_id", "topic", "partition")
_NEVER: Final = 2**62


def offsets(requests: Requests, options: AuditOptions) -> Mapping[str, DataFrame]:
    """Return the audit's tables."""
    topics = requests.state("topics")
    taken = requests.state(TAKEN.name)
    spells = empty_spells(requests.state(SIGNS.name), options.session_timeout_ms)
    bucket_us = options.bucket_ms * 1000
    lasting = requests.state(LASTING.name)
    unread = lapses(lasting, requests.state(SUBSCRIPTIONS.name), spells)
    due = dues(lasting, spells, unread, options.retention_ms)
    asked, extent = fetches(requests, topics), requests.state(EXTENT.name)
    return {
        EXPIRY.name: _with_fates(due, asked, extent),
        SPARED.name: spared(lasting, due, asked, extent, options.retention_ms),
        LAG.name: lag(taken, marks(requests, topics, bucket_us), bucket_us),
    }


def fetches(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return what groups were told of their offsets: (group, partition, when, whether there)."""
    calls = requests.of("OffsetFetch").where("answered is not null")
    no_id = "cast(null as binary)"
    old = calls.select(
        f.unix_micros("ts").alias("at_us"),
        "request.group_id",
        f.explode("response.topics").alias("t"),
    ).withColumn("topic_id", f.expr(f"hex({no_id})"))
    new = (
        calls.select(f.unix_micros("ts").alias("at_us"), f.explode("response.groups").alias("g"))
        .select("at_us", "g.group_id", f.explode("g.topics").alias("t"))
        .withColumn("topic_id", f.hex("t.topic_id"))
    )

    def flat(told: DataFrame) -> DataFrame:
        return told.select(
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

    told = reduce(DataFrame.unionByName, (flat(old), flat(new)))
    return named(told.where(f.col("error") == ErrorCode.NONE), topics).drop("topic_id", "error")


def lasting_commits(requests: Requests, options: AuditOptions) -> DataFrame:
    """Return the offsets that stood for longer than the retention, as `LASTING`."""
    following = f.lead("first_us").over(in_order(_PARTITION, ("at_us",)))
    told = requests.state(TAKEN.name).withColumn("next_us", following)
    return _lasting(LASTING.shape(told), options.retention_ms)


def _lasting(commits: DataFrame, retention_ms: int) -> DataFrame:
    """Keep the offsets that were not committed again within the retention."""
    return commits.where(f"next_us is null or next_us - at_us >= {retention_us(retention_ms)}")


def lapses(commits: DataFrame, subscriptions: DataFrame, spells: DataFrame) -> DataFrame:
    """Return when groups had members, none of whom subscribed to a topic that they had read.

    When they had none is left to `spells`: other rules hold then.
    """
    topics = commits.where(f"not topic rlike '{_IS_ID}'").select("group_id", "topic").distinct()
    told = subscriptions.select(
        "group_id", f.col("topic").alias("read_topic"), "protocol", "from_us", "until_us"
    )
    is_its = "t.group_id = r.group_id and (r.read_topic is null or r.read_topic = t.topic)"
    read = topics.alias("t").join(told.alias("r"), f.expr(is_its)).select("t.*", *_SPELL)
    empty = topics.join(spells, "group_id").select(*topics.columns, *_SPELL)
    # What was before somebody was seen to be a member, nobody knows.
    firsts = told.groupBy("group_id").agg(f.min("from_us").alias("from_us"))
    begun = topics.join(firsts, "group_id").withColumns(
        {"protocol": f.lit(None).cast("string"), "until_us": f.col("from_us")}
    )
    covered = reduce(DataFrame.unionByName, (read, empty, begun.select(*topics.columns, *_SPELL)))
    order = ("from_us", "until_us")
    by_topic = tuple(topics.columns)
    until_us = f.coalesce("until_us", f.lit(_NEVER))
    protocols = told.groupBy("group_id").agg(f.max("protocol").alias("protocol"))
    return (
        covered.drop("protocol")
        .withColumn("until_us", f.max(until_us).over(until_now(by_topic, order)))
        .withColumn("next_us", f.lead("from_us").over(in_order(by_topic, order)))
        .where(f"until_us < coalesce(next_us, {_NEVER})")
        .join(protocols, "group_id")
        .select(*by_topic, "protocol", f.col("until_us").alias("from_us"), "next_us")
        .withColumnRenamed("next_us", "until_us")
    )


_SPELL: Final = ("protocol", "from_us", "until_us")
_IS_ID: Final = "^[0-9A-F]{32}$"
"""A topic that the capture never names: nobody knows whether it is subscribed to."""


def dues(commits: DataFrame, spells: DataFrame, unread: DataFrame, retention_ms: int) -> DataFrame:
    """Return what the retention takes away, and when; `unread` are lapses."""
    lasting = _lasting(commits, retention_ms).withColumn(
        "retention_us", f.expr(retention_us(retention_ms))
    )
    own_time = (f.col("s.protocol") != CLASSIC) | (f.col("c.retention_ms") >= 0)
    due = f.when(
        own_time, f.greatest(f.expr("c.at_us + c.retention_us"), f.col("s.from_us"))
    ).otherwise(f.greatest(f.expr("s.from_us + c.retention_us"), f.col("c.at_us")))
    emptied = (
        lasting.alias("c")
        .join(spells.alias("s"), "group_id")
        .withColumns(
            {"due_us": due, "empty_us": f.col("s.from_us"), "protocol": f.col("s.protocol")}
        )
        .where("due_us < coalesce(s.until_us, due_us + 1) and due_us > at_us")
        .where("s.until_us is null or s.until_us > at_us")
    )
    simple = (
        lasting.join(spells.select("group_id").distinct(), "group_id", "left_anti")
        .where("is_simple")
        .withColumns(
            {
                "due_us": f.col("at_us") + f.col("retention_us"),
                "protocol": f.lit(SIMPLE),
            }
        )
    )
    lapsed = (
        lasting.join(unread, ["group_id", "topic"])
        .withColumns(
            {
                "due_us": f.greatest(f.expr("at_us + retention_us"), "from_us"),
                "unread_us": f.col("from_us"),
            }
        )
        .where("due_us < coalesce(until_us, due_us + 1)")
    )
    columns = (*_PARTITION, "protocol", "committed_offset", "at_us", "next_us", "due_us", *_WHY)
    kinds = (_shaped_due(each, columns) for each in (emptied, simple, lapsed))
    dues = reduce(DataFrame.unionByName, kinds)
    # Of several spells that end an offset it is the first that does; of one moment, that the group
    # was empty, for nobody read its topics then either.
    first = dues.groupBy(*_PARTITION, "at_us").agg(
        f.min_by(f.struct(*columns), f.struct("due_us", "unread_us", "empty_us", "protocol")).alias(
            "d"
        )
    )
    return first.select("d.*").where("due_us < coalesce(next_us, due_us + 1)")


_WHY: Final = ("empty_us", "unread_us")


def _shaped_due(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    none = {name: f.lit(None).cast("bigint") for name in _WHY if name not in frame.columns}
    return frame.withColumns(none).select(*columns)


def _with_fates(dues: DataFrame, asked: DataFrame, extent_: DataFrame) -> DataFrame:
    """Say of each offset that expires whether anybody came back for it, and what it was told."""
    later = f.expr(
        "d.group_id = q.group_id and d.topic = q.topic and d.partition = q.partition"
        f" and q.at_us >= d.due_us and q.at_us <= coalesce(d.next_us, {_NEVER})"
    )
    row = f.struct(*(f"d.{name}" for name in dues.columns)).alias("d")
    met = (
        dues.alias("d")
        .join(asked.select(*_PARTITION, f.col("at_us"), "is_missing").alias("q"), later, "left")
        .groupBy(row)
        .agg(f.min("q.at_us").alias("asked_us"), f.bool_or("q.is_missing").alias("was_missing"))
        .select("d.*", "asked_us", "was_missing")
        .crossJoin(f.broadcast(extent_))
    )
    back = f.least("asked_us", "next_us")
    fate = (
        f.when(back.isNotNull(), LOST)
        .when(f.col("due_us") <= f.col("last_us"), EXPIRED)
        .otherwise(AT_RISK)
    )
    return EXPIRY.shape(
        met.withColumns(
            {
                "fate": fate,
                "committed_at": f.timestamp_micros("at_us"),
                "empty_since": f.timestamp_micros("empty_us"),
                "unread_since": f.timestamp_micros("unread_us"),
                "expires_at": f.timestamp_micros("due_us"),
                "returned_at": f.timestamp_micros(back),
            }
        )
    )


def lag(taken: DataFrame, watermarks: DataFrame, bucket_us: int) -> DataFrame:
    """Return how far groups were behind, as `LAG`."""
    bucket = (f.col("at_us") - f.col("at_us") % bucket_us).alias("bucket_us")
    last = f.max(f.struct("at_us", "committed_offset")).getField("committed_offset")
    committed = taken.groupBy(*_PARTITION, bucket).agg(last.alias("committed_offset"))
    both = committed.unionByName(watermarks, allowMissingColumns=True).withColumn(
        "kind", f.col("group_id").isNotNull().cast("int")
    )
    # What was told in the same bucket counts: a watermark comes before the commits beside it.
    reached = f.last("high_watermark", ignorenulls=True).over(
        until_now(("topic", "partition"), ("bucket_us", "kind"))
    )
    known = both.withColumn("reached", reached).where("kind = 1 and reached is not null")
    return LAG.shape(
        known.withColumns(
            {
                "at": f.timestamp_micros("bucket_us"),
                "high_watermark": f.greatest("reached", "committed_offset"),
                "lag": f.greatest(f.col("reached") - f.col("committed_offset"), f.lit(0)),
            }
        )
    )


OFFSETS = Audit(
    "offsets",
    "which committed offsets a retention takes away, who would rewind, and how far groups lag",
    (EXPIRY, SPARED, LAG),
    offsets,
)
"""The audit."""
