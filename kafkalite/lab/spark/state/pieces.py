"""Pieces of requests for the checker, made by the tasks that write or read the requests.

A piece is a part of a request for one partition or producer, or the part that concerns all of them.
Records are left out, except the headers of their batches.
"""

from __future__ import annotations

import marshal
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.lab.checker.collecting import HANDLED_APIS, MEMBERSHIP_APIS
from kafkalite.lab.checker.pieces import Target, pieces_of, without_records
from kafkalite.lab.columnar import tables
from kafkalite.lab.spark.stages.projection import Projection, row_codes, type_at
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PIECES: Final = pa.schema(
    [
        ("api_key", pa.int16()),
        ("target", pa.int8()),
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("number", pa.int64()),
        ("start_us", pa.int64()),
        ("end_us", pa.int64()),
        ("connection", pa.int64()),
        ("position", pa.int64()),
        ("correlation_id", pa.int32()),
        ("client", pa.string()),
        ("client_id", pa.string()),
        ("broker", pa.string()),
        ("file", pa.string()),
        ("payload", pa.binary()),
    ]
)
"""The columns of pieces. `payload` has the message rows of the request and the response."""

_EVENT: Final = (
    "start_us", "end_us", "connection", "position", "correlation_id", "client", "client_id",
    "broker", "file",
)  # fmt: skip
_ENVELOPE: Final = {
    name: name for name in ("correlation_id", "client", "client_id", "broker", "file")
}
_REQUEST, _RESPONSE = "request__", "response__"
_TOPICS: Final = "response__topics"
_NO_ID: Final = bytes(16)
_NAMING_APIS: Final = frozenset(
    map(int, (ApiKey.METADATA, ApiKey.DESCRIBE_TOPIC_PARTITIONS, ApiKey.CREATE_TOPICS))
)
"""APIs whose responses have the names and ids of topics."""
PIECE_APIS: Final = frozenset((*HANDLED_APIS, *_NAMING_APIS))
"""The APIs of requests that have pieces."""


def first_requests(rows: pa.Table) -> pa.Table:
    """Return the time of the first of some requests of each connection."""
    first = rows.group_by("connection").aggregate([("start_us", "min")])
    return first.rename_columns(["connection", "first_us"])


FIRST_REQUESTS: Final = Projection(
    name="first_requests",
    api_key=int(ApiKey.API_VERSIONS),  # any: all APIs have these fields
    fields={},
    reduce_rows=first_requests,
    schema=pa.schema([("connection", pa.int64()), ("first_us", pa.int64())]),
    is_of_all_apis=True,
)


def piece_reductions() -> list[Projection]:
    """Return the projections of requests to pieces, one for each API."""
    return [FIRST_REQUESTS, *(_projection(key) for key in sorted(PIECE_APIS))]


def _projection(api_key: int) -> Projection:
    return Projection(
        name="pieces",
        api_key=api_key,
        fields={**_ENVELOPE, **_message_fields(api_key)},
        reduce_rows=partial(pieces_in, api_key),
        schema=PIECES,
    )


def _message_fields(api_key: int) -> dict[str, str]:
    """Return the fields that a history needs, by the names of their columns."""
    schema = tables.requests(api_key)
    is_membership = api_key in MEMBERSHIP_APIS
    is_naming = api_key in _NAMING_APIS and api_key not in HANDLED_APIS
    paths = [
        f"{message}.{field.name}"
        for message in ("request", "response")
        for field in schema.field(message).type
        if not (is_membership and pa.types.is_nested(field.type))
        and not (is_naming and f"{message}.{field.name}" != "response.topics")
    ]
    return {path.replace(".", "__"): path for path in paths}


def pieces_in(api_key: int, rows: pa.Table) -> pa.Table:
    """Return the pieces of some requests of one API, as `PIECES`."""
    if api_key in MEMBERSHIP_APIS:
        rows = _without_repetitions(rows, _columns(rows, _REQUEST) + _columns(rows, _RESPONSE))
    elif api_key in _NAMING_APIS and api_key not in HANDLED_APIS:
        rows = _with_new_names(rows)
    found: dict[str, list[Any]] = {name: [] for name in PIECES.names}
    events = zip(*(rows[name].to_pylist() for name in _EVENT), strict=True)
    for event, request, response in zip(
        events, message_rows(rows, _REQUEST), message_rows(rows, _RESPONSE), strict=True
    ):
        without_records([request, response])
        for piece in pieces_of(api_key, request, response):
            is_id = isinstance(piece.topic, bytes)
            values = (
                api_key, int(piece.target), None if is_id else piece.topic,
                piece.topic.hex().upper() if isinstance(piece.topic, bytes) else None,
                piece.number, *event, marshal.dumps((piece.request, piece.response)),
            )  # fmt: skip
            for column, value in zip(found.values(), values, strict=True):
                column.append(value)
    return _without_repeated_members(pa.table(found, schema=PIECES))


def _columns(rows: pa.Table, prefix: str) -> list[str]:
    return [name for name in rows.column_names if name.startswith(prefix)]


def message_rows(rows: pa.Table, prefix: str) -> Iterator[dict[str, Any] | None]:
    """Yield the rows of messages; None for one that is missing or cannot be decoded."""
    names = _columns(rows, prefix)
    fields = [name.removeprefix(prefix) for name in names]
    if not names:
        yield from ({} for _ in range(rows.num_rows))
        return
    for values in zip(*(rows[name].to_pylist() for name in names), strict=True):
        yield (
            None
            if not any(each is not None for each in values)
            else dict(zip(fields, values, strict=True))
        )


def _without_repetitions(rows: pa.Table, equal: Iterable[str]) -> pa.Table:
    """Return the first and last of equal requests on a connection, and the first answered one.

    The others do not change a history.
    """
    codes = row_codes(rows, ["connection", "client", "client_id", "broker", *equal])
    start = np.asarray(rows["start_us"])
    end = np.asarray(pc.fill_null(rows["end_us"], np.iinfo(np.int64).max))
    chosen = []
    for order in ((start,), (-start,), (start, end)):
        ordered = np.lexsort((*order, codes))
        is_first = np.ones(len(ordered), np.bool_)
        is_first[1:] = np.diff(codes[ordered]) != 0
        chosen.append(ordered[is_first])
    return rows.take(pa.array(np.unique(np.concatenate(chosen))))


def _without_repeated_members(pieces: pa.Table) -> pa.Table:
    """Drop repetitions among the pieces for all shards, which only show members."""
    is_repeatable = np.asarray(
        pc.and_(
            pc.equal(pieces["target"], int(Target.ALL)),
            pc.is_in(
                pieces["api_key"],
                pa.array([int(ApiKey.OFFSET_COMMIT), int(ApiKey.TXN_OFFSET_COMMIT)], pa.int16()),
            ),
        )
    )
    if not is_repeatable.any():
        return pieces
    repeated = _without_repetitions(pieces.filter(pa.array(is_repeatable)), ["payload"])
    return pa.concat_tables([pieces.filter(pa.array(~is_repeatable)), repeated])


def _with_new_names(rows: pa.Table) -> pa.Table:
    """Return the responses with names of topics that no earlier response has, and only these."""
    lists = rows[_TOPICS].combine_chunks()
    topics = pc.list_flatten(lists)
    row = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
    names = pa.table(
        {"topic_id": pc.struct_field(topics, "topic_id"), "name": pc.struct_field(topics, "name")}
    )
    end = np.asarray(pc.fill_null(rows["end_us"], np.iinfo(np.int64).max))
    order = np.lexsort((end[row],))
    codes = row_codes(names, ["topic_id", "name"]) if len(row) else np.zeros(0, np.int64)
    _, first = np.unique(codes[order], return_index=True)
    by_row: dict[int, list[dict[str, Any]]] = {}
    for index in order[np.sort(first)].tolist():
        name = {column: names[column][index].as_py() for column in names.column_names}
        if name["name"] and name["topic_id"] not in {None, _NO_ID}:
            by_row.setdefault(int(row[index]), []).append(name)
    chosen = rows.select([each for each in rows.column_names if each != _TOPICS]).take(
        pa.array(by_row, pa.int64())
    )
    kind = type_at(int(ApiKey.METADATA), "response.topics").value_type
    topic = pa.struct([kind.field("topic_id"), kind.field("name")])
    return chosen.append_column(_TOPICS, pa.array([*by_row.values()], pa.list_(topic)))
