"""Membership requests of classic members as a table, written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.lab.spark.state.liveness import (
    CLASSIC,
    HEARTBEAT,
    JOIN,
    JOIN_GROUP,
    LEAVE,
    LEAVE_GROUP,
    MEMBERSHIP_REQUESTS,
    OFFSET_COMMIT,
    STAY,
    SYNC_GROUP,
)
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame, SparkSession

SECOND: Final = 1_000_000
SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 60_000
NONE, REBALANCING = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS

Row = dict[str, object]


def _request(
    member: str,
    at_s: float,
    error: int | None,
    *,
    api: str,
    action: str,
    generation: int | None,
    **others: object,
) -> Row:
    """Return a request that is answered a tenth of a second later; no error is no response."""
    start_us = int(at_s * SECOND)
    end_us = None if error is None else start_us + SECOND // 10
    return {
        "start_us": start_us,
        "end_us": end_us,
        "last_start_us": start_us,
        "last_end_us": start_us if end_us is None else end_us,
        "client": f"{member}.example:1",
        "client_id": f"client of {member}",
        "api": api,
        "member_id": member,
        "request_member_id": member,
        "action": action,
        "may_leave_ghost": False,
        "has_assignments": False,
        "error": None if error is None else int(error),
        "generation": generation,
        "is_waiting": error is None and api in {JOIN_GROUP, SYNC_GROUP},
        "was_member": error in {NONE, REBALANCING} and action == STAY,
        **others,
    }


def join(
    member: str, at_s: float, generation: int, error: int | None = NONE, **others: object
) -> Row:
    """Return a JoinGroup of a member that has an id."""
    timeouts = {"session_timeout_ms": SESSION_MS, "rebalance_timeout_ms": REBALANCE_MS}
    return _request(
        member,
        at_s,
        error,
        api=JOIN_GROUP,
        action=JOIN,
        generation=generation,
        **{"was_member": error == NONE, **timeouts, **others},
    )


def sync(
    member: str, at_s: float, generation: int, error: int | None = NONE, **others: object
) -> Row:
    """Return a SyncGroup."""
    return _request(
        member, at_s, error, api=SYNC_GROUP, action=STAY, generation=generation, **others
    )


def heartbeat(
    member: str, at_s: float, generation: int, error: int | None = NONE, **others: object
) -> Row:
    """Return a Heartbeat."""
    return _request(
        member, at_s, error, api=HEARTBEAT, action=STAY, generation=generation, **others
    )


def commit(member: str, at_s: float, generation: int, error: int | None = NONE) -> Row:
    """Return an OffsetCommit."""
    return _request(
        member,
        at_s,
        error,
        api=OFFSET_COMMIT,
        action=STAY,
        generation=generation,
        protocol=None,
    )


def leave(member: str, at_s: float, error: int | None = NONE, **others: object) -> Row:
    """Return a LeaveGroup."""
    return _request(
        member,
        at_s,
        error,
        api=LEAVE_GROUP,
        action=LEAVE,
        generation=None,
        was_member=False,
        **others,
    )


def table_of(spark: SparkSession, rows_by_group: dict[str, Iterable[Row]]) -> DataFrame:
    """Return the requests of several groups as `MEMBERSHIP_REQUESTS`."""
    empty: Row = {column.name: None for column in MEMBERSHIP_REQUESTS.columns}
    rows = [
        {**empty, "connection": 1, "protocol": CLASSIC, "group_id": group, **row}
        for group, of_group in rows_by_group.items()
        for row in of_group
    ]
    return spark.createDataFrame(
        [
            tuple(
                {**row, "position": position}[column.name] for column in MEMBERSHIP_REQUESTS.columns
            )
            for position, row in enumerate(rows)
        ],
        MEMBERSHIP_REQUESTS.schema,
    )
