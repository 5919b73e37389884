"""Decoding of requests and responses into typed columns, as rows of `tables.requests`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.lab.columnar.decoding.decode import decode_table
from kafkalite.lab.columnar.tables import ENVELOPE, PROBLEMS
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.lab.columnar.decoding.decode import RowError

MESSAGE_COLUMNS = ("request", "response")


def decode_pairs(
    api_key: int, pairs: pa.RecordBatch, *, fields: Sequence[str] | None = None
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Decode the pairs of one API, in any versions; return the typed rows, and the problems.

    `fields` are paths that begin with "request." or "response."; with them, the structs have no
    other fields. A struct without a requested field is omitted. Raises KeyError for an unknown API.
    """
    columns = [pairs.column(name) for name in ENVELOPE.names]
    schema = list(ENVELOPE)
    problems: list[pa.RecordBatch] = []
    for direction, message_column in zip(Direction, MESSAGE_COLUMNS, strict=True):
        paths = _paths(message_column, fields)
        if paths == ():
            continue
        decoded = decode_table(
            api_key,
            direction,
            pairs.column("api_version"),
            pairs.column(message_column),
            pairs.column(f"{message_column}_start"),
            fields=paths,
        )
        columns.append(decoded.values)
        schema.append(pa.field(message_column, decoded.values.type))
        if decoded.errors:
            problems.append(
                _problems(f"{codec.api_name(api_key)} {message_column}", pairs, decoded.errors)
            )
    table = pa.Table.from_batches(problems, PROBLEMS).combine_chunks()
    rows = table.to_batches() or [pa.RecordBatch.from_pylist([], PROBLEMS)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(schema)), rows[0]


def _paths(message_column: str, fields: Sequence[str] | None) -> tuple[str, ...] | None:
    if fields is None or message_column in fields:
        return None
    split = [path.partition(".") for path in fields]
    unknown = [path for path, (head, _, _) in zip(fields, split, strict=True)
               if head not in MESSAGE_COLUMNS]  # fmt: skip
    if unknown:
        raise KeyError(f"unknown field: {', '.join(unknown)}")
    return tuple(rest for head, _, rest in split if head == message_column)


def _problems(message: str, pairs: pa.RecordBatch, errors: Sequence[RowError]) -> pa.RecordBatch:
    """Return one row per error and file, with the number of errors and the first position."""
    files = pairs.column("file").take(pa.array([each.row for each in errors])).to_pylist()
    errors_by_reason: dict[tuple[str, str], list[RowError]] = {}
    for file, error in zip(files, errors, strict=True):
        errors_by_reason.setdefault((file, error.reason), []).append(error)
    rows = []
    for (file, reason), equal_errors in errors_by_reason.items():
        first = pairs.slice(equal_errors[0].row, 1).select(
            ["client", "broker", "offset", "api_version"]
        )
        (row,) = first.to_pylist()
        rows.append(
            {
                "kind": equal_errors[0].kind.value,
                "file": file,
                "offset": row["offset"],
                "connection": f"{row['client']} > {row['broker']}",
                "detail": f"{message} of version {row['api_version']}: {reason}",
                "count": len(equal_errors),
            }
        )
    return pa.RecordBatch.from_pylist(rows, PROBLEMS)
