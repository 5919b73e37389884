"""Partition epochs (KIP-232) that clients received, by partition and time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.state.metadata_views import host
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import with_topic_names
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

PARTITION_EPOCHS = table(
    "partition_epochs",
    "A partition epoch in responses to a client",
    ("host", "string", "the client's address"),
    ("client_id", "string", "the client id"),
    ("connection", "bigint", "the connection"),
    ("topic", "string", "the topic's name; its id in hex if the capture has no name for it"),
    ("partition", "int", "the partition"),
    ("partition_epoch", "int", "the partition epoch (KIP-232)"),
    ("at_us", "bigint", "time of the first response in microseconds since the Unix epoch"),
)


class _Source(NamedTuple):
    """Where the partition epochs are in the responses of an API."""

    api: str
    topics: str
    name: str = "name"
    has_ids: bool = False


_SOURCES: Final = (
    _Source("Metadata", "response.topics", has_ids=True),
    _Source("Fetch", "response.responses", "topic", has_ids=True),
    _Source("ListOffsets", "response.topics"),
    _Source("OffsetFetch", "response.topics"),
    _Source(
        "OffsetFetch", "flatten(transform(response.groups, each -> each.topics))", has_ids=True
    ),
)


def partition_epochs(requests: Requests, topics: DataFrame) -> DataFrame:
    """Return the partition epochs that clients received, as `PARTITION_EPOCHS`."""
    rows = union(_epochs_in(requests, source) for source in _SOURCES)
    by = [column.name for column in PARTITION_EPOCHS.columns if column.name != "at_us"]
    # A connection returns the same epoch many times; the names of few rows are looked up.
    by_id = rows.groupBy(*by, "topic_id").agg(f.min("at_us").alias("at_us"))
    named = with_topic_names(by_id, topics)
    return PARTITION_EPOCHS.shape(named.groupBy(*by).agg(f.min("at_us").alias("at_us")))


def _epochs_in(requests: Requests, source: _Source) -> DataFrame:
    topic_id = f.hex("t.topic_id") if source.has_ids else f.lit(None).cast("string")
    return (
        requests.not_plain(source.api)
        # Filtered before exploding: brokers of Kafka send no partition epochs.
        .where(f"exists({source.topics}, t -> exists(t.partitions, p -> p.incarnation_epoch >= 0))")
        .select(
            host(),
            "client_id",
            "connection",
            f.unix_micros("response_ts").alias("at_us"),
            f.explode(f.expr(source.topics)).alias("t"),
        )
        .select("*", f.explode("t.partitions").alias("p"))
        .where("p.incarnation_epoch >= 0")
        .select(
            *("host", "client_id", "connection", "at_us"),
            f.col(f"t.{source.name}").alias("topic"),
            topic_id.alias("topic_id"),
            f.col("p.partition_index").alias("partition"),
            f.col("p.incarnation_epoch").alias("partition_epoch"),
        )
    )
