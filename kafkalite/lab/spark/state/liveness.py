"""Membership requests: requests by which members of all groups join, stay and leave."""

from __future__ import annotations

from functools import partial, reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.groups.session_rules import COMMIT_REFUSALS, ENDED_CODES, RENEWING_CODES
from kafkalite.lab.spark.dataframes import Window, union
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.requests import api_key
from kafkalite.lab.spark.stages.projection import (
    Projection,
    column_types,
    find_repeats,
    first_elements,
)
from kafkalite.lab.spark.state.heartbeats import (
    HEARTBEAT_APIS,
    JOIN_EPOCH,
    LEAVE_TEMPORARILY_EPOCH,
    distinct_share_heartbeats,
    heartbeats,
    share_heartbeats,
)
from kafkalite.lab.spark.state.repeated_heartbeats import (
    MEMBER,
    RUN_END,
    TIME_ORDER,
    as_single_runs,
    collapse_repeats,
    take_runs,
)
from kafkalite.lab.spark.state.tables import Table, table
from kafkalite.lab.spark.state.timing import TIME_COLUMNS, time_columns
from kafkalite.lab.spark.state.windows import rows_up_to_current
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

CLASSIC: Final = "classic"
JOIN: Final = "join"
STAY: Final = "stay"
LEAVE: Final = "leave"
JOIN_GROUP: Final = "JoinGroup"
SYNC_GROUP: Final = "SyncGroup"
HEARTBEAT: Final = "Heartbeat"
LEAVE_GROUP: Final = "LeaveGroup"
OFFSET_COMMIT: Final = "OffsetCommit"

CLASSIC_APIS: Final = frozenset(map(api_key, (JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP)))
"""The membership requests of the classic protocol."""
MEMBERSHIP_APIS: Final = HEARTBEAT_APIS | CLASSIC_APIS | {ApiKey.SHARE_GROUP_HEARTBEAT}
"""The APIs whose requests `membership_requests` reads."""

MEMBERSHIP_REQUESTS = table(
    "membership_requests",
    "A request by which a member joins, stays or leaves, and the identical ones that followed",
    *TIME_COLUMNS,
    ("client", "string", "the client of the last one: host:port"),
    ("client_id", "string", "the client id of the last one"),
    ("protocol", "string", "consumer, streams, share or classic"),
    ("api", "string", "API of the request; null for a heartbeat of a member with an epoch"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member: id in the response if set, else in the request"),
    ("request_member_id", "string", "member id in the request; empty before it has one"),
    ("instance_id", "string", "a static member's instance id, which its successor shares"),
    ("action", "string", "join, stay or leave"),
    ("has_assignments", "boolean", "whether it is a leader's SyncGroup with assignments"),
    ("may_leave_ghost", "boolean", "whether a ghost may remain if its response is lost"),
    ("error", "smallint", "error code of the response; null without a response"),
    ("generation", "int", "the member epoch or generation"),
    ("joined_consumer_group", "boolean", "whether it joined a consumer group, which has no leader"),
    (
        "session_timeout_ms",
        "bigint",
        "session timeout in the request; null if the broker's applies",
    ),
    ("rebalance_timeout_ms", "bigint", "rebalance timeout in a JoinGroup; null in other requests"),
    ("leave_reason", "string", "reason in a LeaveGroup, which clients send since version 5"),
    (
        "is_waiting",
        "boolean",
        "whether it is a JoinGroup or SyncGroup without a response; its session does not end",
    ),
    (
        "was_member",
        "boolean",
        "whether its response shows that the session had not ended since the member's last request",
    ),
    *RUN_END,
)

MEMBER_COMMITS = Table(
    "member_commits",
    "An OffsetCommit of a member, and the identical ones that followed it in the files of one task",
    MEMBERSHIP_REQUESTS.columns,
)

# From this JoinGroup version on, a coordinator returns a new member's id before it admits it.
_MEMBER_ID_REQUIRED_VERSION: Final = 4


def membership_requests(requests: Requests) -> DataFrame:
    """Return all membership requests, as `MEMBERSHIP_REQUESTS`."""
    with_epochs = heartbeats(requests).unionByName(share_heartbeats(requests))
    return _from_heartbeats(with_epochs).unionByName(classic_membership_requests(requests))


def classic_membership_requests(requests: Requests) -> DataFrame:
    """Return all membership requests of the classic protocol, as `MEMBERSHIP_REQUESTS`."""
    kinds = (_join_requests(requests), *_syncs_and_heartbeats(requests), _leave_requests(requests))
    requests_ = union(kinds)
    # Requests that could not be decoded have no group id and are dropped.
    return _of_classic_members(requests_.where("group_id is not null"))


def distinct_membership_requests(
    requests: Requests, heartbeat_rows: DataFrame, session_timeout_ms: int
) -> DataFrame:
    """Return the membership requests without repetitions, as `MEMBERSHIP_REQUESTS`.

    `heartbeat_rows` has the heartbeats of consumer and streams groups, without repetitions already.
    """
    with_epochs = heartbeat_rows.unionByName(
        distinct_share_heartbeats(requests, session_timeout_ms)
    )
    classic = distinct_classic_requests(classic_membership_requests(requests), session_timeout_ms)
    return _from_heartbeats(with_epochs).unionByName(classic)


def distinct_classic_requests(classic: DataFrame, session_timeout_ms: int) -> DataFrame:
    """Return membership requests of the classic protocol without repeated heartbeats."""
    is_mergeable = (f.col("api") == HEARTBEAT) & f.coalesce(renews_session(), f.lit(False))
    requested_timeout_ms = f.last("session_timeout_ms", ignorenulls=True).over(
        rows_up_to_current(MEMBER, TIME_ORDER)
    )
    timeout_us = f.coalesce(requested_timeout_ms, f.lit(session_timeout_ms)) * 1000
    equal_columns = ("generation", "instance_id", "error")
    return collapse_repeats(classic, is_mergeable, equal_columns, timeout_us)


def _from_heartbeats(heartbeat_rows: DataFrame) -> DataFrame:
    epoch = f.col("request_epoch")
    is_leave = (epoch < JOIN_EPOCH) & (epoch >= LEAVE_TEMPORARILY_EPOCH)
    return MEMBERSHIP_REQUESTS.shape(
        heartbeat_rows.withColumns(
            {
                "api": f.lit(None),
                "action": f.when(epoch == JOIN_EPOCH, JOIN).when(is_leave, LEAVE).otherwise(STAY),
                "has_assignments": f.lit(False),
                "may_leave_ghost": f.col("request_member_id") == "",
                "generation": f.col("epoch"),
                "joined_consumer_group": f.lit(False),
                "session_timeout_ms": f.lit(None),
                "rebalance_timeout_ms": f.lit(None),
                "leave_reason": f.lit(None),
                "is_waiting": f.lit(False),
                "was_member": (epoch > JOIN_EPOCH)
                & f.coalesce(f.col("error") == ErrorCode.NONE, f.lit(False)),
            }
        )
    )


def _join_requests(requests: Requests) -> DataFrame:
    request_member_id = f.col("request.member_id")
    return requests.of("JoinGroup").select(
        *_common_columns(JOIN_GROUP),
        f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias("member_id"),
        request_member_id.alias("request_member_id"),
        f.col("request.group_instance_id").alias("instance_id"),
        f.lit(JOIN).alias("action"),
        f.lit(False).alias("has_assignments"),
        ((request_member_id == "") & f.expr(f"api_version < {_MEMBER_ID_REQUIRED_VERSION}")).alias(
            "may_leave_ghost"
        ),
        f.col("response.error_code").alias("error"),
        f.col("response.generation_id").alias("generation"),
        f.expr("coalesce(response.error_code = 0 and response.leader = '', false)").alias(
            "joined_consumer_group"
        ),
        f.col("request.session_timeout_ms").alias("session_timeout_ms"),
        # Version 0 has no rebalance timeout: the session timeout is used for both.
        f.expr(
            "case when api_version = 0 then request.session_timeout_ms"
            " else request.rebalance_timeout_ms end"
        ).alias("rebalance_timeout_ms"),
        f.lit(None).alias("leave_reason"),
    )


def _syncs_and_heartbeats(requests: Requests) -> Iterator[DataFrame]:
    for api, has_assignments in (
        (SYNC_GROUP, "size(request.assignments) > 0"),
        (HEARTBEAT, "false"),
    ):
        member = f.col("request.member_id")
        yield requests.of(api).select(
            *_common_columns(api),
            member.alias("member_id"),
            member.alias("request_member_id"),
            f.col("request.group_instance_id").alias("instance_id"),
            f.lit(STAY).alias("action"),
            f.expr(has_assignments).alias("has_assignments"),
            f.lit(False).alias("may_leave_ghost"),
            f.col("response.error_code").alias("error"),
            f.col("request.generation_id").alias("generation"),
            f.lit(False).alias("joined_consumer_group"),
            *_no_timeouts_or_reason(),
        )


def _leave_requests(requests: Requests) -> DataFrame:
    members = f.explode(
        f.expr(
            "coalesce("
            "transform(request.members, m -> struct(m.member_id, m.group_instance_id, m.reason)),"
            " array(struct(request.member_id, cast(null as string) as group_instance_id,"
            " cast(null as string) as reason)))"
        )
    )
    member = f.col("leaving.member_id")
    # From version 3 on, a response has one error per member, and one for the whole request.
    error = (
        "coalesce(nullif(response.error_code, 0), get(filter(response.members, m ->"
        " m.member_id <=> leaving.member_id"
        " and m.group_instance_id <=> leaving.group_instance_id), 0).error_code,"
        " response.error_code)"
    )
    return (
        requests.of("LeaveGroup")
        .withColumn("leaving", members)
        .select(
            *_common_columns(LEAVE_GROUP),
            member.alias("member_id"),
            member.alias("request_member_id"),
            f.col("leaving.group_instance_id").alias("instance_id"),
            f.lit(LEAVE).alias("action"),
            f.lit(False).alias("has_assignments"),
            f.lit(False).alias("may_leave_ghost"),
            f.expr(error).alias("error"),
            f.lit(None).alias("generation"),
            f.lit(False).alias("joined_consumer_group"),
            *_no_timeouts_or_reason(f.col("leaving.reason")),
        )
    )


def commits_of_members(requests: Requests) -> DataFrame:
    """Return the OffsetCommit requests of members, as `MEMBERSHIP_REQUESTS`.

    They renew sessions in classic groups. The error is that of the whole request. The protocol is
    null, because all protocols use the same request.
    """
    refusals = ", ".join(str(int(code)) for code in sorted(COMMIT_REFUSALS))
    code = "get(get(response.topics, 0).partitions, 0).error_code"
    member = f.col("request.member_id")
    rows = (
        requests.of(OFFSET_COMMIT)
        .where("request.member_id != ''")
        .select(
            *_common_columns(OFFSET_COMMIT),
            member.alias("member_id"),
            member.alias("request_member_id"),
            f.col("request.group_instance_id").alias("instance_id"),
            f.lit(STAY).alias("action"),
            f.lit(False).alias("has_assignments"),
            f.lit(False).alias("may_leave_ghost"),
            f.expr(
                f"case when response_ts is null then null when {code} in ({refusals}) then {code}"
                f" else {int(ErrorCode.NONE)} end"
            ).alias("error"),
            f.col("request.generation_id_or_member_epoch").alias("generation"),
            f.lit(False).alias("joined_consumer_group"),
            *_no_timeouts_or_reason(),
        )
    )
    return _of_classic_members(rows.withColumn("protocol", f.lit(None)))


def distinct_commits_of_members(requests: Requests, timeout_us: int, name: str = "") -> DataFrame:
    """Return the OffsetCommit requests of members without repetitions, as `MEMBER_COMMITS`.

    `timeout_us` is the shortest session timeout: merged commits are at most this far apart, so that
    they hide no silence. `name` is that of the projection.
    """
    member = f.col("member_id")
    constant = {
        "protocol": None,
        "api": OFFSET_COMMIT,
        "action": STAY,
        "has_assignments": False,
        "may_leave_ghost": False,
        "joined_consumer_group": False,
        "session_timeout_ms": None,
        "rebalance_timeout_ms": None,
        "leave_reason": None,
    }
    return _with_session_facts(
        requests.project(commits_of_members_projection(timeout_us, name)).withColumns(
            {"request_member_id": member, **{name: f.lit(each) for name, each in constant.items()}}
        )
    )


def commits_of_members_projection(timeout_us: int, name: str) -> Projection:
    """Return the projection of `distinct_commits_of_members`."""
    key = api_key(OFFSET_COMMIT)
    return Projection(
        name=name,
        api_key=key,
        fields=_COMMIT_FIELDS,
        reduce_rows=partial(without_repeated_commits, timeout_us=timeout_us),
        schema=pa.schema(
            [
                *(
                    (name, kind)
                    for name, kind in column_types(key, _COMMIT_FIELDS).items()
                    if name != "topics"
                ),
                ("error", pa.int16()),
                ("last_start_us", pa.int64()),
                ("last_end_us", pa.int64()),
            ]
        ),
    )


_COMMIT_FIELDS: Final = {
    "client": "client",
    "client_id": "client_id",
    "group_id": "request.group_id",
    "member_id": "request.member_id",
    "instance_id": "request.group_instance_id",
    "generation": "request.generation_id_or_member_epoch",
    "topics": "response.topics",
}


def without_repeated_commits(rows: pa.Table, timeout_us: int) -> pa.Table:
    """Drop commits that repeat the previous one of their member; add the end of each run."""
    of_members = rows.filter(pc.fill_null(pc.not_equal(rows["member_id"], ""), fill_value=False))
    partition = first_elements(pc.struct_field(first_elements(of_members["topics"]), "partitions"))
    code = pc.struct_field(partition, "error_code")
    is_refused = pc.is_in(code, pa.array(map(int, sorted(COMMIT_REFUSALS)), pa.int16()))
    none = pa.scalar(int(ErrorCode.NONE), pa.int16())
    error = pc.if_else(
        pc.is_valid(of_members["end_us"]),
        pc.if_else(is_refused, code, none),
        pa.scalar(None, pa.int16()),
    )
    commits = of_members.append_column("error", error).append_column(
        "at_us", pc.coalesce(of_members["end_us"], of_members["start_us"])
    )
    firsts, lasts = find_repeats(
        commits,
        MEMBER,
        TIME_ORDER,
        is_mergeable=np.asarray(pc.fill_null(pc.equal(error, none), fill_value=False)),
        equal_columns=("generation", "instance_id"),
        timeout_us=timeout_us,
    )
    return take_runs(commits, firsts, lasts)


def _of_classic_members(rows: DataFrame) -> DataFrame:
    return _with_session_facts(as_single_runs(rows))


def _with_session_facts(rows: DataFrame) -> DataFrame:
    has_id = f.col("request_member_id") != ""
    waits = f.col("api").isin(JOIN_GROUP, SYNC_GROUP) & f.col("end_us").isNull()
    return MEMBERSHIP_REQUESTS.shape(
        rows.withColumns(
            {
                "is_waiting": waits & has_id,
                "was_member": has_id & f.coalesce(renews_session(), f.lit(False)),
            }
        )
    )


def _no_timeouts_or_reason(reason: Column | None = None) -> list[Column]:
    return [
        f.lit(None).alias("session_timeout_ms"),
        f.lit(None).alias("rebalance_timeout_ms"),
        (f.lit(None) if reason is None else reason).alias("leave_reason"),
    ]


def _common_columns(api: str) -> list[Column]:
    return [
        *time_columns(),
        f.col("client"),
        f.col("client_id"),
        f.lit(CLASSIC).alias("protocol"),
        f.lit(api).alias("api"),
        f.col("request.group_id").alias("group_id"),
    ]


IDENTITY: Final = ("group_id", "identity")


def identity(member_id: str = "member_id", instance_id: str = "instance_id") -> Column:
    """Return the identity of a member: its instance id if it is static, else its member id.

    A static member that returns with a new member id has the same identity. A request may have an
    instance id and no member id.
    """
    return f.coalesce(instance_id, member_id).alias(IDENTITY[1])


def with_member_facts(membership_requests: DataFrame) -> DataFrame:
    """Add what a member's other requests show: its instance id, and the protocol of its commits."""
    member_rows = Window.partitionBy(*MEMBER)
    has_id = f.col("member_id") != ""
    return membership_requests.withColumns(
        {
            name: f.coalesce(name, f.when(has_id, f.max(name).over(member_rows)))
            for name in ("instance_id", "protocol")
        }
    )


def ends_membership(action: str = "action", error: str = "error") -> Column:
    """Whether this request ends the membership.

    A refused leave does not end it. A leave without a response ends it.
    """
    unknown_member = f.col(error).isin(*map(int, ENDED_CODES))
    is_accepted = f.coalesce(f.col(error) == ErrorCode.NONE, f.lit(True))
    return ((f.col(action) == LEAVE) & is_accepted) | f.coalesce(unknown_member, f.lit(False))


def renews_session() -> Column:
    """Whether this request renewed its member's session; null without a response.

    A heartbeat that returns REBALANCE_IN_PROGRESS renews it: its client works while others wait.
    """
    codes = {
        api: RENEWING_CODES[key]
        for api, key in (
            (JOIN_GROUP, ApiKey.JOIN_GROUP),
            (SYNC_GROUP, ApiKey.SYNC_GROUP),
            (HEARTBEAT, ApiKey.HEARTBEAT),
            (OFFSET_COMMIT, ApiKey.OFFSET_COMMIT),
        )
    }
    by_api = reduce(
        or_,
        ((f.col("api") == api) & f.col("error").isin(*map(int, of)) for api, of in codes.items()),
    )
    has_epoch = f.col("api").isNull() & (f.col("error") == ErrorCode.NONE)
    return (f.col("action") != LEAVE) & (has_epoch | f.coalesce(by_api, f.lit(False)))


def shows_member() -> Column:
    """Whether this request shows that its member has a client, or ends its membership.

    A member that is refused for another reason than its membership, such as an old generation, has
    a client. A refused join comes from a client that is not a member.
    """
    is_fenced = f.col("error") == ErrorCode.FENCED_INSTANCE_ID
    stays = (f.col("action") == STAY) & ~f.coalesce(is_fenced, f.lit(False))
    return (
        f.coalesce(renews_session(), f.lit(False))
        | f.col("error").isNull()
        | stays
        | ends_membership()
    )
