"""Requests with their responses as bytes → the same, typed: the rows of `tables.requests`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from kafkalite.capture.model import Direction
from kafkalite.columnar.decode import decode_table
from kafkalite.columnar.tables import ENVELOPE, PROBLEMS
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.columnar.decode import RowError

SIDES = ("request", "response")


def typed(
    api_key: int, pairs: pa.RecordBatch, *, fields: Sequence[str] | None = None
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Decode the pairs of one API, in any versions; returns its requests, and the problems.

    With `fields`, each of which begins with "request." or "response.", the two structs have no
    others; a struct of which none is asked for is left out. Raises KeyError for an unknown API.
    """
    columns = [pairs.column(name) for name in ENVELOPE.names]
    schema = list(ENVELOPE)
    problems: list[pa.RecordBatch] = []
    for direction, side in zip(Direction, SIDES, strict=True):
        paths = _paths(side, fields)
        if paths == ():
            continue
        found = decode_table(
            api_key,
            direction,
            pairs.column("api_version"),
            pairs.column(side),
            pairs.column(f"{side}_start"),
            fields=paths,
        )
        columns.append(found.values)
        schema.append(pa.field(side, found.values.type))
        if found.errors:
            problems.append(_problems(f"{codec.api_name(api_key)} {side}", pairs, found.errors))
    table = pa.Table.from_batches(problems, PROBLEMS).combine_chunks()
    told = table.to_batches() or [pa.RecordBatch.from_pylist([], PROBLEMS)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(schema)), told[0]


def _paths(side: str, fields: Sequence[str] | None) -> tuple[str, ...] | None:
    if fields is None or side in fields:
        return None
    split = [path.partition(".") for path in fields]
    strangers = [path for path, (head, _, _) in zip(fields, split, strict=True)
                 if head not in SIDES]  # fmt: skip
    if strangers:
        raise KeyError(f"no such field: {', '.join(strangers)}")
    return tuple(rest for head, _, rest in split if head == side)


def _problems(what: str, pairs: pa.RecordBatch, errors: Sequence[RowError]) -> pa.RecordBatch:
    """Tell each kind of error of each file once, with its number and the first place."""
    files = pairs.column("file").take(pa.array([each.row for each in errors])).to_pylist()
    found: dict[tuple[str, str], list[RowError]] = {}
    for file, error in zip(files, errors, strict=True):
        found.setdefault((file, error.reason), []).append(error)
    rows = []
    for (file, reason), alike in found.items():
        first = pairs.slice(alike[0].row, 1).select(["client", "broker", "offset", "api_version"])
        (place,) = first.to_pylist()
        rows.append(
            {
                "kind": alike[0].kind.value,
                "file": file,
                "offset": place["offset"],
                "connection": f"{place['client']} > {place['broker']}",
                "detail": f"{what} of version {place['api_version']}: {reason}",
                "count": len(alike),
            }
        )
    return pa.RecordBatch.from_pylist(rows, PROBLEMS)
