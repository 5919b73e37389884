"""Subscriptions of members over time, because offsets of unsubscribed topics expire.

A member sends its subscription when it joins and when it changes. If the capture does not show it,
or shows a regular expression that the broker resolves, the member may read any topic. So an offset
is reported as expired only if this is certain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.columnar.records.coordinator_records import decode_versioned
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import to_schema
from kafkalite.lab.spark.requests import api_key
from kafkalite.lab.spark.stages.projection import Projection, column_types
from kafkalite.lab.spark.state.group_presence import memberships
from kafkalite.lab.spark.state.liveness import IDENTITY, identity
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.windows import ordered_rows, rows_up_to_current
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

SUBSCRIPTIONS = table(
    "subscriptions",
    "A topic that a member subscribed to, and the interval of its subscription",
    ("group_id", "string", "the group"),
    ("protocol", "string", "consumer, streams or classic"),
    ("topic", "string", "the topic's name; null for any topic, if the capture does not show it"),
    ("from_us", "bigint", "start in microseconds since the Unix epoch"),
    ("until_us", "bigint", "end: the member left, timed out, or changed its subscription"),
)

_TIME_ORDER: Final = ("at_us", "start_us", "connection", "position")
_CONSUMER: Final = "consumer"
_SPEC: Final = "consumer_protocol_subscription"
_DECODED: Final = pa.schema(
    [
        pa.field("group_id", pa.string()),
        pa.field("identity", pa.string()),
        pa.field("at_us", pa.int64()),
        pa.field("topics", pa.list_(pa.string())),
    ]
)
_COLUMNS: Final = tuple(_DECODED.names)


def subscriptions(
    requests: Requests, membership_requests: DataFrame, session_timeout_ms: int
) -> DataFrame:
    """Return the subscriptions of members and their intervals, as `SUBSCRIPTIONS`."""
    sent_subscriptions = _from_heartbeats(requests)
    if "JoinGroup" in requests:
        # mapInArrow would start a Python job even for an empty table.
        sent_subscriptions = sent_subscriptions.unionByName(_from_joins(requests))
    # Ordering by topics too makes the order of rows with equal times deterministic.
    ordered = ordered_rows(IDENTITY, ("at_us", "topics"))
    with_next = sent_subscriptions.withColumn("next_us", f.lead("at_us").over(ordered))
    membership_rows = memberships(membership_requests, session_timeout_ms)
    names = f.coalesce(f.concat("topics", f.array(f.lit(_NO_TOPIC))), f.array(f.lit(None)))
    known = (
        membership_rows.join(with_next, [*IDENTITY])
        .where("at_us between from_us and until_us")
        .withColumns(
            {
                "from_us": f.col("at_us"),
                "until_us": f.least("next_us", "until_us"),
                "topic": f.explode(names),
            }
        )
    )
    first = sent_subscriptions.select(*IDENTITY, "at_us").alias("t")
    is_same_member = f.expr(
        "m.group_id = t.group_id and m.identity = t.identity"
        " and t.at_us between m.from_us and m.until_us"
    )
    unknown = (
        membership_rows.alias("m")
        .join(first, is_same_member, "left")
        .groupBy("m.group_id", "m.protocol", "m.identity", "m.from_us", "m.until_us")
        .agg(f.min("t.at_us").alias("at_us"))
        .withColumns({"until_us": f.coalesce("at_us", "until_us"), "topic": f.lit(None)})
        .where("until_us > from_us")
    )
    return SUBSCRIPTIONS.shape(known).unionByName(SUBSCRIPTIONS.shape(unknown))


_NO_TOPIC: Final = ""
"""Stands for an empty subscription; no topic has this name."""


def _from_heartbeats(requests: Requests) -> DataFrame:
    """Return subscriptions of consumer group members; a regular expression overrides names."""
    sent_subscriptions = requests.project(heartbeats_with_subscription()).withColumns(
        {
            "member_id": f.expr("coalesce(nullif(response_member_id, ''), request_member_id)"),
            "at_us": f.coalesce("end_us", "start_us"),
        }
    )
    up_to_current = rows_up_to_current(("group_id", "member_id"), _TIME_ORDER)
    names, regex = (
        f.last(column, ignorenulls=True).over(up_to_current) for column in ("names", "regex")
    )
    # Without a response, the subscription may or may not have changed.
    is_known = f.col("end_us").isNotNull() & (f.coalesce(regex, f.lit("")) == "")
    topics = f.when(is_known, names)
    return sent_subscriptions.withColumns({"topics": topics, IDENTITY[1]: identity()}).select(
        *_COLUMNS
    )


_HEARTBEAT_FIELDS: Final = {
    "group_id": "request.group_id",
    "request_member_id": "request.member_id",
    "response_member_id": "response.member_id",
    "instance_id": "request.instance_id",
    "names": "request.subscribed_topic_names",
    "regex": "request.subscribed_topic_regex",
    "error": "response.error_code",
}


def heartbeats_with_subscription() -> Projection:
    """Return the projection of heartbeats that state a subscription."""
    key = api_key("ConsumerGroupHeartbeat")
    return Projection(
        name=SUBSCRIPTIONS.name,
        api_key=key,
        fields=_HEARTBEAT_FIELDS,
        reduce_rows=with_subscription,
        schema=pa.schema([*column_types(key, _HEARTBEAT_FIELDS).items()]),
    )


def with_subscription(rows: pa.Table) -> pa.Table:
    """Select the heartbeats that state a subscription and were not refused."""
    has_regex = pc.fill_null(pc.not_equal(rows["regex"], ""), fill_value=False)
    has_subscription = pc.or_(pc.is_valid(rows["names"]), has_regex)
    is_accepted = pc.equal(pc.fill_null(rows["error"], 0), int(ErrorCode.NONE))
    return rows.filter(pc.and_(has_subscription, is_accepted))


def _from_joins(requests: Requests) -> DataFrame:
    """Return subscriptions of classic members: the union over their supported protocols."""
    joined = requests.of("JoinGroup").where(f"response.error_code = {int(ErrorCode.NONE)}")
    sent_subscriptions = joined.select(
        "request.group_id",
        identity("response.member_id", "request.group_instance_id"),
        f.unix_micros("response_ts").alias("at_us"),
        f.when(f.col("request.protocol_type") == _CONSUMER, f.col("request.protocols")).alias("p"),
    ).select(*_COLUMNS[:3], f.explode_outer("p.metadata").alias("metadata"))
    read = sent_subscriptions.mapInArrow(read_subscriptions, to_schema(_DECODED))
    is_complete = f.bool_and(f.col("topics").isNotNull())
    topics = f.array_distinct(f.flatten(f.collect_list("topics")))
    return (
        read.groupBy(*_COLUMNS[:3])
        .agg(f.when(is_complete, topics).alias("topics"))
        .select(*_COLUMNS)
    )


def read_subscriptions(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode the subscriptions in the last column; null for those that are not a consumer's."""
    for batch in batches:
        column = batch["metadata"].cast(pa.binary())
        decoded = decode_versioned(_SPEC, column)
        is_decoded = np.asarray(column.is_valid()).copy()
        is_decoded[[error.row for error in decoded.errors]] = False
        topics = pa.array(decoded.values.field("topics").to_pylist(), pa.list_(pa.string()))
        nulls = pa.nulls(len(batch), topics.type)
        columns = [batch[name].cast(_DECODED.field(name).type) for name in _COLUMNS[:3]]
        decoded_topics = pc.if_else(pa.array(is_decoded), topics, nulls)
        yield pa.RecordBatch.from_arrays([*columns, decoded_topics], schema=_DECODED)
