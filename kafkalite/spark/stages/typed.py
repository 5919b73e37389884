"""Requests paired with their responses, as bytes → as typed columns, API by API.

What cannot be decoded keeps its envelope, has null for its message, and is told as a problem; what
is of an API that the specs do not have is a problem alone, for there is no table for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import Direction, ProblemKind
from kafkalite.columnar import tables
from kafkalite.columnar.decode import RowError, decode_table
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

TOLD_IN_FULL: Final = 20
"""Problems of one kind in one batch that are told one by one; the rest of them are counted."""

_SIDES: Final = ((Direction.REQUEST, "request"), (Direction.RESPONSE, "response"))


class Typed(NamedTuple):
    """Rows of one API, and what is wrong with them."""

    api_key: int
    requests: pa.RecordBatch
    """With the columns of `tables.requests`."""
    problems: pa.RecordBatch


def typed(
    pairs: pa.RecordBatch, fields: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Typed]:
    """Decode a batch of paired requests, of one API or of many.

    With `fields` only those paths of `request` and of `response` are read, and the columns are
    those alone.
    """
    keys = pc.unique(pairs["api_key"]).to_pylist()
    for key in keys:
        rows = pairs if len(keys) == 1 else pairs.filter(pc.equal(pairs["api_key"], key))
        if key in _known():
            yield _typed(key, rows, fields or {})
        else:
            yield Typed(key, rows.slice(0, 0), _unknown(key, rows))


def problems(
    rows: Iterable[tuple[ProblemKind, str, int | None, str | None, str, int]],
) -> pa.RecordBatch:
    """Return a batch of the problems table."""
    columns = [*zip(*rows, strict=True)] or [()] * len(tables.PROBLEMS)
    arrays = [
        pa.array([str(value) for value in column] if field.name == "kind" else column, field.type)
        for field, column in zip(tables.PROBLEMS, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=tables.PROBLEMS)


def _typed(key: int, rows: pa.RecordBatch, fields: Mapping[str, Sequence[str]]) -> Typed:
    columns = [rows[name] for name in tables.ENVELOPE.names]
    schema = list(tables.ENVELOPE)
    told: list[tuple[ProblemKind, str, int | None, str | None, str, int]] = []
    for direction, name in _SIDES:
        wanted = fields.get(name)
        decoded = decode_table(
            key,
            direction,
            rows["api_version"],
            rows[name],
            pc.fill_null(rows[f"{name}_start"], 0),
            fields=wanted,
        )
        columns.append(decoded.values)
        schema.append(pa.field(name, decoded.values.type))
        told += _told(key, name, rows, [at for at in decoded.errors if rows[name][at.row].is_valid])
    return Typed(key, pa.RecordBatch.from_arrays(columns, schema=pa.schema(schema)), problems(told))


def _told(
    key: int, side: str, rows: pa.RecordBatch, errors: Sequence[RowError]
) -> Iterator[tuple[ProblemKind, str, int | None, str | None, str, int]]:
    """Tell what could not be decoded: the first ones each, and the rest by their number."""
    if not errors:
        return
    versions = codec.api_versions(key, unstable=True)
    for error in errors[:TOLD_IN_FULL]:
        row = rows.slice(error.row, 1).to_pylist()[0]
        kind = (
            ProblemKind.MALFORMED if row["api_version"] in versions else ProblemKind.UNKNOWN_VERSION
        )
        what = f"{codec.api_name(key)} v{row['api_version']} {side}"
        connection = f"{row['client']} > {row['broker']}"
        yield kind, row["file"], row["offset"], connection, f"{what}: {error.reason}", 1
    rest = [error.row for error in errors[TOLD_IN_FULL:]]
    for counted in pc.value_counts(rows["file"].take(pa.array(rest, pa.int64()))).to_pylist():
        what = f"{codec.api_name(key)} {side}: more that could not be decoded"
        yield ProblemKind.MALFORMED, counted["values"], None, None, what, counted["counts"]


def _unknown(key: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    return problems(
        (
            ProblemKind.UNKNOWN_VERSION,
            counted["values"],
            None,
            None,
            f"API key {key}, which is not known here",
            counted["counts"],
        )
        for counted in pc.value_counts(rows["file"]).to_pylist()
    )


def _known() -> frozenset[int]:
    return frozenset(codec.api_keys())
