"""Decodes paired requests of any APIs to typed rows by API, and to problems.

If a request cannot be decoded, its row has null as message, and there is a problem. A request of an
API without a spec is only reported as a problem, because it has no table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.lab.columnar import tables
from kafkalite.lab.columnar.exchanges import typed_exchanges
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


class TypedRows(NamedTuple):
    """Typed rows of one API, and their problems."""

    api_key: int
    requests: pa.RecordBatch | None
    """The columns of `tables.requests`; None for an unknown API."""
    problems: pa.RecordBatch


def decode_typed(pairs: pa.RecordBatch, fields: Sequence[str] | None = None) -> Iterator[TypedRows]:
    """Decode a batch of paired requests; `fields` limits the decoded paths of messages."""
    keys = pc.unique(pairs["api_key"]).to_pylist()
    for key in keys:
        rows = pairs if len(keys) == 1 else pairs.filter(pc.equal(pairs["api_key"], key))
        if key in codec.api_keys():
            yield TypedRows(key, *typed_exchanges.decode_pairs(key, rows, fields=fields))
        else:
            yield TypedRows(key, None, _unknown(key, rows))


def problem_rows(problems: Iterable[Problem]) -> pa.RecordBatch:
    """Return problems as a batch."""
    names = tables.PROBLEMS.names
    rows = [{name: getattr(problem, name) for name in names} for problem in problems]
    for row in rows:
        row["kind"] = str(row["kind"])
    return pa.RecordBatch.from_pylist(rows, schema=tables.PROBLEMS)


def unreadable_problem(file: str, detail: str) -> pa.RecordBatch:
    """Return a batch with the problem that a file cannot be read, or not to its end."""
    line = " ".join(detail.split())
    problem = Problem(
        kind=ProblemKind.UNREADABLE, file=file, offset=None, connection=None, detail=line
    )
    return problem_rows([problem])


def _unknown(key: int, rows: pa.RecordBatch) -> pa.RecordBatch:
    problems = [
        {
            "kind": str(ProblemKind.UNKNOWN_VERSION),
            "file": counted["values"],
            "detail": f"unknown API key {key}",
            "count": counted["counts"],
        }
        for counted in pc.value_counts(rows["file"]).to_pylist()
    ]
    return pa.RecordBatch.from_pylist(problems, schema=tables.PROBLEMS)
