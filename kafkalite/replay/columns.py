"""Exchanges of large captures, read in columns: what `capture.reading` says, several times as fast.

Files are read twice: for the connections that there are, then for what was said on them. Times are
whole microseconds.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import Connection, Endpoint, Exchange, Problem, ProblemKind
from kafkalite.columnar.assemble import binary_parts
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from kafkalite.columnar.stitching import resolved, stitch
from kafkalite.columnar.tables import CONNECTIONS, FRAGMENTS, UNPAIRED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from kafkalite.capture.blocks import Reporter

    Microseconds = NDArray[np.int64]

_US_NS: Final = 1000
_NEVER: Final = -1
_LOOSE: Final = {
    Table.CONNECTIONS: CONNECTIONS,
    Table.FRAGMENTS: FRAGMENTS,
    Table.UNPAIRED: UNPAIRED,
}
"""What files leave to be put together with others."""
_SURVEY: Final = Options(tables=frozenset((Table.CONNECTIONS, Table.PAIRS)), payload=False)
_OTHERS: Final = Options(tables=frozenset((*_LOOSE, Table.PAIRS, Table.PROBLEMS)))


class Survey(NamedTuple):
    """What there is in some files."""

    files: Sequence[str]
    """In the order of time."""
    connections: Mapping[int, Connection]
    """By every number that one of the files gives them."""
    continued: AbstractSet[tuple[str, str]]
    """Files, and connections that go on in them from earlier ones."""


def surveyed(files: Iterable[str]) -> Survey | None:
    """Look for the connections of files; None where two show the same part of one.

    That is so where packets were caught on both their ends, and takes a reader who merges these.
    """
    files = list(files)
    rows: list[dict[str, Any]] = []
    last_us: dict[tuple[str, int], int] = {}
    for file in files:
        for table, batch in _read(file, _SURVEY):
            if table is Table.PAIRS:
                _note_last(file, batch, last_us)
            else:
                rows += batch.to_pylist()
    rows.sort(key=lambda row: (row["first_ns"], row["file"]))
    renamed = resolved(rows)
    connections: dict[int, Connection] = {}
    continued: set[tuple[str, str]] = set()
    until_us: dict[int, int] = {}
    for row in rows:
        told, file = row["connection"], row["file"]
        number = renamed.get(told, told)
        if row["first_ns"] // _US_NS < until_us.get(number, 0):
            return None
        until_us[number] = last_us.get((file, told), 0)
        if number not in connections:
            connections[number] = _connection(len(connections), row)
        else:
            ends = row["client"], row["broker"]
            continued |= {(file, " > ".join(each)) for each in (ends, ends[::-1])}
        connections[told] = connections[number]
    in_order = dict.fromkeys([*(row["file"] for row in rows), *files])
    return Survey(list(in_order), connections, continued)


def _note_last(file: str, pairs: pa.RecordBatch, last_us: dict[tuple[str, int], int]) -> None:
    """Note when anything was said last on each connection."""
    numbers, places = np.unique(pairs["connection"].to_numpy(), return_inverse=True)
    last = np.zeros(len(numbers), np.int64)
    for column in ("ts", "answered"):
        np.maximum.at(last, places, _microseconds(pairs[column]))
    for number, at_us in zip(numbers.tolist(), last.tolist(), strict=True):
        last_us[file, number] = max(at_us, last_us.get((file, number), 0))


def _connection(number: int, row: Mapping[str, Any]) -> Connection:
    return Connection(
        number=number,
        client=_endpoint(row["client"]),
        broker=_endpoint(row["broker"]),
        opened_ns=row["opened_ns"],
        node_id=row["node_id"],
    )


def _endpoint(told: str) -> Endpoint:
    host, _, port = told.rpartition(":")
    return Endpoint(host.strip("[]"), int(port))


def exchanges_of(survey: Survey, report: Reporter) -> Iterator[Exchange]:
    """Yield the exchanges of files, nearly in the order of time.

    Those that were not answered, or in another file, come at the end. Their positions count the
    requests of a connection as they come.
    """
    loose: dict[Table, list[pa.RecordBatch]] = {table: [] for table in _LOOSE}
    counts: defaultdict[int, count[int]] = defaultdict(count)

    def tell(problem: Problem) -> None:
        place = problem.file, problem.connection
        if problem.kind is not ProblemKind.MID_CONNECTION or place not in survey.continued:
            report(problem)

    for file in survey.files:
        for table, batch in _read(file, _OTHERS):
            if table is Table.PAIRS:
                yield from _exchanges(batch, survey.connections, counts)
            elif table is Table.PROBLEMS:
                _tell(batch, tell)
            else:
                loose[table].append(batch)
    tables = (pa.Table.from_batches(loose[table], schema) for table, schema in _LOOSE.items())
    found = stitch(*tables)
    for batch in found.pairs.to_batches():
        yield from _exchanges(batch, survey.connections, counts)
    for batch in found.problems.to_batches():
        _tell(batch, tell)


def _read(file: str, options: Options) -> Iterator[tuple[Table, pa.RecordBatch]]:
    with open(file, "rb") as source:  # noqa: PTH123 - paths are plain text here
        yield from read_file(source, file, options)


def _tell(problems: pa.RecordBatch, report: Reporter) -> None:
    for row in problems.to_pylist():
        report(Problem(**{**row, "kind": ProblemKind(row["kind"])}))


def _exchanges(
    pairs: pa.RecordBatch,
    connections: Mapping[int, Connection],
    counts: Mapping[int, Iterator[int]],
) -> Iterator[Exchange]:
    """Make exchanges of a table's rows."""
    client_ids = pairs["client_id"].dictionary_encode()
    names = [*client_ids.dictionary.to_pylist(), None]
    for (
        number, api_key, api_version, correlation_id, name, sent_us, answered_us,
        request, request_start, response, response_start,
    ) in zip(
        pairs["connection"].to_pylist(),
        *(pairs[each].to_numpy().tolist() for each in ("api_key", "api_version", "correlation_id")),
        client_ids.indices.fill_null(len(names) - 1).to_numpy().tolist(),
        _microseconds(pairs["ts"]).tolist(),
        _microseconds(pairs["answered"]).tolist(),
        _payloads(pairs["request"]),
        pairs["request_start"].to_numpy().tolist(),
        _payloads(pairs["response"]),
        pairs["response_start"].fill_null(0).to_numpy().tolist(),
        strict=True,
    ):  # fmt: skip
        connection = connections[number]
        was_answered = answered_us != _NEVER
        yield Exchange(
            connection=connection,
            position=next(counts[connection.number]),
            api_key=api_key,
            api_version=api_version,
            correlation_id=correlation_id,
            client_id=names[name],
            sent_ns=sent_us * _US_NS,
            answered_ns=answered_us * _US_NS if was_answered else None,
            request=request,
            request_start=request_start,
            response=response if was_answered else None,
            response_start=response_start,
        )


def _microseconds(times: pa.Array) -> Microseconds:
    """Return times as numbers, `_NEVER` for none."""
    numbers: Microseconds = times.cast(pa.int64()).fill_null(_NEVER).to_numpy()
    return numbers


def _payloads(column: pa.BinaryArray) -> Iterator[bytes]:
    """Yield the values of a column of bytes, empty for none."""
    data, bounds = binary_parts(column)
    whole, ends = data.tobytes(), bounds.tolist()
    return (whole[start:end] for start, end in pairwise(ends))
