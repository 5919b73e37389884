"""Frames found → batches of the tables' columns, bounded in rows and in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kafkalite.columnar.tables import TIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.columnar.arrays import Ints
    from kafkalite.columnar.lines import Line

_US: Final = 1000


def times(ns: Ints) -> Any:  # noqa: ANN401 - an Arrow array
    """Return times as the tables have them."""
    return pa.array(ns // _US, pa.int64()).cast(TIME)


class Ends:
    """What every row says of its connection."""

    __slots__ = ("_brokers", "_clients", "_connections", "_nodes")

    def __init__(self, lines: Sequence[Line]) -> None:
        self._clients = pa.array([str(line.client) for line in lines], pa.string())
        self._brokers = pa.array([str(line.broker) for line in lines], pa.string())
        self._nodes = pa.array([line.node_id for line in lines], pa.int32())
        self._connections = np.array([line.connection for line in lines], np.int64)

    def columns(self, line: Ints) -> dict[str, Any]:
        """Return the columns that tell the connections of rows."""
        index = pa.array(line)
        return {
            "connection": pa.array(self._connections[line]),
            "client": self._clients.take(index),
            "broker": self._brokers.take(index),
            "node_id": self._nodes.take(index),
        }


def batch(schema: pa.Schema, columns: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch of a table out of its columns, in whatever order they are given."""
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def slices(sizes: Ints, rows: int, size: int) -> Iterator[slice]:
    """Yield slices of at most so many rows, and so many bytes unless one row has more."""
    total = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sizes):
        stop = min(start + rows, len(sizes))
        fit = int(total.searchsorted(before + size, "right"))
        stop = max(start + 1, min(stop, fit))
        yield slice(start, stop)
        before = int(total[stop - 1])
        start = stop
