"""What all tables and columns of a run say, in one file of Markdown beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.columnar import tables
from kafkalite.columnar.schema import message_type
from kafkalite.protocol import codec
from kafkalite.spark.audits import AUDITS, STATE_TABLES
from kafkalite.spark.stages.stitching import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalite.spark.state.tables import Table

FILE: Final = "tables.md"

ENVELOPE: Final[Mapping[str, str]] = {
    "ts": "when the request's last byte came",
    "answered": "when the response's last byte came; null without a response",
    "latency_us": "the time between, in microseconds",
    "connection": "the connection's number, the same in all files",
    "client": "who asked: host:port",
    "broker": "who was asked: host:port",
    "node_id": "the broker's id, where the capture says it",
    "api_key": "the API's number",
    "api_version": "the version that the client chose",
    "correlation_id": "the client's number for the request",
    "client_id": "what the client calls itself",
    "request_bytes": "how long the request is, without its length",
    "response_bytes": "how long the response is, without its length",
    "file": "the capture that the request begins in",
    "offset": "where the packet that it begins in stands in the file",
    "request": "the request's fields; null where it cannot be decoded, which is told in problems",
    "response": "the response's fields; null without one",
    "date": "the day of ts, UTC: the folder's name",
}
"""Columns of requests, whatever their API."""

PROBLEMS: Final[Mapping[str, str]] = {
    "kind": "what is wrong",
    "file": "the capture",
    "offset": "where in it",
    "connection": "client > broker, where it is of a connection",
    "detail": "the same in words",
    "count": "how often",
}

CONNECTIONS: Final[Mapping[str, str]] = {
    "connection": "the number that requests have, by what one file says",
    "id": "the number that the connection has over all files; the same where it is not listed",
}


def described(apis: Iterable[int]) -> str:
    """Return what a run that saw these APIs may leave, table by table."""
    return "\n".join(
        [
            "# Tables",
            "",
            "All are Parquet. Times are UTC; columns that end in `_us` or `_ms` say so in numbers.",
            *_requests(sorted(apis)),
            *_part("problems", "Something wrong with the captures", tables.PROBLEMS, PROBLEMS),
            *_part("connections", "A connection with several numbers", NAMES, CONNECTIONS),
            *(line for each in STATE_TABLES.values() for line in _table("state", each)),
            *(
                line
                for audit in AUDITS.values()
                for each in audit.columns
                for line in _table("audits", each, f" (audit: {audit.name})")
            ),
            "",
        ]
    )


def _requests(apis: list[int]) -> Iterator[str]:
    schema = tables.ENVELOPE.append(pa.field("date", pa.date32(), nullable=False))
    yield from _part("requests/api=NAME/date=DAY", "A request", schema, ENVELOPE)
    yield f"| `request` | struct, by API | {ENVELOPE['request']} |"
    yield f"| `response` | struct, by API | {ENVELOPE['response']} |"
    for key in apis:
        yield from ("", f"### requests/api={codec.api_name(key)}", "")
        for direction, name in ((Direction.REQUEST, "request"), (Direction.RESPONSE, "response")):
            fields = ", ".join(f"`{path}` {kind}" for path, kind in _leaves(key, direction))
            yield f"- `{name}`: {fields or 'nothing'}"


def _leaves(key: int, direction: Direction) -> Iterator[tuple[str, str]]:
    yield from _below(message_type(key, direction), "")


def _below(kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if pa.types.is_list(kind):
        yield from _below(kind.value_type, f"{path}[]")
    elif pa.types.is_struct(kind):
        for each in kind:
            yield from _below(each.type, f"{path}.{each.name}" if path else each.name)
    else:
        yield path, str(kind)


def _part(name: str, about: str, schema: pa.Schema, abouts: Mapping[str, str]) -> Iterator[str]:
    yield from _heading(name, about)
    for each in schema:
        yield f"| `{each.name}` | {each.type} | {abouts[each.name]} |"


def _table(folder: str, table: Table, more: str = "") -> Iterator[str]:
    yield from _heading(f"{folder}/{table.name}", f"{table.about}{more}")
    for each in table.columns:
        yield f"| `{each.name}` | {each.type} | {each.about} |"


def _heading(name: str, about: str) -> Iterator[str]:
    yield from ("", f"## {name}", "", f"{about}.", "", "| Column | Type | |", "| --- | --- | --- |")
