"""Heartbeats of members that have epochs (KIP-848, KIP-1071): both kinds of group in one shape.

A partition is named by what the heartbeat says of it: "TOPIC ID IN HEX/PARTITION" in a consumer
group, "SUBTOPOLOGY/PARTITION" in a streams group. `state.topics` knows what these are called.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.repeats import LASTS, alone, once
from kafkalite.spark.state.spans import SPAN, span
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column

    from kafkalite.spark.requests import Requests

CONSUMER: Final = "consumer"
STREAMS: Final = "streams"
JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_A_WHILE: Final = -2

HEARTBEATS = table(
    "heartbeats",
    "A heartbeat of a member with an epoch, and the like ones that followed it",
    *SPAN,
    ("client", "string", "who sent it: host:port"),
    ("client_id", "string", "and by which name"),
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
    *LASTS,
)

_KINDS: Final = (
    (
        CONSUMER,
        "ConsumerGroupHeartbeat",
        "hex(t.topic_id)",
        "response.assignment.topic_partitions",
        "request.topic_partitions",
    ),
    (
        STREAMS,
        "StreamsGroupHeartbeat",
        "t.subtopology_id",
        "response.active_tasks",
        "request.active_tasks",
    ),
)
"""(protocol, its API, a partition's name, what an answer assigns, what a request says to own)."""


def heartbeats(requests: Requests) -> DataFrame:
    """Return every heartbeat of consumer and streams groups, as `HEARTBEATS`."""
    return _united(requests, alone)


_ALIKE: Final = ("epoch", "connection", "instance_id")


def beats(requests: Requests, session_timeout_ms: int) -> DataFrame:
    """Return the heartbeats that may tell something new, each for the like ones that follow it."""
    is_plain = (
        (f.col("error") == ErrorCode.NONE)
        & f.col("end_us").isNotNull()
        & (f.col("asked_epoch") > JOINS)
        & f.col("epoch").isNotNull()
        & f.col("assigned").isNull()
        & f.col("owned").isNull()
    )
    timeout_us = f.lit(session_timeout_ms * 1000)
    return _united(requests, lambda every: once(every, is_plain, _ALIKE, timeout_us))


def _united(requests: Requests, keep: Callable[[DataFrame], DataFrame]) -> DataFrame:
    """Return what is kept of both kinds; what they say of partitions is named for that alone."""
    kinds = (
        keep(_of(requests, protocol, api, assigned, owned)).withColumns(
            {"assigned": _named("assigned", name), "owned": _named("owned", name)}
        )
        for protocol, api, name, assigned, owned in _KINDS
    )
    return reduce(DataFrame.unionByName, map(HEARTBEATS.shape, kinds))


def _named(where: str, name: str) -> Column:
    """Return the names of all partitions in a nested list."""
    names = f"transform({where}, t -> transform(t.partitions, p -> concat({name}, '/', p)))"
    return f.flatten(f.expr(names))


def _of(requests: Requests, protocol: str, api: str, assigned: str, owned: str) -> DataFrame:
    return requests.of(api).select(
        *span(),
        "client",
        "client_id",
        f.lit(protocol).alias("protocol"),
        f.col("request.group_id"),
        f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias("member_id"),
        f.col("request.member_id").alias("asked_member_id"),
        f.col("request.instance_id"),
        f.col("request.member_epoch").alias("asked_epoch"),
        f.col("response.member_epoch").alias("epoch"),
        f.col("response.error_code").alias("error"),
        f.col(assigned).alias("assigned"),
        f.col(owned).alias("owned"),
    )
