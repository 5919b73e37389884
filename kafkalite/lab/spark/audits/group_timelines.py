"""Time lines of groups: members, generations and rebalances with reasons, as `explain` words them.

Tasks drop what changes nothing: heartbeats of classic groups, accepted commits, and all but one of
the heartbeats that follow each other. So the memory depends on the changes of a group, and not on
its requests.
"""

from __future__ import annotations

import marshal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import Direction
from kafkalite.lab.checker.collecting import Observation
from kafkalite.lab.checker.groups.requests import GROUP_APIS, GroupRequests
from kafkalite.lab.checker.groups.timeline import COMMITTED, timeline
from kafkalite.lab.checker.history import Client, Event, Proof
from kafkalite.lab.checker.message_rows import message_of
from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.dataframes import functions as f
from kafkalite.lab.spark.dataframes import to_schema, union
from kafkalite.lab.spark.stages.projection import Projection, flatten_partitions, row_codes
from kafkalite.lab.spark.state.liveness import MEMBERSHIP_REQUESTS
from kafkalite.lab.spark.state.pieces import message_rows
from kafkalite.lab.spark.state.tables import table
from kafkalite.lab.spark.state.topics import TOPICS
from kafkalite.ports.units import MICROSECONDS_PER_MILLISECOND, NANOSECONDS_PER_MICROSECOND
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt
    from pyspark.sql import DataFrame

    from kafkalite.lab.spark.requests import Requests

    Bools = npt.NDArray[np.bool_]

MAX_GROUPS: Final = 10
_COMMITS: Final = frozenset((int(ApiKey.OFFSET_COMMIT), int(ApiKey.TXN_OFFSET_COMMIT)))
_HEARTBEATS: Final = frozenset(
    (
        int(ApiKey.CONSUMER_GROUP_HEARTBEAT),
        int(ApiKey.SHARE_GROUP_HEARTBEAT),
        int(ApiKey.STREAMS_GROUP_HEARTBEAT),
    )
)
_QUIET_INTERVALS: Final = 2
"""Heartbeat intervals without a heartbeat that end a run of heartbeats."""
_REQUEST, _RESPONSE = "request__", "response__"

GROUP_TIMELINES = table(
    "group_timelines",
    f"An event of one of the {MAX_GROUPS} groups with the most changes, as `kafkalite explain` "
    "words it",
    ("group_id", "string", "the group"),
    ("number", "int", "number of the event in its group, from 1"),
    ("at", "timestamp", "time of the event"),
    ("kind", "string", "joined, left, expired, rebalance, generation, assigned, refused or fenced"),
    ("text", "string", "the event and its reason"),
    ("member_ids", "array<string>", "the members in the text"),
    ("clients", "string", "their client ids and hosts"),
)
_LINES: Final = pa.schema(
    [
        ("group_id", pa.string()),
        ("number", pa.int32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("kind", pa.string()),
        ("text", pa.string()),
        ("member_ids", pa.list_(pa.field("element", pa.string()))),
        ("clients", pa.string()),
    ]
)
_EVENT: Final = ("start_us", "end_us", "connection", "position", "client", "client_id", "broker")
_EVENTS: Final = pa.schema(
    [
        ("api_key", pa.int16()),
        ("group_id", pa.string()),
        ("until_us", pa.int64()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("connection", pa.int64()),
        ("position", pa.int64()),
        ("client", pa.string()),
        ("client_id", pa.string()),
        ("broker", pa.string()),
        ("payload", pa.binary()),
    ]
)


def group_timelines(requests: Requests) -> DataFrame:
    """Return the events of the groups with the most changes, as `GROUP_TIMELINES`."""
    groups = _busiest_groups(requests)
    if not groups:
        return GROUP_TIMELINES.empty(requests.spark)
    names = {
        bytes.fromhex(row.topic_id): row.topic for row in requests.state(TOPICS.name).collect()
    }
    events = union(requests.window.project(_projection(key, groups)) for key in sorted(GROUP_APIS))

    def lines(of_group: pa.Table) -> pa.Table:  # Spark reads the types of a function
        return lines_of(of_group, names)

    found = events.groupBy("group_id").applyInArrow(lines, to_schema(_LINES))
    return GROUP_TIMELINES.shape(found)


def _busiest_groups(requests: Requests) -> frozenset[str]:
    counted = (
        requests.state(MEMBERSHIP_REQUESTS.name)
        .groupBy("group_id")
        .agg(f.count(f.lit(1)).alias("n"))
        .orderBy(f.col("n").desc(), "group_id")
        .limit(MAX_GROUPS)
    )
    return frozenset(row.group_id for row in counted.collect())


def _projection(key: int, groups: frozenset[str]) -> Projection:
    schema = tables.requests(key)
    fields = {
        f"{message}__{field.name}": f"{message}.{field.name}"
        for message in ("request", "response")
        for field in schema.field(message).type
    }
    envelope = {name: name for name in ("client", "client_id", "broker")}
    return Projection(
        api_key=key,
        fields={**envelope, **fields},
        reduce_rows=partial(events_in, key, groups=groups),
        schema=_EVENTS,
    )


# -- in tasks that read requests ---------------------------------------------------------------


def events_in(api_key: int, rows: pa.Table, groups: frozenset[str]) -> pa.Table:
    """Return the requests of some groups that change something, as `_EVENTS`."""
    of_groups = pc.is_in(rows[f"{_REQUEST}group_id"], pa.array(sorted(groups), pa.string()))
    rows = rows.filter(of_groups)
    if api_key == int(ApiKey.HEARTBEAT):
        rows = rows.filter(pa.array(_is_refused(rows[f"{_RESPONSE}error_code"])))
    elif api_key in _COMMITS:
        rows = rows.filter(pa.array(_has_refused_partition(rows)))
    rows, until_us = (
        _first_of_runs(rows) if api_key in _HEARTBEATS else (rows, pa.nulls(len(rows), pa.int64()))
    )
    messages = zip(message_rows(rows, _REQUEST), message_rows(rows, _RESPONSE), strict=True)
    columns = {
        "api_key": pa.array(np.full(len(rows), api_key, np.int16)),
        "group_id": rows[f"{_REQUEST}group_id"],
        "until_us": until_us,
        **{name: rows[name] for name in _EVENT},
        "payload": pa.array([marshal.dumps(each) for each in messages], pa.binary()),
    }
    return pa.table(columns)


def _is_refused(codes: pa.ChunkedArray) -> Bools:
    expected = [int(ErrorCode.NONE), int(ErrorCode.REBALANCE_IN_PROGRESS)]
    return np.isin(np.asarray(pc.fill_null(codes, 0)), expected, invert=True)


def _has_refused_partition(rows: pa.Table) -> Bools:
    found = np.zeros(len(rows), np.bool_)
    partitions = flatten_partitions(rows[f"{_RESPONSE}topics"], "partitions")
    codes = pc.fill_null(pc.struct_field(partitions.partition, "error_code"), 0)
    found[partitions.row[np.asarray(codes) != 0]] = True
    return found


def _first_of_runs(rows: pa.Table) -> tuple[pa.Table, pa.Array]:
    """Return the heartbeats without those that follow an equal one in time.

    The array has the time until which each of them was repeated.
    """
    if not len(rows):
        return rows, pa.array([], pa.int64())
    start = np.asarray(rows["start_us"])
    members = row_codes(rows, [f"{_REQUEST}group_id", f"{_REQUEST}member_id"])
    order = np.lexsort((start, members))
    rows, start, members = rows.take(pa.array(order)), start[order], members[order]
    at = np.asarray(pc.coalesce(rows["end_us"], rows["start_us"]))
    is_plain = _is_plain(rows)
    interval_us = (
        np.asarray(pc.fill_null(rows[f"{_RESPONSE}heartbeat_interval_ms"], 0), np.int64)
        * MICROSECONDS_PER_MILLISECOND
    )
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = (
        (np.diff(members) != 0)
        | ~is_plain[1:]
        | ~is_plain[:-1]
        | (np.diff(start) > _QUIET_INTERVALS * interval_us[1:])
    )
    first = np.flatnonzero(begins)
    return rows.take(pa.array(first)), pa.array(np.maximum.reduceat(at, first))


def _is_plain(rows: pa.Table) -> Bools:
    """Return whether a heartbeat, and its response, change nothing."""
    requested = np.asarray(rows[f"{_REQUEST}member_epoch"])
    received = np.asarray(pc.fill_null(rows[f"{_RESPONSE}member_epoch"], -9))
    is_plain: Bools = (requested == received) & (requested > 0)
    is_plain &= np.asarray(pc.fill_null(rows[f"{_RESPONSE}error_code"], -9)) == 0
    for name in ("assignment", "active_tasks"):
        if f"{_RESPONSE}{name}" in rows.column_names:
            is_plain &= ~np.asarray(pc.is_valid(rows[f"{_RESPONSE}{name}"]))
    if f"{_REQUEST}subscribed_topic_names" in rows.column_names:
        is_plain &= ~np.asarray(pc.is_valid(rows[f"{_REQUEST}subscribed_topic_names"]))
    return is_plain


# -- one group ---------------------------------------------------------------------------------


def lines_of(events: pa.Table, names: Mapping[bytes, str]) -> pa.Table:
    """Return the time line of one group, as rows of `GROUP_TIMELINES`."""
    requests = GroupRequests()
    requests.topic_names.update(names)
    group = events["group_id"][0].as_py()
    for each in _observations(events):
        requests.add(each)
    entries = [each for each in timeline(requests, group) if each.kind != COMMITTED]
    return pa.Table.from_pylist(
        [
            {
                "group_id": group,
                "number": number,
                "at": each.at_ms * MICROSECONDS_PER_MILLISECOND,
                "kind": each.kind,
                "text": each.text,
                "member_ids": [member.member_id for member in each.members],
                "clients": ", ".join(
                    dict.fromkeys(
                        f"{member.client_id} at {member.client_host}" for member in each.members
                    )
                ),
            }
            for number, each in enumerate(entries, 1)
        ],
        _LINES,
    )


def _observations(events: pa.Table) -> Iterator[Observation]:
    order = [(name, "ascending") for name in ("start_us", "connection", "position")]
    rows: Sequence[dict[str, Any]] = events.sort_by(order).to_pylist()
    for row in rows:
        request, response = marshal.loads(row["payload"])  # noqa: S302 - written by a task of this run
        until_us, end_us = row["until_us"], row["end_us"]
        host = row["client"].rpartition(":")[0].strip("[]")
        sent_ns = row["start_us"] * NANOSECONDS_PER_MICROSECOND
        connection = f"{row['client']} > {row['broker']}"
        yield Observation(
            row["api_key"],
            None if request is None else message_of(row["api_key"], Direction.REQUEST, request),
            None if response is None else message_of(row["api_key"], Direction.RESPONSE, response),
            Event(
                client=Client(row["client_id"] or "", host),
                connection=row["connection"],
                sent_ns=sent_ns,
                answered_ns=None if end_us is None else end_us * NANOSECONDS_PER_MICROSECOND,
                broker=row["broker"],
                proof=Proof("", row["position"], connection, 0),
            ),
            None if until_us is None else until_us * NANOSECONDS_PER_MICROSECOND,
        )
