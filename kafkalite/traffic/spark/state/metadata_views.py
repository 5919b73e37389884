"""Metadata that each client received: leader epochs and topic ids, by partition and time."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.traffic.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kafkalite.traffic.spark.requests import Requests

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
)

NO_ID = "00000000000000000000000000000000"

_SOURCES = (
    ("Metadata", "t.name"),
    ("DescribeTopicPartitions", "t.name"),
)


def host() -> Column:
    """Return the client's address without the port."""
    port = "length(substring_index(client, ':', -1))"
    return f.expr(f"left(client, greatest(length(client) - {port} - 1, 0))").alias("host")


def views(requests: Requests) -> DataFrame:
    """Return the metadata that clients received, as `VIEWS`."""
    return reduce(DataFrame.unionByName, (_views_of(requests, *source) for source in _SOURCES))


def _views_of(requests: Requests, api: str, name: str) -> DataFrame:
    partitions = (
        requests.of(api)
        .where("response_ts is not null")
        .select(
            host(),
            "client_id",
            "client",
            "broker",
            "connection",
            f.unix_micros("response_ts").alias("at_us"),
            f.col("offset").alias("position"),
            f.explode("response.topics").alias("t"),
        )
        .select(
            "*",
            f.col(name).alias("topic"),
            f.nullif(f.coalesce(f.hex("t.topic_id"), f.lit("")), f.lit(NO_ID)).alias("id"),
            f.explode("t.partitions").alias("p"),
        )
        .where("p.leader_epoch >= 0")
    )
    return VIEWS.shape(
        partitions.withColumns(
            {
                "api": f.lit(api),
                "topic_id": f.coalesce("id", f.lit("")),
                "partition": f.col("p.partition_index"),
                "leader_id": f.col("p.leader_id"),
                "leader_epoch": f.col("p.leader_epoch"),
            }
        )
    )
