"""Paired requests of whatever APIs → typed rows, API by API, and what is wrong with them.

What cannot be decoded keeps its envelope, has null for its message, and is told as a problem; what
is of an API that the specs do not have is a problem alone, for there is no table for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.columnar import exchanges, tables
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class Typed(NamedTuple):
    """Rows of one API, and what is wrong with them."""

    api_key: int
    requests: pa.RecordBatch | None
    """With the columns of `tables.requests`; None where the API is not known."""
    problems: pa.RecordBatch


def typed(pairs: pa.RecordBatch, fields: Sequence[str] | None = None) -> Iterator[Typed]:
    """Decode a batch of paired requests; with `fields`, only those paths of their messages."""
    keys = pc.unique(pairs["api_key"]).to_pylist()
    for key in keys:
        rows = pairs if len(keys) == 1 else pairs.filter(pc.equal(pairs["api_key"], key))
        if key in codec.api_keys():
            yield Typed(key, *exchanges.typed(key, rows, fields=fields))
        else:
            yield Typed(key, None, _unknown(key, rows))


def problem_rows(problems: Iterable[Problem]) -> pa.RecordBatch:
    """Return problems as a batch of their table."""
    names = tables.PROBLEMS.names
    rows = [{name: getattr(problem, name) for name in names} for problem in problems]
    for row in rows:
        row["kind"] = str(row["kind"])
    return pa.RecordBatch.from_pylist(rows, schema=tables.PROBLEMS)


def unreadable(file: str, detail: str) -> pa.RecordBatch:
    """Return, as a row of that table, that a file cannot be read, or not to its end."""
    line = " ".join(detail.split())
    problem = Problem(
        kind=ProblemKind.UNREADABLE, file=file, offset=None, connection=None, detail=line
    )
    return problem_rows([problem])


def _unknown(key: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    told = [
        {
            "kind": str(ProblemKind.UNKNOWN_VERSION),
            "file": counted["values"],
            "detail": f"API key {key}, which is not known here",
            "count": counted["counts"],
        }
        for counted in pc.value_counts(rows["file"]).to_pylist()
    ]
    return pa.RecordBatch.from_pylist(told, schema=tables.PROBLEMS)
