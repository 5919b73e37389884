"""`TableWriter`: builds batches of the tables from frames, limited in rows and bytes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kafkalite.lab.columnar.arrays import Bytes, Ints, Mask, stable_order, true_indexes
from kafkalite.lab.columnar.byte_columns import bytes_column, text_column
from kafkalite.lab.columnar.frames import headers
from kafkalite.lab.columnar.frames.frame_index import UNKNOWN_SEQ
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.tables import FRAMES, PAIRS, TIME, UNPAIRED
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.units import NANOSECONDS_PER_MICROSECOND

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.lab.columnar.frames.frame_index import FrameIndex
    from kafkalite.lab.columnar.segments.endpoints import EndpointColumns

TableBatch = tuple[Table, pa.RecordBatch]


class ParsedFrames:
    """Frames with their parsed headers."""

    __slots__ = ("data", "frames", "headers", "is_message", "request_row")

    def __init__(self, data: Bytes, frames: FrameIndex) -> None:
        self.data = data
        self.frames = frames
        self.headers = headers.read(data, frames)
        self.request_row = np.where(frames.direction == 0, np.arange(len(frames)), -1)
        """Row of each frame's request: its own, or that of its response; -1 if unknown."""
        self.is_message = np.ones(len(frames), np.bool_)
        """False for bare SASL tokens."""

    def set_responses(self, requests: Ints, responses: Ints) -> None:
        """Store the row of each response's request."""
        self.request_row[responses] = requests

    def payloads(self, rows: Ints, is_null: Mask | None = None) -> pa.BinaryArray:
        """Return frames without their lengths."""
        return bytes_column(self.data, self.frames.start[rows], self.frames.size[rows], is_null)

    def client_ids(self, rows: Ints, is_null: Mask | None = None) -> pa.StringArray:
        """Return the client ids of requests."""
        size = self.headers.client_id_size[rows]
        is_null_id = ~self.headers.is_valid[rows] | (size < 0)
        is_null_id = is_null_id if is_null is None else is_null_id | is_null
        return text_column(self.data, self.headers.client_id_start[rows], size, is_null_id)


class RequestRows(NamedTuple):
    """Rows of requests, and rows of their responses; -1 if there is none."""

    request: Ints
    response: Ints


class TableWriter:
    """Builds batches of one file's frames."""

    def __init__(self, file: str, options: Options, endpoints: EndpointColumns) -> None:
        self._file = file
        self._options = options
        self._endpoints = endpoints
        self._unpaired_count = 0

    def pairs(self, parsed: ParsedFrames, rows: RequestRows) -> Iterator[TableBatch]:
        """Yield requests with their responses; rows are sorted by the requests."""
        request, response = self._filter(parsed, rows)
        if Table.PAIRS not in self._options.tables or not len(request):
            return
        frames, parsed_headers = parsed.frames, parsed.headers
        sizes = np.zeros(len(request), np.int64)
        if self._options.payload:
            sizes = frames.size[request] + np.where(response < 0, 0, frames.size[response])
        runs = [slice(0, len(request))]
        if self._options.by_api:
            runs = _runs_of_equal(
                (parsed_headers.api_key[request] << 16) | parsed_headers.version[request]
            )
        for run in runs:
            for each in self._slices(sizes[run]):
                part = slice(run.start + each.start, run.start + each.stop)
                columns = pair_columns(parsed, self._endpoints, request[part], response[part],
                                       with_payload=self._options.payload)  # fmt: skip
                columns["file"] = pa.repeat(pa.scalar(self._file), part.stop - part.start)
                yield Table.PAIRS, table_batch(PAIRS, columns)

    def _filter(self, parsed: ParsedFrames, rows: RequestRows) -> RequestRows:
        """Apply the filters; with `by_api`, sort by API and version."""
        request, response = rows
        mask = self._is_selected(parsed.headers.api_key[request], parsed.frames.at_ns[request])
        if not mask.all():
            request, response = request[mask], response[mask]
        if self._options.by_api and len(request):
            api_and_version = parsed.headers.api_key[request] * 64 + parsed.headers.version[request]
            order = stable_order(api_and_version - api_and_version.min())
            request, response = request[order], response[order]
        return RequestRows(request, response)

    def _is_selected(self, api_key: Ints, at_ns: Ints) -> Mask:
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

    def frames(self, parsed: ParsedFrames, rows: Ints) -> Iterator[TableBatch]:
        """Yield rows of the table of frames."""
        options, frames = self._options, parsed.frames
        request_row = parsed.request_row[rows]
        api_key = np.where(request_row < 0, -1, parsed.headers.api_key[request_row])
        rows = rows[self._is_selected(api_key, frames.at_ns[rows])]
        sizes = frames.size[rows] if options.payload else np.zeros(len(rows), np.int64)
        for each in self._slices(sizes):
            part = rows[each]
            columns = _frame_columns(self._file, parsed, self._endpoints, part)
            nulls = pa.nulls(len(part), pa.binary())
            columns["payload"] = parsed.payloads(part) if options.payload else nulls
            yield Table.FRAMES, table_batch(FRAMES, columns)

    def unpaired(self, parsed: ParsedFrames, rows: Ints) -> Iterator[TableBatch]:
        """Yield frames that may be paired with a frame of another file."""
        if Table.UNPAIRED not in self._options.tables:
            return
        for each in self._slices(parsed.frames.size[rows]):
            part = rows[each]
            is_response = parsed.request_row[part] < 0
            columns = {
                **_frame_columns(self._file, parsed, self._endpoints, part),
                "payload": parsed.payloads(part),
                "client_id": parsed.client_ids(part, is_response),
                "start": pa.array(
                    parsed.headers.body_offset[part].astype(np.int32), mask=is_response
                ),
                "frame_number": pa.array(self._unpaired_count + np.arange(len(part))),
                "request_seq": pa.array(
                    parsed.frames.request_seq[part],
                    mask=parsed.frames.request_seq[part] == UNKNOWN_SEQ,
                ),
            }
            self._unpaired_count += len(part)
            yield Table.UNPAIRED, table_batch(UNPAIRED, columns)


def pair_columns(
    parsed: ParsedFrames,
    endpoints: EndpointColumns,
    row: Ints,
    response: Ints,
    *,
    with_payload: bool = True,
) -> dict[str, Any]:
    """Return the columns of requests and responses, except the file name.

    `response` is the row of each request's response, or -1.
    """
    frames, parsed_headers = parsed.frames, parsed.headers
    mask = response < 0
    if mask.any():
        response = np.where(mask, 0, response)
    sent, answered = (
        frames.at_ns[row] // NANOSECONDS_PER_MICROSECOND,
        frames.at_ns[response] // NANOSECONDS_PER_MICROSECOND,
    )
    # A response can be captured before its request.
    answered = np.maximum(answered, sent)
    api_key, version = parsed_headers.api_key[row], parsed_headers.version[row]
    body = np.empty(len(row), np.int64)
    response_sizes = frames.size[response]
    headers.find_response_bodies(
        parsed.data, frames.start[response], response_sizes, api_key, version, body
    )
    nulls = pa.nulls(len(row), pa.binary())
    return {
        "ts": pa.array(sent).cast(TIME),
        "response_ts": pa.array(answered, mask=mask).cast(TIME),
        "latency_us": pa.array(answered - sent, mask=mask),
        **endpoints.columns(frames.connection_index[row]),
        "api_key": pa.array(api_key.astype(np.int16)),
        "api_version": pa.array(version.astype(np.int16)),
        "correlation_id": pa.array(parsed_headers.correlation_id[row].astype(np.int32)),
        "client_id": parsed.client_ids(row),
        "request_bytes": pa.array(frames.size[row].astype(np.int32)),
        "response_bytes": pa.array(response_sizes.astype(np.int32), mask=mask),
        "offset": pa.array(frames.offset[row]),
        "request_start": pa.array(parsed_headers.body_offset[row].astype(np.int32)),
        "request": parsed.payloads(row) if with_payload else nulls,
        "response_start": pa.array(body.astype(np.int32), mask=mask),
        "response": parsed.payloads(response, mask) if with_payload else nulls,
    }


def _frame_columns(
    file: str, parsed: ParsedFrames, endpoints: EndpointColumns, rows: Ints
) -> dict[str, Any]:
    frames, parsed_headers, request_row = parsed.frames, parsed.headers, parsed.request_row[rows]
    unknown = (request_row < 0) | ~parsed_headers.is_valid[rows]
    return {
        "file": pa.repeat(pa.scalar(file), len(rows)),
        "offset": pa.array(frames.offset[rows]),
        "ts": time_column(frames.at_ns[rows]),
        **endpoints.columns(frames.connection_index[rows]),
        "direction": pa.array(frames.direction[rows].astype(np.int8)),
        "api_key": pa.array(parsed_headers.api_key[request_row].astype(np.int16), mask=unknown),
        "api_version": pa.array(parsed_headers.version[request_row].astype(np.int16), mask=unknown),
        "correlation_id": pa.array(parsed_headers.correlation_id[rows].astype(np.int32)),
    }


def time_column(ns: Ints) -> Any:  # noqa: ANN401 - an Arrow array
    """Return times in nanoseconds as a column of timestamps."""
    return pa.array(ns // NANOSECONDS_PER_MICROSECOND).cast(TIME)


def table_batch(schema: pa.Schema, columns: dict[str, Any]) -> pa.RecordBatch:
    """Return a batch of a table from columns in any order."""
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _runs_of_equal(kinds: Ints) -> list[slice]:
    """Return the slices of consecutive equal values."""
    bounds = [0, *(true_indexes(kinds[1:] != kinds[:-1]) + 1).tolist(), len(kinds)]
    return [slice(start, stop) for start, stop in itertools.pairwise(bounds)]


def slices(sizes: Ints, rows: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `rows` rows and `size` bytes; a single row may be larger."""
    total = np.cumsum(sizes)
    start, before = 0, 0
    while start < len(sizes):
        stop = min(start + rows, len(sizes))
        fit = int(total.searchsorted(before + size, "right"))
        stop = max(start + 1, min(stop, fit))
        yield slice(start, stop)
        before = int(total[stop - 1])
        start = stop
