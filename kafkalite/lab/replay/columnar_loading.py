"""Load the exchanges of large captures with the columnar reader.

The exchanges equal those of `capture.reading`, except that times are rounded to microseconds. Each
file is read twice: first for its connections, then for its exchanges.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import Connection, Endpoint, Exchange, Problem, ProblemKind
from kafkalite.lab.columnar.decoding.arrow_assembly import binary_parts
from kafkalite.lab.columnar.exchanges.stitching import resolve_connections, stitch
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.columnar.tables import CONNECTIONS, FRAGMENTS, UNPAIRED
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from kafkalite.capture.formats.capture_files import Reporter

    Microseconds = NDArray[np.int64]

_NO_TIME: Final = -1
_PARTIAL_TABLES: Final = {
    Table.CONNECTIONS: CONNECTIONS,
    Table.FRAGMENTS: FRAGMENTS,
    Table.UNPAIRED: UNPAIRED,
}
"""Tables whose rows must be combined with those of other files."""
_INDEX_OPTIONS: Final = Options(tables=frozenset((Table.CONNECTIONS, Table.PAIRS)), payload=False)
_EXCHANGE_OPTIONS: Final = Options(
    tables=frozenset((*_PARTIAL_TABLES, Table.PAIRS, Table.PROBLEMS))
)


class ConnectionIndex(NamedTuple):
    """The connections of several files."""

    files: Sequence[str]
    """In order of time."""
    connections: Mapping[int, Connection]
    """By the connection numbers of all files."""
    continued: AbstractSet[tuple[str, str]]
    """(file, connection) for connections that began in an earlier file."""


def index_connections(files: Iterable[str]) -> ConnectionIndex | None:
    """Return the connections in files; None if two files contain the same part of a connection.

    Such files were captured at both ends of a connection. Only the scalar reader can merge them.
    """
    files = list(files)
    rows: list[dict[str, Any]] = []
    last_us: dict[tuple[str, int], int] = {}
    for file in files:
        for table, batch in _read(file, _INDEX_OPTIONS):
            if table is Table.PAIRS:
                _store_last_message_time(file, batch, last_us)
            else:
                rows += batch.to_pylist()
    rows.sort(key=lambda row: (row["first_ns"], row["file"]))
    numbers_by_part = resolve_connections(rows)
    connections: dict[int, Connection] = {}
    continued: set[tuple[str, str]] = set()
    end_us: dict[int, int] = {}
    for row in rows:
        number_in_file, file = row["connection"], row["file"]
        number = numbers_by_part.get(number_in_file, number_in_file)
        if row["first_ns"] // NANOSECONDS_PER_MICROSECOND < end_us.get(number, 0):
            return None
        end_us[number] = last_us.get((file, number_in_file), 0)
        if number not in connections:
            connections[number] = _connection(len(connections), row)
        else:
            endpoints = row["client"], row["broker"]
            continued |= {
                (file, " > ".join(direction)) for direction in (endpoints, endpoints[::-1])
            }
        connections[number_in_file] = connections[number]
    in_order = dict.fromkeys([*(row["file"] for row in rows), *files])
    return ConnectionIndex(list(in_order), connections, continued)


def _store_last_message_time(
    file: str, pairs: pa.RecordBatch, last_us: dict[tuple[str, int], int]
) -> None:
    """Store the time of the last message on each connection."""
    numbers, indexes = np.unique(pairs["connection"].to_numpy(), return_inverse=True)
    last = np.zeros(len(numbers), np.int64)
    for column in ("ts", "response_ts"):
        np.maximum.at(last, indexes, _microseconds(pairs[column]))
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


def _endpoint(text: str) -> Endpoint:
    host, _, port = text.rpartition(":")
    return Endpoint(host.strip("[]"), int(port))


def read_exchanges(index: ConnectionIndex, report: Reporter) -> Iterator[Exchange]:
    """Yield the exchanges of the indexed files, mostly in order of time.

    Exchanges without a response, or with the response in another file, are yielded at the end.
    `Exchange.position` counts the exchanges of a connection in this order.
    """
    partial: dict[Table, list[pa.RecordBatch]] = {table: [] for table in _PARTIAL_TABLES}
    counts: defaultdict[int, count[int]] = defaultdict(count)

    def report_unless_continued(problem: Problem) -> None:
        key = problem.file, problem.connection
        if problem.kind is not ProblemKind.MID_CONNECTION or key not in index.continued:
            report(problem)

    for file in index.files:
        for table, batch in _read(file, _EXCHANGE_OPTIONS):
            if table is Table.PAIRS:
                yield from _exchanges_from_pairs(batch, index.connections, counts)
            elif table is Table.PROBLEMS:
                _report_problems(batch, report_unless_continued)
            else:
                partial[table].append(batch)
    tables = (
        pa.Table.from_batches(partial[table], schema) for table, schema in _PARTIAL_TABLES.items()
    )
    stitched = stitch(*tables)
    for batch in stitched.pairs.to_batches():
        yield from _exchanges_from_pairs(batch, index.connections, counts)
    for batch in stitched.problems.to_batches():
        _report_problems(batch, report_unless_continued)


def _read(file: str, options: Options) -> Iterator[tuple[Table, pa.RecordBatch]]:
    with open(file, "rb") as source:  # noqa: PTH123 - paths are plain text here
        yield from read_file(source, file, options)


def _report_problems(problems: pa.RecordBatch, report: Reporter) -> None:
    for row in problems.to_pylist():
        report(Problem(**{**row, "kind": ProblemKind(row["kind"])}))


def _exchanges_from_pairs(
    pairs: pa.RecordBatch,
    connections: Mapping[int, Connection],
    counts: Mapping[int, Iterator[int]],
) -> Iterator[Exchange]:
    """Yield the exchanges of a table's rows."""
    client_ids = pairs["client_id"].dictionary_encode()
    names = [*client_ids.dictionary.to_pylist(), None]
    for (
        number, api_key, api_version, correlation_id, name, sent_us, answered_us,
        request, request_start, response, response_start,
    ) in zip(
        pairs["connection"].to_pylist(),
        pairs["api_key"].to_numpy().tolist(),
        pairs["api_version"].to_numpy().tolist(),
        pairs["correlation_id"].to_numpy().tolist(),
        client_ids.indices.fill_null(len(names) - 1).to_numpy().tolist(),
        _microseconds(pairs["ts"]).tolist(),
        _microseconds(pairs["response_ts"]).tolist(),
        _payloads(pairs["request"]),
        pairs["request_start"].to_numpy().tolist(),
        _payloads(pairs["response"]),
        pairs["response_start"].fill_null(0).to_numpy().tolist(),
        strict=True,
    ):  # fmt: skip
        connection = connections[number]
        was_answered = answered_us != _NO_TIME
        yield Exchange(
            connection=connection,
            position=next(counts[connection.number]),
            api_key=api_key,
            api_version=api_version,
            correlation_id=correlation_id,
            client_id=names[name],
            sent_ns=sent_us * NANOSECONDS_PER_MICROSECOND,
            answered_ns=answered_us * NANOSECONDS_PER_MICROSECOND if was_answered else None,
            request=request,
            request_start=request_start,
            response=response if was_answered else None,
            response_start=response_start,
        )


def _microseconds(times: pa.Array) -> Microseconds:
    """Return times in microseconds; `_NO_TIME` for null."""
    numbers: Microseconds = times.cast(pa.int64()).fill_null(_NO_TIME).to_numpy()
    return numbers


def _payloads(column: pa.BinaryArray) -> Iterator[bytes]:
    """Yield the values of a column of bytes; empty for null."""
    data, bounds = binary_parts(column)
    content, offsets = data.tobytes(), bounds.tolist()
    return (content[start:end] for start, end in pairwise(offsets))
