"""Signs of life: what members of all kinds of group do to be, stay and no longer be members."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.heartbeats import JOINS, LEAVES_FOR_A_WHILE, heartbeats
from kafkalite.spark.state.order import until_now
from kafkalite.spark.state.repeats import IN_TURN, LASTS, MEMBER, alone, once
from kafkalite.spark.state.spans import SPAN, span
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column

    from kafkalite.spark.requests import Requests

CLASSIC: Final = "classic"
JOIN: Final = "join"
STAY: Final = "stay"
LEAVE: Final = "leave"
JOIN_GROUP: Final = "JoinGroup"
SYNC_GROUP: Final = "SyncGroup"
HEARTBEAT: Final = "Heartbeat"

SIGNS = table(
    "signs_of_life",
    "A request by which a member joins, stays or leaves, and the like ones that followed it",
    *SPAN,
    ("client", "string", "who sent it: host:port"),
    ("client_id", "string", "and by which name"),
    ("protocol", "string", "consumer, streams or classic"),
    ("api", "string", "what it was; null for a heartbeat of a member with an epoch"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member: as asked, or as it was named by the answer"),
    ("asked_member_id", "string", "the member as the request names it; empty before it has a name"),
    ("instance_id", "string", "a static member's name, which its successor has, too"),
    ("sign", "string", "join, stay or leave"),
    ("hands_out", "boolean", "whether it hands out the partitions of a classic group: a SyncGroup"),
    ("is_harmless", "boolean", "whether its answer may get lost without a trace"),
    ("error", "smallint", "what it was answered; null without an answer"),
    ("generation", "int", "the epoch or generation it was given"),
    ("is_leaderless", "boolean", "whether it joined a group of members with epochs: no leader"),
    ("session_timeout_ms", "bigint", "how long it may be silent; null: as the broker has it"),
    *LASTS,
)

# A coordinator that asks a newcomer to come back with the id it names has no member yet.
_NAMES_BEFORE_IT_ADMITS: Final = 4


def signs(requests: Requests) -> DataFrame:
    """Return every sign of life, as `SIGNS`."""
    return _of_epochs(heartbeats(requests)).unionByName(classic_signs(requests))


def classic_signs(requests: Requests) -> DataFrame:
    """Return every sign of life of who speaks the classic protocol, as `SIGNS`."""
    kinds = (_joins(requests), *_stays(requests), _leaves(requests))
    every = reduce(DataFrame.unionByName, kinds)
    # Whom a request that cannot be read was of, nobody knows; its answer alone makes no member.
    return SIGNS.shape(alone(every.where("group_id is not null")))


def telling_signs(requests: Requests, beats: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return the signs of life as `SIGNS`, each but for the like ones that follow it.

    `beats` has those of members with epochs so already.
    """
    classic = said_once(classic_signs(requests), session_timeout_ms)
    return _of_epochs(beats).unionByName(classic)


def said_once(classic: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return signs of the classic protocol, each but for the like ones that follow it."""
    is_plain = (
        (f.col("api") == HEARTBEAT)
        & (f.col("error") == ErrorCode.NONE)
        & f.col("end_us").isNotNull()
    )
    asked_for = f.last("session_timeout_ms", ignorenulls=True).over(until_now(MEMBER, IN_TURN))
    timeout_us = f.coalesce(asked_for, f.lit(session_timeout_ms)) * 1000
    alike = ("generation", "connection", "instance_id")
    return once(classic, is_plain, alike, timeout_us)


def _of_epochs(beats: DataFrame) -> DataFrame:
    epoch = f.col("asked_epoch")
    is_leave = (epoch < JOINS) & (epoch >= LEAVES_FOR_A_WHILE)
    return SIGNS.shape(
        beats.withColumns(
            {
                "api": f.lit(None),
                "sign": f.when(epoch == JOINS, JOIN).when(is_leave, LEAVE).otherwise(STAY),
                "hands_out": f.lit(False),
                "is_harmless": f.col("asked_member_id") != "",
                "generation": f.col("epoch"),
                "is_leaderless": f.lit(False),
                "session_timeout_ms": f.lit(None),
            }
        )
    )


def _joins(requests: Requests) -> DataFrame:
    asked = f.col("request.member_id")
    return requests.of("JoinGroup").select(
        *_common(JOIN_GROUP),
        f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias("member_id"),
        asked.alias("asked_member_id"),
        f.col("request.group_instance_id").alias("instance_id"),
        f.lit(JOIN).alias("sign"),
        f.lit(False).alias("hands_out"),
        ((asked != "") | f.expr(f"api_version >= {_NAMES_BEFORE_IT_ADMITS}")).alias("is_harmless"),
        f.col("response.error_code").alias("error"),
        f.col("response.generation_id").alias("generation"),
        f.expr("coalesce(response.error_code = 0 and response.leader = '', false)").alias(
            "is_leaderless"
        ),
        f.col("request.session_timeout_ms").alias("session_timeout_ms"),
    )


def _stays(requests: Requests) -> Iterator[DataFrame]:
    for api, hands_out in ((SYNC_GROUP, "size(request.assignments) > 0"), (HEARTBEAT, "false")):
        member = f.col("request.member_id")
        yield requests.of(api).select(
            *_common(api),
            member.alias("member_id"),
            member.alias("asked_member_id"),
            f.col("request.group_instance_id").alias("instance_id"),
            f.lit(STAY).alias("sign"),
            f.expr(hands_out).alias("hands_out"),
            f.lit(True).alias("is_harmless"),
            f.col("response.error_code").alias("error"),
            f.col("request.generation_id").alias("generation"),
            f.lit(False).alias("is_leaderless"),
            f.lit(None).alias("session_timeout_ms"),
        )


def _leaves(requests: Requests) -> DataFrame:
    who = f.explode(
        f.expr(
            "coalesce(transform(request.members, m -> struct(m.member_id, m.group_instance_id)),"
            " array(struct(request.member_id, cast(null as string) as group_instance_id)))"
        )
    )
    member = f.col("leaving.member_id")
    # From version 3 on an answer tells of each member what became of it, if not of all at once.
    error = (
        "coalesce(nullif(response.error_code, 0), get(filter(response.members, m ->"
        " m.member_id <=> leaving.member_id"
        " and m.group_instance_id <=> leaving.group_instance_id), 0).error_code,"
        " response.error_code)"
    )
    return (
        requests.of("LeaveGroup")
        .withColumn("leaving", who)
        .select(
            *_common("LeaveGroup"),
            member.alias("member_id"),
            member.alias("asked_member_id"),
            f.col("leaving.group_instance_id").alias("instance_id"),
            f.lit(LEAVE).alias("sign"),
            f.lit(False).alias("hands_out"),
            f.lit(True).alias("is_harmless"),
            f.expr(error).alias("error"),
            f.lit(None).alias("generation"),
            f.lit(False).alias("is_leaderless"),
            f.lit(None).alias("session_timeout_ms"),
        )
    )


def _common(api: str) -> list[Column]:
    return [
        *span(),
        f.col("client"),
        f.col("client_id"),
        f.lit(CLASSIC).alias("protocol"),
        f.lit(api).alias("api"),
        f.col("request.group_id").alias("group_id"),
    ]


SOMEBODY: Final = ("group_id", "somebody")


def somebody(member_id: str = "member_id", instance_id: str = "instance_id") -> Column:
    """Return who a member is: one that comes by a static member's name takes its place.

    And whoever is removed by that name alone is the one that has it.
    """
    return f.coalesce(instance_id, member_id).alias(SOMEBODY[1])


def is_over(sign: str = "sign", error: str = "error") -> Column:
    """Whether nobody is a member any more after this sign.

    A leave that was refused is none; one without an answer is taken for one.
    """
    unheard_of = f.col(error).isin(
        int(ErrorCode.UNKNOWN_MEMBER_ID), int(ErrorCode.GROUP_ID_NOT_FOUND)
    )
    is_taken = f.coalesce(f.col(error) == ErrorCode.NONE, f.lit(True))
    return ((f.col(sign) == LEAVE) & is_taken) | f.coalesce(unheard_of, f.lit(False))
