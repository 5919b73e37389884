"""Tables of recreated topics, and of requests with outdated partition epochs (KIP-232).

A topic that is deleted and created again has other records at the same offsets. Its id and its
partition epochs show this; leader epochs do not, because they begin at 0 again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import Window, union
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.state.errors import ERROR_NAMES
from kafkalite.lab.spark.state.metadata_views import host
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.lab.spark.state.windows import ordered_rows, rows_before_current
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

RECREATED = table(
    "recreated_topics",
    "A topic that was deleted and created again between two Metadata responses",
    ("topic", "string", "the topic"),
    ("last_seen_at", "timestamp", "time of the last response before; null for none"),
    ("first_seen_at", "timestamp", "time of the first response with the new topic"),
    ("previous_topic_id", "string", "id of the deleted topic in hex; empty if unknown"),
    ("topic_id", "string", "id of the new topic in hex; empty if unknown"),
    ("previous_partition_epoch", "int", "partition epoch of the deleted partition 0; null if none"),
    ("partition_epoch", "int", "partition epoch of the new partition 0; null if none"),
    times=("first_seen_at",),
)

OUTDATED_REQUESTS = table(
    "outdated_partition_epochs",
    "A partition in a request with an outdated partition epoch, or refused because of an epoch",
    ("at", "timestamp", "time of the request"),
    ("host", "string", "the client's address"),
    ("client_id", "string", "the client id"),
    ("client", "string", "host:port of the connection"),
    ("broker", "string", "the broker: host:port"),
    ("api", "string", "API of the request"),
    ("group_id", "string", "the group of a commit; null for others"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    (
        "sent_partition_epoch",
        "int",
        "partition epoch in the request; null if only the fetch session had it",
    ),
    ("sent_leader_epoch", "int", "leader epoch in the request; null if it has none"),
    (
        "known_partition_epoch",
        "int",
        "largest partition epoch that the client had received before; null for none",
    ),
    (
        "current_partition_epoch",
        "int",
        "largest partition epoch in any response until then, or in that of the request",
    ),
    (
        "error",
        "string",
        (
            "INVALID_PARTITION_EPOCH, INVALID_LEADER_EPOCH: refused; NONE: accepted; "
            "another error; null without a response"
        ),
    ),
    times=("at",),
)

ACCEPTED: Final = "NONE"
"""The error of a request that was not refused."""

_REFUSALS: Final = (ErrorCode.INVALID_PARTITION_EPOCH, ErrorCode.INVALID_LEADER_EPOCH)
_REFUSALS_SQL: Final = ", ".join(str(int(code)) for code in _REFUSALS)
_NULL_SQL: Final = "cast(null as {})"


class _ApiFields(NamedTuple):
    """Field names in requests and responses of an API whose requests carry partition epochs."""

    api: str
    topic_name: str = "name"
    partition: str = "partition_index"
    leader_epoch: str = "current_leader_epoch"
    responses: str = "topics"
    has_ids: bool = False
    has_current_epoch: bool = False
    has_sessions: bool = False
    group: str | None = None


_APIS: Final = (
    _ApiFields(
        "Fetch",
        topic_name="topic",
        partition="partition",
        responses="responses",
        has_ids=True,
        has_current_epoch=True,
        has_sessions=True,
    ),
    _ApiFields("ListOffsets", has_current_epoch=True),
    _ApiFields(
        "OffsetCommit", leader_epoch="committed_leader_epoch", has_ids=True, group="group_id"
    ),
    _ApiFields(
        "TxnOffsetCommit", leader_epoch="committed_leader_epoch", has_ids=True, group="group_id"
    ),
)


def recreated_topics(view_rows: DataFrame) -> DataFrame:
    """Return the topics that were created again, as `RECREATED`, from the rows of `views`.

    Every topic has a partition 0, which stands for the topic.
    """
    by_id = Window.partitionBy("topic", f.nullif("topic_id", f.lit("")))
    by_time = ordered_rows(("topic",), ("at_us", "position"))
    rows = (
        view_rows.where("partition = 0")
        # Not all APIs have partition epochs; the id finds them in responses of other APIs.
        .withColumn(
            "epoch",
            f.when(f.col("topic_id") != "", f.max("partition_epoch").over(by_id)).otherwise(
                f.col("partition_epoch")
            ),
        )
        .withColumn("identity", f.coalesce(f.col("epoch").cast("string"), "topic_id"))
        .where("identity != ''")
        .withColumn("before_us", f.lag("at_us").over(by_time))
    )
    order = ("at_us", "position")
    first_rows = rows.withColumns(
        {
            "number": f.row_number().over(ordered_rows(("topic", "identity"), order)),
            # Responses of older versions have no id.
            "id": f.max("topic_id").over(Window.partitionBy("topic", "identity")),
        }
    ).where("number = 1")
    previous = f.lag(f.struct("id", "epoch")).over(
        ordered_rows(("topic",), ("epoch", "at_us", "position"))
    )
    return RECREATED.shape(
        first_rows.withColumn("previous", previous)
        .where("previous is not null")
        .withColumns(
            {
                "last_seen_at": f.timestamp_micros("before_us"),
                "first_seen_at": f.timestamp_micros("at_us"),
                "previous_topic_id": f.col("previous.id"),
                "topic_id": f.col("id"),
                "previous_partition_epoch": f.col("previous.epoch"),
                "partition_epoch": f.col("epoch"),
            }
        )
    )


def outdated_requests(requests: Requests, topics: DataFrame, epochs: DataFrame) -> DataFrame:
    """Return requests with outdated partition epochs and refusals, as `OUTDATED_REQUESTS`.

    `epochs` is the state table `partition_epochs`.
    """
    kinds = [rows(requests, fields) for fields in _APIS for rows in (_refused, _not_refused)]
    named = with_topic_names(union(kinds), topics).drop("topic_id")
    events = named.withColumn("is_request", f.lit(True)).unionByName(
        epochs.select(
            *("host", "client_id", "topic", "partition", "at_us"),
            f.col("partition_epoch").alias("received"),
            f.lit(False).alias("is_request"),
        ),
        allowMissingColumns=True,
    )
    # A response that arrived at the time of the request counts: false is before true.
    order = ("at_us", "is_request")
    of_client = rows_before_current(("host", "client_id", "topic", "partition"), order)
    of_all = rows_before_current(("topic", "partition"), order)
    codes = f.create_map(*(f.lit(item) for pair in ERROR_NAMES.items() for item in pair))
    return OUTDATED_REQUESTS.shape(
        events.withColumns(
            {
                "known_partition_epoch": f.max("received").over(of_client),
                "current_partition_epoch": f.greatest(
                    f.max("received").over(of_all), "answered_epoch"
                ),
            }
        )
        .where("is_request")
        .where(
            f"code in ({_REFUSALS_SQL}) or"
            " sent_partition_epoch < greatest(known_partition_epoch, current_partition_epoch)"
        )
        .withColumns({"at": f.timestamp_micros("at_us"), "error": codes[f.col("code").cast("int")]})
    )


def _refused(requests: Requests, fields: _ApiFields) -> DataFrame:
    """Return the partitions in responses that were refused because of an epoch.

    Their epochs are in the request, or were in an earlier request of the same fetch session.
    """
    topics = f"response.{fields.responses}"
    is_same = f"q.{fields.partition} = answer.partition_index"
    return (
        requests.not_plain(fields.api)
        # Filtered before exploding: such responses are rare.
        .where(
            f"exists({topics}, t -> exists(t.partitions, p -> p.error_code in ({_REFUSALS_SQL})))"
        )
        .select(*_envelope(fields), "request", f.explode(topics).alias("t"))
        .select("*", f.explode("t.partitions").alias("answer"))
        .where(f"answer.error_code in ({_REFUSALS_SQL})")
        .withColumn("sent", _find_partition("request.topics", fields, is_same))
        .select(
            *_columns(fields, "answer.partition_index"), f.col("answer.error_code").alias("code")
        )
    )


def _not_refused(requests: Requests, fields: _ApiFields) -> DataFrame:
    """Return the partitions in requests with a partition epoch, except those of `_refused`."""
    is_same = f"q.partition_index = sent.{fields.partition}"
    has_epoch = "exists(request.topics, t -> exists(t.partitions, p -> p.incarnation_epoch >= 0))"
    # A fetch session omits partitions without news from its responses.
    code = f.when(f.col("is_answered"), f.coalesce("answer.error_code", "error_code"))
    error_code = "response.error_code" if fields.has_sessions else "0"
    return (
        requests.not_plain(fields.api)
        .where(has_epoch)
        .select(
            *_envelope(fields),
            f.col("response_ts").isNotNull().alias("is_answered"),
            f.expr(error_code).alias("error_code"),
            f.col(f"response.{fields.responses}").alias("answers"),
            f.explode("request.topics").alias("t"),
        )
        .select("*", f.explode("t.partitions").alias("sent"))
        .where("sent.incarnation_epoch >= 0")
        .withColumn("answer", _find_partition("answers", fields, is_same))
        .select(
            *_columns(fields, f"sent.{fields.partition}"),
            code.cast("smallint").alias("code"),
        )
        .where(f"code is null or code not in ({_REFUSALS_SQL})")
    )


def _find_partition(topics: str, fields: _ApiFields, is_same: str) -> Column:
    """Return the first partition `q` for which SQL is true, of the topic that is equal to `t`."""
    is_same_topic = f"a.{fields.topic_name} <=> t.{fields.topic_name}"
    if fields.has_ids:
        is_same_topic += " and a.topic_id <=> t.topic_id"
    return f.expr(
        f"get(flatten(transform(filter({topics}, a -> {is_same_topic}),"
        f" a -> filter(a.partitions, q -> {is_same}))), 0)"
    )


def _envelope(fields: _ApiFields) -> tuple[Column | str, ...]:
    group = "request.group_id" if fields.group else _NULL_SQL.format("string")
    return (
        host(),
        *("client_id", "client", "broker"),
        f.unix_micros("ts").alias("at_us"),
        f.lit(fields.api).alias("api"),
        f.expr(group).alias("group_id"),
    )


def _columns(fields: _ApiFields, partition: str) -> tuple[Column | str, ...]:
    """Return the common columns of both kinds of rows, from `t`, `sent` and `answer`."""
    topic_id = "hex(t.topic_id)" if fields.has_ids else _NULL_SQL.format("string")
    epoch = "nullif(answer.incarnation_epoch, -1)"
    return (
        *("host", "client_id", "client", "broker", "at_us", "api", "group_id"),
        f.col(f"t.{fields.topic_name}").alias("topic"),
        f.expr(topic_id).alias("topic_id"),
        f.col(partition).alias("partition"),
        f.expr("nullif(sent.incarnation_epoch, -1)").alias("sent_partition_epoch"),
        f.expr(f"nullif(sent.{fields.leader_epoch}, -1)").alias("sent_leader_epoch"),
        f.expr(epoch if fields.has_current_epoch else _NULL_SQL.format("int")).alias(
            "answered_epoch"
        ),
    )
