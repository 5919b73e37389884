"""Signs of life: what members of all kinds of group do to be, stay and no longer be members."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.spark.state.heartbeats import JOINS, LEAVES_FOR_A_WHILE, heartbeats
from kafkalite.spark.state.spans import SPAN, field, span
from kafkalite.spark.state.tables import table

if TYPE_CHECKING:
    from pyspark.sql import Column

    from kafkalite.spark.requests import Requests

CLASSIC: Final = "classic"
JOIN: Final = "join"
STAY: Final = "stay"
LEAVE: Final = "leave"

SIGNS = table(
    "signs_of_life",
    "A request by which a member joins, stays or leaves",
    *SPAN,
    ("client", "string", "who sent it: host:port"),
    ("client_id", "string", "and by which name"),
    ("protocol", "string", "consumer, streams or classic"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member: as asked, or as it was named by the answer"),
    ("asked_member_id", "string", "the member as the request names it; empty before it has a name"),
    ("sign", "string", "join, stay or leave"),
    ("is_harmless", "boolean", "whether its answer may get lost without a trace"),
    ("error", "smallint", "what it was answered; null without an answer"),
    ("generation", "int", "the epoch or generation it was given"),
    ("session_timeout_ms", "bigint", "how long it may be silent; null: as the broker has it"),
)

# A coordinator that asks a newcomer to come back with the id it names has no member yet.
_NAMES_BEFORE_IT_ADMITS: Final = 4


def signs(requests: Requests) -> DataFrame:
    """Return every sign of life, as `SIGNS`."""
    kinds = (_beats(requests), _joins(requests), _stays(requests), _leaves(requests))
    return reduce(DataFrame.unionByName, (SIGNS.shape(kind) for kind in kinds))


def _beats(requests: Requests) -> DataFrame:
    epoch = f.col("asked_epoch")
    is_leave = (epoch < JOINS) & (epoch >= LEAVES_FOR_A_WHILE)
    return heartbeats(requests).withColumns(
        {
            "sign": f.when(epoch == JOINS, JOIN).when(is_leave, LEAVE).otherwise(STAY),
            "is_harmless": f.col("asked_member_id") != "",
            "generation": f.col("epoch"),
            "session_timeout_ms": f.lit(None),
        }
    )


def _joins(requests: Requests) -> DataFrame:
    asked = f.col("request.member_id")
    return requests.of("JoinGroup").select(
        *_common(),
        f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias("member_id"),
        asked.alias("asked_member_id"),
        f.lit(JOIN).alias("sign"),
        ((asked != "") | f.expr(f"api_version >= {_NAMES_BEFORE_IT_ADMITS}")).alias("is_harmless"),
        f.col("response.error_code").alias("error"),
        f.col("response.generation_id").alias("generation"),
        f.col("request.session_timeout_ms").alias("session_timeout_ms"),
    )


def _stays(requests: Requests) -> DataFrame:
    kinds = []
    for api in ("SyncGroup", "Heartbeat"):
        member = f.col("request.member_id")
        kinds.append(
            requests.of(api).select(
                *_common(),
                member.alias("member_id"),
                member.alias("asked_member_id"),
                f.lit(STAY).alias("sign"),
                f.lit(True).alias("is_harmless"),
                f.col("response.error_code").alias("error"),
                f.col("request.generation_id").alias("generation"),
                f.lit(None).alias("session_timeout_ms"),
            )
        )
    return reduce(DataFrame.unionByName, kinds)


def _leaves(requests: Requests) -> DataFrame:
    who = f.explode(
        f.expr("coalesce(transform(request.members, m -> m.member_id), array(request.member_id))")
    )
    member = f.col("leaving")
    return (
        requests.of("LeaveGroup")
        .withColumn("leaving", who)
        .select(
            *_common(),
            member.alias("member_id"),
            member.alias("asked_member_id"),
            f.lit(LEAVE).alias("sign"),
            f.lit(True).alias("is_harmless"),
            f.expr(field("response.error_code", "cast(null as smallint)")).alias("error"),
            f.lit(None).alias("generation"),
            f.lit(None).alias("session_timeout_ms"),
        )
    )


def _common() -> list[Column]:
    return [
        *span(),
        f.col("client"),
        f.col("client_id"),
        f.lit(CLASSIC).alias("protocol"),
        f.col("request.group_id").alias("group_id"),
    ]


def is_over(sign: str = "sign", error: str = "error") -> Column:
    """Whether nobody is a member any more after this sign."""
    unheard_of = f.col(error).isin(
        int(ErrorCode.UNKNOWN_MEMBER_ID), int(ErrorCode.GROUP_ID_NOT_FOUND)
    )
    return (f.col(sign) == LEAVE) | f.coalesce(unheard_of, f.lit(False))
