"""What members subscribe to, over time: offsets of what nobody reads any more expire, too.

A member's subscription is told when it joins and when it changes. Where the capture does not tell
it, or tells it by a pattern that its broker resolves, the member may read any topic: nothing is
said to expire that might not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from kafkalite.columnar.coordinator_records import versioned
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.order import in_order, until_now
from kafkalite.spark.state.presence import memberships
from kafkalite.spark.state.signs import SOMEBODY, somebody
from kafkalite.spark.state.spans import span
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kafkalite.spark.requests import Requests

SUBSCRIPTIONS = table(
    "subscriptions",
    "A topic that a member subscribed to, from when it said so until it was no more so",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams or classic"),
    ("topic", "string", "the topic's name; null for any, where the capture does not tell"),
    ("from_us", "bigint", "since when: microseconds since the Unix epoch"),
    ("until_us", "bigint", "until when: the member left, was put out, or subscribed otherwise"),
)

_IN_TURN: Final = ("at_us", "start_us", "connection", "position")
_CONSUMER: Final = "consumer"
_SPEC: Final = "consumer_protocol_subscription"
_READ: Final = pa.schema(
    [
        pa.field("group_id", pa.string()),
        pa.field("somebody", pa.string()),
        pa.field("at_us", pa.int64()),
        pa.field("topics", pa.list_(pa.string())),
    ]
)
_TOLD: Final = tuple(_READ.names)


def subscriptions(requests: Requests, signs: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return what members subscribed to and how long, as `SUBSCRIPTIONS`."""
    told = _told_by_heartbeats(requests)
    if "JoinGroup" in requests:
        # What Python would have to read of nothing is a job all the same.
        told = told.unionByName(_told_by_joining(requests))
    # What is told of one moment stands in some order, but the same one whenever it is asked for.
    ordered = in_order(SOMEBODY, ("at_us", "topics"))
    since = told.withColumn("next_us", f.lead("at_us").over(ordered))
    there = memberships(signs, session_timeout_ms)
    names = f.coalesce(f.concat("topics", f.array(f.lit(_NOTHING))), f.array(f.lit(None)))
    said = (
        there.join(since, [*SOMEBODY])
        .where("at_us between from_us and until_us")
        .withColumns(
            {
                "from_us": f.col("at_us"),
                "until_us": f.least("next_us", "until_us"),
                "topic": f.explode(names),
            }
        )
    )
    first = told.select(*SOMEBODY, "at_us").alias("t")
    is_its = f.expr(
        "m.group_id = t.group_id and m.somebody = t.somebody"
        " and t.at_us between m.from_us and m.until_us"
    )
    unsaid = (
        there.alias("m")
        .join(first, is_its, "left")
        .groupBy("m.group_id", "m.protocol", "m.somebody", "m.from_us", "m.until_us")
        .agg(f.min("t.at_us").alias("at_us"))
        .withColumns({"until_us": f.coalesce("at_us", "until_us"), "topic": f.lit(None)})
        .where("until_us > from_us")
    )
    return SUBSCRIPTIONS.shape(said).unionByName(SUBSCRIPTIONS.shape(unsaid))


_NOTHING: Final = ""
"""A topic of this name is nobody's: who subscribes to none subscribes to this."""


def _told_by_heartbeats(requests: Requests) -> DataFrame:
    """Return what members of consumer groups say; a pattern outweighs names beside it."""
    said = (
        requests.of("ConsumerGroupHeartbeat")
        .where("request.subscribed_topic_names is not null or request.subscribed_topic_regex != ''")
        .where(f"coalesce(response.error_code, 0) = {int(ErrorCode.NONE)}")
        .select(
            *span(),
            "request.group_id",
            f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias(
                "member_id"
            ),
            f.col("request.instance_id").alias("instance_id"),
            f.unix_micros(f.coalesce("answered", "ts")).alias("at_us"),
            f.col("request.subscribed_topic_names").alias("names"),
            f.col("request.subscribed_topic_regex").alias("regex"),
        )
    )
    so_far = until_now(("group_id", "member_id"), _IN_TURN)
    names, regex = (f.last(each, ignorenulls=True).over(so_far) for each in ("names", "regex"))
    # Without an answer it may hold or not.
    is_told = f.col("end_us").isNotNull() & (f.coalesce(regex, f.lit("")) == "")
    topics = f.when(is_told, names)
    return said.withColumns({"topics": topics, SOMEBODY[1]: somebody()}).select(*_TOLD)


def _told_by_joining(requests: Requests) -> DataFrame:
    """Return what members of classic groups say, each for all protocols that it knows."""
    joined = requests.of("JoinGroup").where(f"response.error_code = {int(ErrorCode.NONE)}")
    said = joined.select(
        "request.group_id",
        somebody("response.member_id", "request.group_instance_id"),
        f.unix_micros("answered").alias("at_us"),
        f.when(f.col("request.protocol_type") == _CONSUMER, f.col("request.protocols")).alias("p"),
    ).select(*_TOLD[:3], f.explode_outer("p.metadata").alias("metadata"))
    read = said.mapInArrow(read_subscriptions, from_arrow_schema(_READ))
    is_whole = f.bool_and(f.col("topics").isNotNull())
    topics = f.array_distinct(f.flatten(f.collect_list("topics")))
    return read.groupBy(*_TOLD[:3]).agg(f.when(is_whole, topics).alias("topics")).select(*_TOLD)


def read_subscriptions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the subscriptions in the last column; null for what is none of a consumer's."""
    for batch in batches:
        column = batch["metadata"].cast(pa.binary())
        decoded = versioned(_SPEC, column)
        is_read = np.asarray(column.is_valid()).copy()
        is_read[[error.row for error in decoded.errors]] = False
        topics = pa.array(decoded.values.field("topics").to_pylist(), pa.list_(pa.string()))
        none = pa.nulls(len(batch), topics.type)
        columns = [batch[name].cast(_READ.field(name).type) for name in _TOLD[:3]]
        told = pc.if_else(pa.array(is_read), topics, none)
        yield pa.RecordBatch.from_arrays([*columns, told], schema=_READ)
