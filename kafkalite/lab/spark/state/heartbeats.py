"""State tables of heartbeats in consumer and streams groups (KIP-848, KIP-1071).

Partitions are named as in heartbeats: "TOPIC ID IN HEX/PARTITION" in a consumer group,
"SUBTOPOLOGY/PARTITION" in a streams group. `state.topics` has the names of topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import union
from kafkalite.lab.spark.requests import api_key
from kafkalite.lab.spark.stages.projection import (
    Projection,
    column_types,
    find_repeats,
    is_valid,
)
from kafkalite.lab.spark.state.repeated_heartbeats import (
    MEMBER,
    RUN_END,
    TIME_ORDER,
    as_single_runs,
    collapse_repeats,
    interleaved_members,
    take_runs,
)
from kafkalite.lab.spark.state.tables import Table, table
from kafkalite.lab.spark.state.timing import TIME_COLUMNS, time_columns
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

    from kafkalite.lab.spark.requests import Requests

CONSUMER: Final = "consumer"
STREAMS: Final = "streams"
SHARE: Final = "share"
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_TEMPORARILY_EPOCH: Final = -2

HEARTBEATS = table(
    "heartbeats",
    "A heartbeat of a member with an epoch, and the identical ones that followed it",
    *TIME_COLUMNS,
    ("client", "string", "the client of the last one: host:port"),
    ("client_id", "string", "the client id of the last one"),
    ("protocol", "string", "consumer or streams; classic if derived from classic requests"),
    ("group_id", "string", "the group"),
    ("member_id", "string", "the member: id in the response if set, else in the request"),
    ("request_member_id", "string", "member id in the request; empty before it has one"),
    ("instance_id", "string", "a static member's instance id"),
    ("request_epoch", "int", "epoch in the request; 0 joins, -1 leaves, -2 leaves temporarily"),
    ("epoch", "int", "epoch in the response"),
    ("error", "smallint", "error code of the response; null without a response"),
    ("assigned", "array<string>", "the member's new assignment; null if unchanged"),
    ("owned", "array<string>", "partitions it reports as owned; null if unchanged"),
    *RUN_END,
)

RUNS = Table(
    "heartbeat_runs",
    "A heartbeat, and the identical ones that followed it in the files of one task",
    HEARTBEATS.columns,
)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A group protocol with member epochs, and the fields of its heartbeats."""

    protocol: str
    api: str
    partition: str
    """SQL for the name of partition `p` of topic or subtopology `t`."""
    assigned: str
    """Path of the assignment in the response."""
    owned: str
    """Path of the owned partitions in the request."""


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
HEARTBEAT_APIS: Final = frozenset(api_key(kind.api) for kind in _KINDS)
"""The heartbeats of consumer and streams groups."""


def heartbeats(requests: Requests) -> DataFrame:
    """Return every heartbeat of consumer and streams groups, as `HEARTBEATS`."""
    return _combine_protocols(
        (kind, as_single_runs(_heartbeats_of(requests, kind))) for kind in _KINDS
    )


def share_heartbeats(requests: Requests) -> DataFrame:
    """Return every heartbeat of share groups, as `HEARTBEATS`, without partitions.

    Members of share groups own no partition alone, and none of them is static.
    """
    rows = requests.of("ShareGroupHeartbeat").select(
        *time_columns(),
        "client",
        "client_id",
        f.col("request.group_id"),
        f.col("request.member_id").alias("member_id"),
        f.col("request.member_id").alias("request_member_id"),
        f.col("request.member_epoch").alias("request_epoch"),
        f.col("response.member_epoch").alias("epoch"),
        f.col("response.error_code").alias("error"),
    )
    unknown = dict.fromkeys(("instance_id", "assigned", "owned"), f.lit(None))
    return HEARTBEATS.shape(
        as_single_runs(rows.where("group_id is not null")).withColumns(
            {"protocol": f.lit(SHARE), **unknown}
        )
    )


def distinct_share_heartbeats(requests: Requests, session_timeout_ms: int) -> DataFrame:
    """Return the first share heartbeat of each run of identical ones, with the run's end."""
    return collapse_repeats(
        share_heartbeats(requests),
        f.expr(IS_MERGEABLE),
        EQUAL_COLUMNS,
        f.lit(session_timeout_ms * 1000),
    )


EQUAL_COLUMNS: Final = ("epoch", "instance_id")
IS_MERGEABLE: Final = (
    f"error = {int(ErrorCode.NONE)} and end_us is not null and request_epoch > {JOIN_EPOCH}"
    " and epoch is not null and assigned is null and owned is null"
)


def distinct_heartbeats(requests: Requests, session_timeout_ms: int) -> DataFrame:
    """Return the first heartbeat of each run of identical ones, with the end of the run."""
    if requests.are_few:
        runs = heartbeat_runs(requests, session_timeout_ms)
    else:
        runs = requests.state(RUNS.name)
        members = interleaved_members(runs)
        if not members.isEmpty():
            # Several tasks read heartbeats of these members, so their runs overlap in time.
            others = runs.join(members, [*MEMBER], "left_anti")
            interleaved = heartbeats(requests).join(members, [*MEMBER], "left_semi")
            runs = HEARTBEATS.shape(others.unionByName(interleaved))
    return collapse_repeats(
        runs, f.expr(IS_MERGEABLE), EQUAL_COLUMNS, f.lit(session_timeout_ms * 1000)
    )


def heartbeat_runs(requests: Requests, session_timeout_ms: int) -> DataFrame:
    """Return heartbeats as `RUNS`, without repetitions within the files of one task."""
    projections = zip(_KINDS, heartbeat_reductions(session_timeout_ms), strict=True)
    return _combine_protocols((kind, requests.project(each)) for kind, each in projections)


def heartbeat_reductions(session_timeout_ms: int) -> list[Projection]:
    """Return the projections of `heartbeat_runs`, one of each protocol."""
    return [_projection(kind, session_timeout_ms * 1000) for kind in _KINDS]


def _combine_protocols(kinds: Iterable[tuple[_Kind, DataFrame]]) -> DataFrame:
    """Return the heartbeats of both protocols as `HEARTBEATS`, with names of partitions.

    Requests that could not be decoded have no group id and are dropped.
    """
    tables = (
        HEARTBEATS.shape(
            rows.where("group_id is not null").withColumns(
                {
                    "protocol": f.lit(kind.protocol),
                    "assigned": _partition_names("assigned", kind.partition),
                    "owned": _partition_names("owned", kind.partition),
                }
            )
        )
        for kind, rows in kinds
    )
    return union(tables)


def _partition_names(path: str, partition: str) -> Column:
    """Return the names of all partitions in a nested list."""
    return f.flatten(f.expr(f"transform({path}, t -> transform(t.partitions, p -> {partition}))"))


def _heartbeats_of(requests: Requests, kind: _Kind) -> DataFrame:
    return requests.of(kind.api).select(
        *time_columns(),
        "client",
        "client_id",
        f.col("request.group_id"),
        f.expr("coalesce(nullif(response.member_id, ''), request.member_id)").alias("member_id"),
        f.col("request.member_id").alias("request_member_id"),
        f.col("request.instance_id"),
        f.col("request.member_epoch").alias("request_epoch"),
        f.col("response.member_epoch").alias("epoch"),
        f.col("response.error_code").alias("error"),
        f.col(kind.assigned).alias("assigned"),
        f.col(kind.owned).alias("owned"),
    )


_FIELDS: Final = {
    "client": "client",
    "client_id": "client_id",
    "group_id": "request.group_id",
    "response_member_id": "response.member_id",
    "request_member_id": "request.member_id",
    "instance_id": "request.instance_id",
    "request_epoch": "request.member_epoch",
    "epoch": "response.member_epoch",
    "error": "response.error_code",
}
_ADDED_COLUMNS: Final = {
    "member_id": pa.string(),
    "last_start_us": pa.int64(),
    "last_end_us": pa.int64(),
}


def _projection(kind: _Kind, timeout_us: int) -> Projection:
    key = api_key(kind.api)
    fields = {**_FIELDS, "assigned": kind.assigned, "owned": kind.owned}
    return Projection(
        name=RUNS.name,
        api_key=key,
        fields=fields,
        reduce_rows=partial(without_repeats, timeout_us=timeout_us),
        schema=pa.schema(list({**column_types(key, fields), **_ADDED_COLUMNS}.items())),
    )


def without_repeats(rows: pa.Table, timeout_us: int) -> pa.Table:
    """Drop heartbeats that repeat the previous one of their member; add the end of each run."""
    response_member_id = rows["response_member_id"]
    has_response_member_id = pc.fill_null(pc.not_equal(response_member_id, ""), fill_value=False)
    at = pc.coalesce(rows["end_us"], rows["start_us"])
    with_member_ids = rows.append_column("at_us", at).append_column(
        "member_id",
        pc.if_else(has_response_member_id, response_member_id, rows["request_member_id"]),
    )
    is_mergeable = (
        np.asarray(pc.fill_null(pc.equal(rows["error"], int(ErrorCode.NONE)), fill_value=False))
        & np.asarray(pc.fill_null(pc.greater(rows["request_epoch"], JOIN_EPOCH), fill_value=False))
        & is_valid(rows["end_us"])
        & is_valid(rows["epoch"])
        & ~is_valid(rows["assigned"])
        & ~is_valid(rows["owned"])
    )
    firsts, lasts = find_repeats(
        with_member_ids,
        MEMBER,
        TIME_ORDER,
        is_mergeable=is_mergeable,
        equal_columns=EQUAL_COLUMNS,
        timeout_us=timeout_us,
    )
    return take_runs(with_member_ids, firsts, lasts)
