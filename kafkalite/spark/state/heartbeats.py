"""Heartbeats of members that have epochs (KIP-848, KIP-1071): both kinds of group in one shape.

A partition is named by what the heartbeat says of it: "TOPIC ID IN HEX/PARTITION" in a consumer
group, "SUBTOPOLOGY/PARTITION" in a streams group. `state.topics` knows what these are called.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.spark.state.spans import SPAN, span
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from kafkalite.spark.requests import Requests

CONSUMER: Final = "consumer"
STREAMS: Final = "streams"
JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2

HEARTBEATS = table(
    "heartbeats",
    "A heartbeat of a member with an epoch",
    *SPAN,
    ("client", "string", "who sent it: host:port"),
    ("client_id", "string", "and by which name"),
    ("api_version", "smallint", "the version it was sent in"),
    ("protocol", "string", "consumer or streams"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member: as asked, or as it was named by the answer"),
    ("asked_member_id", "string", "the member as the request names it; empty before it has a name"),
    ("instance_id", "string", "a static member's name"),
    ("asked_epoch", "int", "the epoch it knew; 0 joins, -1 leaves, -2 leaves for a while"),
    ("epoch", "int", "the epoch it was given"),
    ("error", "smallint", "what it was answered; null without an answer"),
    ("assigned", "array<string>", "all that is its own from now on; null when that stays"),
    ("owned", "array<string>", "what it says it owns; null when that stays"),
)

_PARTITIONS: Final = (
    "flatten(transform({where}, t -> transform(t.partitions, p -> concat({name}, '/', p))))"
)


def _named(where: str, name: str) -> str:
    """Return SQL for the names of all partitions in a nested list."""
    return _PARTITIONS.format(where=where, name=name)


_KINDS: Final = (
    (
        CONSUMER,
        "ConsumerGroupHeartbeat",
        _named("response.assignment.topic_partitions", "hex(t.topic_id)"),
        _named("request.topic_partitions", "hex(t.topic_id)"),
    ),
    (
        STREAMS,
        "StreamsGroupHeartbeat",
        _named("response.active_tasks", "t.subtopology_id"),
        _named("request.active_tasks", "t.subtopology_id"),
    ),
)
"""(protocol, its API, what an answer assigns, what a request says to own)."""


def heartbeats(requests: Requests) -> DataFrame:
    """Return every heartbeat of consumer and streams groups, as `HEARTBEATS`."""
    return reduce(DataFrame.unionByName, (_of(requests, *kind) for kind in _KINDS))


def _of(requests: Requests, protocol: str, api: str, assigned: str, owned: str) -> DataFrame:
    return HEARTBEATS.shape(
        requests.of(api).select(
            *span(),
            "client",
            "client_id",
            "api_version",
            f.lit(protocol).alias("protocol"),
            f.col("request.group_id"),
            f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias(
                "member_id"
            ),
            f.col("request.member_id").alias("asked_member_id"),
            f.col("request.instance_id"),
            f.col("request.member_epoch").alias("asked_epoch"),
            f.col("response.member_epoch").alias("epoch"),
            f.col("response.error_code").alias("error"),
            f.expr(assigned).alias("assigned"),
            f.expr(owned).alias("owned"),
        )
    )
