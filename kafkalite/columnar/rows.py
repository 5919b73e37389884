"""Frames found → batches of the tables' columns, bounded in rows and in bytes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.columnar import heads
from kafkalite.columnar.arrays import Bytes, Ints, Mask, grouped, where
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.payloads import bytes_of, text_of
from kafkalite.columnar.tables import FRAMES, PAIRS, TIME, UNPAIRED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.columnar.ends import Ends
    from kafkalite.columnar.found import Found

Part = tuple[Table, pa.RecordBatch]


class Known:
    """Frames, and what their headers say."""

    __slots__ = ("data", "frames", "heads", "is_message", "place")

    def __init__(self, data: Bytes, frames: Found) -> None:
        self.data = data
        self.frames = frames
        self.heads = heads.read(data, frames)
        self.place = np.where(frames.direction == 0, np.arange(len(frames)), -1)
        """The row of each frame's request: its own, or of the one it answers; -1 for none."""
        self.is_message = np.ones(len(frames), np.bool_)
        """Which of them are no bare tokens of SASL."""

    def answer(self, requests: Ints, responses: Ints) -> None:
        """Note which responses belong to which requests."""
        self.place[responses] = requests

    def payloads(self, rows: Ints, is_null: Mask | None = None) -> pa.BinaryArray:
        """Return frames without their lengths."""
        return bytes_of(self.data, self.frames.start[rows], self.frames.size[rows], is_null)

    def client_ids(self, rows: Ints, is_null: Mask | None = None) -> pa.StringArray:
        """Return what the clients of requests call themselves."""
        size = self.heads.client_size[rows]
        is_none = ~self.heads.is_right[rows] | (size < 0)
        is_none = is_none if is_null is None else is_none | is_null
        return text_of(self.data, self.heads.client_start[rows], size, is_none)


class Rows(NamedTuple):
    """Requests, and their responses; -1 for none."""

    request: Ints
    response: Ints


class Sink:
    """Makes batches of one file's frames."""

    def __init__(self, file: str, options: Options, ends: Ends) -> None:
        self._file = file
        self._options = options
        self._ends = ends
        self._placed = 0

    def pairs(self, known: Known, rows: Rows) -> Iterator[Part]:
        """Yield requests with their responses; the rows are in the order of the requests."""
        request, response = self._chosen(known, rows)
        if Table.PAIRS not in self._options.tables or not len(request):
            return
        frames, heads_of = known.frames, known.heads
        sizes = np.zeros(len(request), np.int64)
        if self._options.payload:
            sizes = frames.size[request] + np.where(response < 0, 0, frames.size[response])
        runs = [slice(0, len(request))]
        if self._options.by_api:
            runs = _runs((heads_of.api_key[request] << 16) | heads_of.version[request])
        for run in runs:
            for each in self._slices(sizes[run]):
                part = slice(run.start + each.start, run.start + each.stop)
                columns = pair_columns(known, self._ends, request[part], response[part],
                                       with_payload=self._options.payload)  # fmt: skip
                columns["file"] = pa.repeat(pa.scalar(self._file), part.stop - part.start)
                yield Table.PAIRS, batch(PAIRS, columns)

    def _chosen(self, known: Known, rows: Rows) -> Rows:
        """Leave out what is not asked for."""
        request, response = rows
        mask = self._is_asked_for(known.heads.api_key[request], known.frames.at_ns[request])
        if not mask.all():
            request, response = request[mask], response[mask]
        if self._options.by_api and len(request):
            kind = known.heads.api_key[request] * 64 + known.heads.version[request]
            order = grouped(kind - kind.min())
            request, response = request[order], response[order]
        return Rows(request, response)

    def _is_asked_for(self, api_key: Ints, at_ns: Ints) -> Mask:
        options = self._options
        mask = np.ones(len(api_key), np.bool_)
        if options.api_keys is not None:
            mask &= np.isin(api_key, list(options.api_keys))
        if options.from_ns is not None:
            mask &= at_ns >= options.from_ns
        if options.until_ns is not None:
            mask &= at_ns < options.until_ns
        return mask

    def _slices(self, sizes: Ints) -> Iterator[slice]:
        return slices(sizes, self._options.batch_rows, self._options.batch_bytes)

    def frames(self, known: Known, rows: Ints) -> Iterator[Part]:
        """Yield frames."""
        options, frames = self._options, known.frames
        place = known.place[rows]
        api_key = np.where(place < 0, -1, known.heads.api_key[place])
        rows = rows[self._is_asked_for(api_key, frames.at_ns[rows])]
        sizes = frames.size[rows] if options.payload else np.zeros(len(rows), np.int64)
        for each in self._slices(sizes):
            part = rows[each]
            columns = _frame_columns(self._file, known, self._ends, part)
            nothing = pa.nulls(len(part), pa.binary())
            columns["payload"] = known.payloads(part) if options.payload else nothing
            yield Table.FRAMES, batch(FRAMES, columns)

    def unpaired(self, known: Known, rows: Ints) -> Iterator[Part]:
        """Yield frames whose other halves may be in another file."""
        if Table.UNPAIRED not in self._options.tables:
            return
        for each in self._slices(known.frames.size[rows]):
            part = rows[each]
            is_response = known.place[part] < 0
            columns = {
                **_frame_columns(self._file, known, self._ends, part),
                "payload": known.payloads(part),
                "client_id": known.client_ids(part, is_response),
                "start": pa.array(known.heads.body[part].astype(np.int32), mask=is_response),
                "place": pa.array(self._placed + np.arange(len(part))),
            }
            self._placed += len(part)
            yield Table.UNPAIRED, batch(UNPAIRED, columns)


def pair_columns(
    known: Known, ends: Ends, row: Ints, said: Ints, *, with_payload: bool = True
) -> dict[str, Any]:
    """Return the columns of requests with their responses, -1 for none; all but the file's name."""
    frames, head = known.frames, known.heads
    mask = said < 0
    if mask.any():
        said = np.where(mask, 0, said)
    sent, answered = frames.at_ns[row] // _US, frames.at_ns[said] // _US
    api_key, version = head.api_key[row], head.version[row]
    body = np.empty(len(row), np.int64)
    answer_sizes = frames.size[said]
    heads.response_bodies(known.data, frames.start[said], answer_sizes, api_key, version, body)
    nothing = pa.nulls(len(row), pa.binary())
    return {
        "ts": pa.array(sent).cast(TIME),
        "answered": pa.array(answered, mask=mask).cast(TIME),
        "latency_us": pa.array(answered - sent, mask=mask),
        **ends.columns(frames.line[row]),
        "api_key": pa.array(api_key.astype(np.int16)),
        "api_version": pa.array(version.astype(np.int16)),
        "correlation_id": pa.array(head.correlation_id[row].astype(np.int32)),
        "client_id": known.client_ids(row),
        "request_bytes": pa.array(frames.size[row].astype(np.int32)),
        "response_bytes": pa.array(answer_sizes.astype(np.int32), mask=mask),
        "offset": pa.array(frames.offset[row]),
        "request_start": pa.array(head.body[row].astype(np.int32)),
        "request": known.payloads(row) if with_payload else nothing,
        "response_start": pa.array(body.astype(np.int32), mask=mask),
        "response": known.payloads(said, mask) if with_payload else nothing,
    }


def _frame_columns(file: str, known: Known, ends: Ends, rows: Ints) -> dict[str, Any]:
    frames, head, place = known.frames, known.heads, known.place[rows]
    unknown = (place < 0) | ~head.is_right[rows]
    return {
        "file": pa.repeat(pa.scalar(file), len(rows)),
        "offset": pa.array(frames.offset[rows]),
        "ts": times(frames.at_ns[rows]),
        **ends.columns(frames.line[rows]),
        "direction": pa.array(frames.direction[rows].astype(np.int8)),
        "api_key": pa.array(head.api_key[place].astype(np.int16), mask=unknown),
        "api_version": pa.array(head.version[place].astype(np.int16), mask=unknown),
        "correlation_id": pa.array(head.correlation_id[rows].astype(np.int32)),
    }


_US = 1000


def times(ns: Ints) -> Any:  # noqa: ANN401 - an Arrow array
    """Return times as the tables have them."""
    return pa.array(ns // _US).cast(TIME)


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
