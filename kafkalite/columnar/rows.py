"""Frames found → batches of the tables' columns, bounded in rows and in bytes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from kafkalite.columnar import heads
from kafkalite.columnar.arrays import Bytes, Ints, Mask, where
from kafkalite.columnar.found import EARLIER
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.payloads import Ranges
from kafkalite.columnar.streams import grouped
from kafkalite.columnar.tables import FRAMES, PAIRS, TIME, UNPAIRED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.columnar.found import Found
    from kafkalite.columnar.heads import RequestHeads
    from kafkalite.columnar.lines import Line

Part = tuple[Table, pa.RecordBatch]


@dataclass(slots=True)
class Known:
    """Frames, and what their headers say."""

    data: Bytes
    frames: Found
    awaits: Mask
    """Which of them are requests that a broker answers."""
    asks: Ints = field(init=False)
    """Which of them are requests."""
    request: RequestHeads = field(init=False)
    """One row a request."""
    place: Ints = field(init=False)
    """Each frame's row in `request`; of a response, its request's; -1 for none."""
    client_id: Any = field(init=False)
    """What clients call themselves: a column of text, one row a request."""
    is_right: Mask = field(init=False)
    is_message: Mask = field(init=False)
    """Which of them are no bare tokens of SASL."""
    correlation_id: Ints = field(init=False)
    order: Ints = field(init=False)
    """The order in which their packets came, those of earlier chunks first."""

    def __post_init__(self) -> None:
        frames, data = self.frames, self.data
        self.asks, says = where(frames.direction == 0), where(frames.direction == 1)
        self.request = heads.request_heads(data, frames.start[self.asks], frames.size[self.asks])
        self.place = np.full(len(frames), -1, np.int64)
        self.place[self.asks] = np.arange(len(self.asks))
        self.order = in_time(frames.packet)
        asked = self.place[self.order]
        self.client_id = _client_ids(data, self.request, asked[asked >= 0])
        self.is_right = np.ones(len(frames), np.bool_)
        self.is_right[self.asks] = self.request.is_right
        self.is_right[says] = frames.size[says] >= heads.CORRELATION_BYTES
        self.is_message = np.ones(len(frames), np.bool_)
        self.correlation_id = np.empty(len(frames), np.int64)
        self.correlation_id[self.asks] = self.request.correlation_id
        self.correlation_id[says] = heads.correlation_ids(
            data, frames.start[says], frames.size[says]
        )

    def answer(self, requests: Ints, responses: Ints) -> None:
        """Note which responses belong to which requests."""
        self.place[responses] = self.place[requests]


class Party(Protocol):
    """Whoever has two ends."""

    @property
    def names(self) -> tuple[str, str]:
        """The client's end, and the broker's."""

    @property
    def node_id(self) -> int | None:
        """The broker's number, where it is known."""

    @property
    def connection(self) -> int:
        """The number of the connection."""


Parties = Sequence[Party]


class Rows(NamedTuple):
    """Requests, and their responses; -1 for none."""

    request: Ints
    response: Ints


class Sink:
    """Makes batches of one file's frames."""

    def __init__(self, file: str, options: Options, lines: Sequence[Line]) -> None:
        self._file = file
        self._options = options
        self._lines = lines
        self._placed = 0

    def pairs(self, known: Known, rows: Rows) -> Iterator[Part]:
        """Yield requests with their responses, in the order in which they were sent."""
        request, response = self._chosen(known, rows)
        if Table.PAIRS not in self._options.tables or not len(request):
            return
        frames, heads_of = known.frames, known.request
        asks = known.place[request]
        is_open = response < 0
        said = np.where(is_open, 0, response)
        columns = PairColumns(self._file, known, self._lines, self._options)
        sizes = frames.size[request] + np.where(is_open, 0, frames.size[said])
        body = columns.bodies(request, said)
        if not self._options.payload:
            sizes = np.zeros(len(sizes), np.int64)
        kind = (heads_of.api_key[asks] << 16) | heads_of.version[asks]
        runs = _runs(kind) if self._options.by_api else [slice(0, len(request))]
        for run in runs:
            for each in self._slices(sizes[run]):
                part = slice(run.start + each.start, run.start + each.stop)
                yield (
                    Table.PAIRS,
                    columns.batch(request[part], said[part], is_open[part], body[part]),
                )

    def _chosen(self, known: Known, rows: Rows) -> Rows:
        """Leave out what is not asked for, and bring the rest into order."""
        options, frames = self._options, known.frames
        request, response = rows
        mask = np.ones(len(request), np.bool_)
        if options.api_keys is not None:
            mask &= np.isin(known.request.api_key[known.place[request]], list(options.api_keys))
        if options.from_ns is not None:
            mask &= frames.at_ns[request] >= options.from_ns
        if options.until_ns is not None:
            mask &= frames.at_ns[request] < options.until_ns
        if not mask.all():
            request, response = request[mask], response[mask]
        order = in_time(frames.packet[request])
        request, response = request[order], response[order]
        if options.by_api and len(request):
            asks = known.place[request]
            kind = known.request.api_key[asks] * 64 + known.request.version[asks]
            order = grouped(kind - kind.min())
            request, response = request[order], response[order]
        return Rows(request, response)

    def _slices(self, sizes: Ints) -> Iterator[slice]:
        return slices(sizes, self._options.batch_rows, self._options.batch_bytes)

    def frames(self, known: Known, rows: Ints) -> Iterator[Part]:
        """Yield frames, in the order in which they came."""
        options, frames = self._options, known.frames
        rows = rows[in_time(frames.packet[rows])]
        mask = np.ones(len(rows), np.bool_)
        if options.api_keys is not None:
            key = np.where(known.place[rows] < 0, -1, known.request.api_key[known.place[rows]])
            mask &= np.isin(key, list(options.api_keys))
        if options.from_ns is not None:
            mask &= frames.at_ns[rows] >= options.from_ns
        if options.until_ns is not None:
            mask &= frames.at_ns[rows] < options.until_ns
        rows = rows[mask]
        if not len(rows):
            return
        bodies, ends = Ranges(known.data, frames.start, frames.size), Ends(self._lines)
        sizes = frames.size[rows] if options.payload else np.zeros(len(rows), np.int64)
        for each in self._slices(sizes):
            part = rows[each]
            columns = _frame_columns(self._file, known, ends, part)
            payload = bodies.take(part) if options.payload else pa.nulls(len(part), pa.binary())
            yield Table.FRAMES, batch(FRAMES, {**columns, "payload": payload})

    def unpaired(self, known: Known, rows: Ints) -> Iterator[Part]:
        """Yield frames whose other halves may be in another file."""
        if Table.UNPAIRED not in self._options.tables or not len(rows):
            return
        frames = known.frames
        rows = rows[in_time(frames.packet[rows])]
        bodies, ends = Ranges(known.data, frames.start, frames.size), Ends(self._lines)
        for each in self._slices(frames.size[rows]):
            part = rows[each]
            place = known.place[part]
            is_response = place < 0
            ask = np.where(is_response, 0, place)
            body = known.request.body if len(known.asks) else np.zeros(1, np.int64)
            columns = {
                **_frame_columns(self._file, known, ends, part),
                "payload": bodies.take(part),
                "client_id": known.client_id.take(pa.array(ask, mask=is_response)),
                "start": pa.array(body[ask].astype(np.int32), mask=is_response),
                "place": pa.array(self._placed + np.arange(len(part))),
            }
            self._placed += len(part)
            yield Table.UNPAIRED, batch(UNPAIRED, columns)


class PairColumns:
    """The columns of pairs, out of one chunk."""

    def __init__(self, file: str, known: Known, lines: Parties, options: Options) -> None:
        self._file = file
        self._known = known
        self._ends = Ends(lines)
        self._options = options
        frames = known.frames
        self._bodies = Ranges(known.data, frames.start, frames.size, known.order)

    def bodies(self, request: Ints, response: Ints) -> Ints:
        """Return where the bodies of responses begin."""
        frames, ask = self._known.frames, self._known.place[request]
        heads_of = self._known.request
        return heads.response_bodies(
            self._known.data, frames.start[response], frames.size[response],
            heads_of.api_key[ask], heads_of.version[ask],
        )  # fmt: skip

    def batch(self, row: Ints, said: Ints, mask: Mask, body: Ints) -> pa.RecordBatch:
        """Return one batch: requests, their responses, which have none, and where bodies begin."""
        frames, request = self._known.frames, self._known.request
        ask = self._known.place[row]
        sent, answered = frames.at_ns[row] // _US, frames.at_ns[said] // _US
        nothing = pa.nulls(len(row), pa.binary())
        with_payload = self._options.payload
        columns = {
            "ts": pa.array(sent).cast(TIME),
            "answered": pa.array(answered, mask=mask).cast(TIME),
            "latency_us": pa.array(answered - sent, mask=mask),
            **self._ends.columns(frames.line[row]),
            "api_key": pa.array(request.api_key[ask].astype(np.int16)),
            "api_version": pa.array(request.version[ask].astype(np.int16)),
            "correlation_id": pa.array(request.correlation_id[ask].astype(np.int32)),
            "client_id": self._known.client_id.take(pa.array(ask)),
            "request_bytes": pa.array(frames.size[row].astype(np.int32)),
            "response_bytes": pa.array(frames.size[said].astype(np.int32), mask=mask),
            "file": pa.repeat(pa.scalar(self._file), len(row)),
            "offset": pa.array(frames.offset[row]),
            "request_start": pa.array(request.body[ask].astype(np.int32)),
            "request": self._bodies.take(row) if with_payload else nothing,
            "response_start": pa.array(body.astype(np.int32), mask=mask),
            "response": self._bodies.take(said, mask) if with_payload else nothing,
        }
        return batch(PAIRS, columns)


def _client_ids(data: Bytes, request: RequestHeads, order: Ints) -> Any:  # noqa: ANN401
    """Return the ids that clients give themselves; a request with one that is no text is wrong."""
    size = np.where(request.is_right, np.maximum(request.client_size, 0), 0)
    start = np.minimum(request.client_start, len(data) - size)
    is_null = ~request.is_right | (request.client_size < 0)
    column = Ranges(data, start, size, order).take(np.arange(len(size)), is_null)
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        ids = [_text(each) for each in column.to_pylist()]
        request.is_right[[each is None for each in ids] & ~is_null] = False
        return pa.array(ids, pa.string())


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _frame_columns(file: str, known: Known, ends: Ends, rows: Ints) -> dict[str, Any]:
    frames, place = known.frames, known.place[rows]
    unknown = (place < 0) | ~known.is_right[rows]
    ask = np.where(place < 0, 0, place)
    request = known.request
    keys, versions = (
        (request.api_key[ask], request.version[ask])
        if len(known.asks)
        else (np.zeros(len(rows)), np.zeros(len(rows)))
    )
    return {
        "file": pa.repeat(pa.scalar(file), len(rows)),
        "offset": pa.array(frames.offset[rows]),
        "ts": times(frames.at_ns[rows]),
        **ends.columns(frames.line[rows]),
        "direction": pa.array(frames.direction[rows].astype(np.int8)),
        "api_key": pa.array(keys.astype(np.int16), mask=unknown),
        "api_version": pa.array(versions.astype(np.int16), mask=unknown),
        "correlation_id": pa.array(known.correlation_id[rows].astype(np.int32)),
    }


_US = 1000


def in_time(packets: Ints) -> Ints:
    """Return the order in which packets came, those of earlier chunks first."""
    return grouped(packets - EARLIER)


def times(ns: Ints) -> Any:  # noqa: ANN401 - an Arrow array
    """Return times as the tables have them."""
    return pa.array(ns // _US).cast(TIME)


class Ends:
    """What every row says of its connection."""

    __slots__ = ("_brokers", "_clients", "_connections", "_nodes")

    def __init__(self, lines: Parties) -> None:
        self._clients = pa.array([line.names[0] for line in lines], pa.string())
        self._brokers = pa.array([line.names[1] for line in lines], pa.string())
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


def _runs(kinds: Ints) -> list[slice]:
    """Return the slices in which all are of one kind."""
    bounds = [0, *(where(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


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
