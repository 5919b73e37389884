"""Heartbeats of members that have epochs (KIP-848, KIP-1071): both kinds of group in one shape.

A partition is named by what the heartbeat says of it: "TOPIC ID IN HEX/PARTITION" in a consumer
group, "SUBTOPOLOGY/PARTITION" in a streams group. `state.topics` knows what these are called.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.requests import api_key
from kafkalite.spark.stages.narrowing import Narrowing, is_there, repeats, types
from kafkalite.spark.state.repeats import IN_TURN, LASTS, MEMBER, alone, crossed, once
from kafkalite.spark.state.spans import SPAN, span
from kafkalite.spark.state.tables import Table, table

if TYPE_CHECKING:
    from collections.abc import Iterable

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
    ("protocol", "string", "consumer or streams; classic where made of what else is said"),
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

RUNS = Table(
    "heartbeat_runs",
    "A heartbeat, and the like ones that followed it in the files that one task read",
    HEARTBEATS.columns,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of member with epochs, and where its heartbeats say what."""

    protocol: str
    api: str
    partition: str
    """SQL for the name of a partition `p` of what is called `t`."""
    assigned: str
    """What an answer assigns."""
    owned: str
    """What a request says to own."""


_KINDS: Final = (
    _Kind(
        CONSUMER,
        "ConsumerGroupHeartbeat",
        "concat(hex(t.topic_id), '/', p)",
        "response.assignment.topic_partitions",
        "request.topic_partitions",
    ),
    _Kind(
        STREAMS,
        "StreamsGroupHeartbeat",
        "concat(t.subtopology_id, '/', p)",
        "response.active_tasks",
        "request.active_tasks",
    ),
)


def heartbeats(requests: Requests) -> DataFrame:
    """Return every heartbeat of consumer and streams groups, as `HEARTBEATS`."""
    return _united((each, alone(_of(requests, each))) for each in _KINDS)


ALIKE: Final = ("epoch", "connection", "instance_id")
PLAIN: Final = (
    f"error = {int(ErrorCode.NONE)} and end_us is not null and asked_epoch > {JOINS}"
    " and epoch is not null and assigned is null and owned is null"
)


def beats(requests: Requests, session_timeout_ms: int) -> DataFrame:
    """Return the heartbeats that may tell something new, each for the like ones that follow it."""
    if requests.are_few:
        told = heartbeat_runs(requests, session_timeout_ms)
    else:
        told = requests.state(RUNS.name)
        crossing = crossed(told)
        if not crossing.isEmpty():
            # What one task has seen follow each other has in truth others in between.
            rest = told.join(crossing, [*MEMBER], "left_anti")
            whole = heartbeats(requests).join(crossing, [*MEMBER], "left_semi")
            told = HEARTBEATS.shape(rest.unionByName(whole))
    return once(told, f.expr(PLAIN), ALIKE, f.lit(session_timeout_ms * 1000))


def heartbeat_runs(requests: Requests, session_timeout_ms: int) -> DataFrame:
    """Return each heartbeat but for the like ones that follow it where it was read, as `RUNS`."""
    timeout_us = session_timeout_ms * 1000
    return _united((each, requests.narrowed(_narrowing(each, timeout_us))) for each in _KINDS)


def _united(kinds: Iterable[tuple[_Kind, DataFrame]]) -> DataFrame:
    """Return all kinds as `HEARTBEATS`: what they say of partitions is named.

    Whom a request that cannot be read was of, nobody knows; its answer alone makes no member.
    """
    shaped = (
        HEARTBEATS.shape(
            told.where("group_id is not null").withColumns(
                {
                    "protocol": f.lit(kind.protocol),
                    "assigned": _named("assigned", kind.partition),
                    "owned": _named("owned", kind.partition),
                }
            )
        )
        for kind, told in kinds
    )
    return reduce(DataFrame.unionByName, shaped)


def _named(where: str, partition: str) -> Column:
    """Return the names of all partitions in a nested list."""
    return f.flatten(f.expr(f"transform({where}, t -> transform(t.partitions, p -> {partition}))"))


def _of(requests: Requests, kind: _Kind) -> DataFrame:
    return requests.of(kind.api).select(
        *span(),
        "client",
        "client_id",
        f.col("request.group_id"),
        f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias("member_id"),
        f.col("request.member_id").alias("asked_member_id"),
        f.col("request.instance_id"),
        f.col("request.member_epoch").alias("asked_epoch"),
        f.col("response.member_epoch").alias("epoch"),
        f.col("response.error_code").alias("error"),
        f.col(kind.assigned).alias("assigned"),
        f.col(kind.owned).alias("owned"),
    )


_FIELDS: Final = {
    "client": "client",
    "client_id": "client_id",
    "group_id": "request.group_id",
    "named_member_id": "response.member_id",
    "asked_member_id": "request.member_id",
    "instance_id": "request.instance_id",
    "asked_epoch": "request.member_epoch",
    "epoch": "response.member_epoch",
    "error": "response.error_code",
}
_MADE: Final = {"member_id": pa.string(), "last_start_us": pa.int64(), "lasts_us": pa.int64()}


def _narrowing(kind: _Kind, timeout_us: int) -> Narrowing:
    key = api_key(kind.api)
    fields = {**_FIELDS, "assigned": kind.assigned, "owned": kind.owned}
    return Narrowing(
        api_key=key,
        fields=fields,
        narrow=partial(without_repeats, timeout_us=timeout_us),
        schema=pa.schema(list({**types(key, fields), **_MADE}.items())),
    )


def without_repeats(rows: pa.Table, timeout_us: int) -> pa.Table:
    """Leave out the heartbeats that repeat the one before, of the columns that are read of them."""
    named = rows["named_member_id"]
    is_named = pc.fill_null(pc.not_equal(named, ""), fill_value=False)
    at = pc.coalesce(rows["end_us"], rows["start_us"])
    told = rows.append_column("at_us", at).append_column(
        "member_id", pc.if_else(is_named, named, rows["asked_member_id"])
    )
    plain = (
        np.asarray(pc.fill_null(pc.equal(rows["error"], int(ErrorCode.NONE)), fill_value=False))
        & np.asarray(pc.fill_null(pc.greater(rows["asked_epoch"], JOINS), fill_value=False))
        & is_there(rows["end_us"])
        & is_there(rows["epoch"])
        & ~is_there(rows["assigned"])
        & ~is_there(rows["owned"])
    )
    firsts, lasts = repeats(
        told, MEMBER, IN_TURN, is_plain=plain, alike=ALIKE, timeout_us=timeout_us
    )
    left = told.take(pa.array(firsts))
    last = told.select(["start_us", "at_us"]).take(pa.array(lasts))
    return left.append_column("last_start_us", last["start_us"]).append_column(
        "lasts_us", last["at_us"]
    )
