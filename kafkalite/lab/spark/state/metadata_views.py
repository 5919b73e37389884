"""Metadata that each client received: epochs and topic ids, by partition and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

VIEWS = table(
    "metadata_views",
    "A partition's leader in a response to a client",
    ("host", "string", "the client's address"),
    ("client_id", "string", "the client id"),
    ("client", "string", "host:port of the connection"),
    ("broker", "string", "the broker: host:port"),
    ("connection", "bigint", "the connection"),
    ("at_us", "bigint", "time of the response in microseconds since the Unix epoch"),
    ("position", "bigint", "position of the request in its file"),
    ("api", "string", "API of the request"),
    ("topic", "string", "the topic's name"),
    ("topic_id", "string", "its id in hex; empty in versions without"),
    ("partition", "int", "the partition"),
    ("leader_id", "int", "the leader"),
    ("leader_epoch", "int", "the leader epoch"),
    ("partition_epoch", "int", "the partition epoch (KIP-232); null if there is none"),
)

NO_ID = "00000000000000000000000000000000"

_SOURCES = (
    ("Metadata", "nullif(p.incarnation_epoch, -1)"),
    ("DescribeTopicPartitions", "cast(null as int)"),
)
"""(API, SQL for the partition epoch of a partition)."""


def host() -> Column:
    """Return the client's address without the port."""
    port = "length(substring_index(client, ':', -1))"
    return f.expr(f"left(client, greatest(length(client) - {port} - 1, 0))").alias("host")


def views(requests: Requests) -> DataFrame:
    """Return the metadata that clients received, as `VIEWS`."""
    return union(_views_of(requests, *source) for source in _SOURCES)


def max_epochs(requests: Requests) -> DataFrame:
    """Return the largest partition epochs that Metadata responses reported.

    The columns are the first ones of `VIEWS` up to the API, cluster_id and max_partition_epoch.
    """
    return (
        requests.not_plain("Metadata")
        .where("response.max_incarnation_epoch >= 0")
        .select(
            *_envelope("Metadata"),
            "response.cluster_id",
            f.col("response.max_incarnation_epoch").alias("max_partition_epoch"),
        )
    )


def _envelope(api: str) -> tuple[Column | str, ...]:
    return (
        host(),
        *("client_id", "client", "broker", "connection"),
        f.unix_micros("response_ts").alias("at_us"),
        f.col("offset").alias("position"),
        f.lit(api).alias("api"),
    )


def _views_of(requests: Requests, api: str, partition_epoch: str) -> DataFrame:
    partitions = (
        requests.of(api)
        .where("response_ts is not null")
        .select(*_envelope(api), f.explode("response.topics").alias("t"))
        .select(
            "*",
            f.col("t.name").alias("topic"),
            f.nullif(f.coalesce(f.hex("t.topic_id"), f.lit("")), f.lit(NO_ID)).alias("id"),
            f.explode("t.partitions").alias("p"),
        )
        .where("p.leader_epoch >= 0")
    )
    return VIEWS.shape(
        partitions.withColumns(
            {
                "topic_id": f.coalesce("id", f.lit("")),
                "partition": f.col("p.partition_index"),
                "leader_id": f.col("p.leader_id"),
                "leader_epoch": f.col("p.leader_epoch"),
                "partition_epoch": f.expr(partition_epoch),
            }
        )
    )
