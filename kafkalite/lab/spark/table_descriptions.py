"""Describes all tables and columns of a run in one Markdown file in the output folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.decoding.schema import message_type
from kafkalite.lab.spark.audits import AUDITS, STATES, TABLES
from kafkalite.lab.spark.stages.stitching import CONNECTION_IDS
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalite.lab.spark.state.tables import Table

FILE: Final = "tables.md"

ENVELOPE: Final[Mapping[str, str]] = {
    "ts": "time of the request's last byte",
    "response_ts": "time of the response's last byte; null without a response",
    "latency_us": "time between the two in microseconds",
    "connection": "number of the connection, the same in all files",
    "client": "the client: host:port",
    "broker": "the broker: host:port",
    "node_id": "the broker's node id, if the capture has it",
    "api_key": "the API key",
    "api_version": "the API version",
    "correlation_id": "the request's correlation id",
    "client_id": "the client id",
    "request_bytes": "size of the request, without the length field",
    "response_bytes": "size of the response, without the length field",
    "file": "the capture in which the request begins",
    "offset": "position in the file of the packet in which the request begins",
    "request": "fields of the request; null if it cannot be decoded, see problems",
    "response": "fields of the response; null without a response",
    "date": "day of ts in UTC: the name of the folder",
}
"""Columns of requests of any API."""

PROBLEMS: Final[Mapping[str, str]] = {
    "kind": "kind of problem",
    "file": "the capture",
    "offset": "position in the file",
    "connection": "client > broker, if it concerns a connection",
    "detail": "description",
    "count": "number of occurrences",
}

CONNECTIONS: Final[Mapping[str, str]] = {
    "connection": "number of the connection in the requests of one file",
    "id": "number of the connection in all files; connections not listed have only one number",
}


def describe_tables(apis: Iterable[int]) -> str:
    """Return descriptions of all tables of a run that decoded these APIs."""
    return "\n".join(
        [
            "# Tables",
            "",
            "All tables are Parquet files. Times are UTC; `_us` and `_ms` columns are integers.",
            *_request_sections(sorted(apis)),
            *_schema_section("problems", "A problem of the captures", tables.PROBLEMS, PROBLEMS),
            *_schema_section(
                "connections", "A connection with several numbers", CONNECTION_IDS, CONNECTIONS
            ),
            *(line for state in STATES.values() for line in _table_section("state", state.table)),
            *(
                line
                for audit in AUDITS.values()
                for table in audit.tables
                for line in _table_section("audits", TABLES[table.name], f" (audit: {audit.name})")
            ),
            "",
        ]
    )


def _request_sections(apis: list[int]) -> Iterator[str]:
    schema = tables.ENVELOPE.append(pa.field("date", pa.date32(), nullable=False))
    yield from _schema_section("requests/api=NAME/date=DAY", "A request", schema, ENVELOPE)
    yield f"| `request` | struct, by API | {ENVELOPE['request']} |"
    yield f"| `response` | struct, by API | {ENVELOPE['response']} |"
    for key in apis:
        yield from ("", f"### requests/api={codec.api_name(key)}", "")
        for direction, name in ((Direction.REQUEST, "request"), (Direction.RESPONSE, "response")):
            fields = ", ".join(f"`{path}` {kind}" for path, kind in _message_fields(key, direction))
            yield f"- `{name}`: {fields or 'no fields'}"


def _message_fields(key: int, direction: Direction) -> Iterator[tuple[str, str]]:
    yield from _leaf_fields(message_type(key, direction), "")


def _leaf_fields(kind: pa.DataType, path: str) -> Iterator[tuple[str, str]]:
    if pa.types.is_list(kind):
        yield from _leaf_fields(kind.value_type, f"{path}[]")
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaf_fields(field.type, f"{path}.{field.name}" if path else field.name)
    else:
        yield path, str(kind)


def _schema_section(
    name: str, about: str, schema: pa.Schema, abouts: Mapping[str, str]
) -> Iterator[str]:
    yield from _heading(name, about)
    for column in schema:
        yield f"| `{column.name}` | {column.type} | {abouts[column.name]} |"


def _table_section(folder: str, table: Table, suffix: str = "") -> Iterator[str]:
    yield from _heading(f"{folder}/{table.name}", f"{table.about}{suffix}")
    for column in table.columns:
        yield f"| `{column.name}` | {column.type} | {column.about} |"


def _heading(name: str, about: str) -> Iterator[str]:
    yield from ("", f"## {name}", "", f"{about}.", "", "| Column | Type | |", "| --- | --- | --- |")
