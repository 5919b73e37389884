"""Frames of chunk after chunk → batches of frames and of requests with their responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkalite.columnar import heads
from kafkalite.columnar.arrays import where
from kafkalite.columnar.found import EARLIER, Found
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.pairing import Frames, paired
from kafkalite.columnar.payloads import Ranges, text
from kafkalite.columnar.rows import Ends, batch, slices, times
from kafkalite.columnar.streams import grouped
from kafkalite.columnar.tables import PAIRS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.found import Buffer
    from kafkalite.columnar.heads import RequestHeads
    from kafkalite.columnar.lines import Line


class Exchanging:
    """Pairs the frames of one file; requests without a response wait for the next chunk."""

    def __init__(self, file: str, options: Options, lines: Sequence[Line]) -> None:
        self._file = file
        self._options = options
        self._lines = lines
        self._open = Found()
        self._open_bytes = np.empty(0, np.uint8)

    def take(self, found: Found, buffer: Buffer) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield what a chunk's frames make known."""
        at = buffer.add(self._open_bytes)
        waiting = Found(
            self._open.line, self._open.direction, self._open.start + at, self._open.size,
            self._open.offset, self._open.at_ns, np.full(len(self._open), EARLIER),
        )  # fmt: skip
        frames = Found.joined([waiting, found])
        if not len(frames):
            return
        group = frames.line * 2 + frames.direction
        if (group[1:] < group[:-1]).any():
            frames = frames.picked(grouped(group))
        data = buffer.whole()
        yield from self._pairs(data, frames)

    def _pairs(self, data: Bytes, frames: Found) -> Iterator[tuple[Table, pa.RecordBatch]]:
        asks = where(frames.direction == 0)
        says = where(frames.direction == 1)
        request = heads.request_heads(data, frames.start[asks], frames.size[asks])
        awaits = heads.awaits_answer(data, frames.start[asks], frames.size[asks], request)
        correlation = np.empty(len(frames), np.int64)
        correlation[asks] = request.correlation_id
        correlation[says] = heads.correlation_ids(data, frames.start[says], frames.size[says])
        waits = np.zeros(len(frames), np.bool_)
        waits[asks] = awaits & request.is_right
        pairs = paired(
            Frames(frames.line, frames.direction, correlation, waits, frames.packet),
            int(frames.line.max()) + 1,
        )
        silent = asks[~awaits & request.is_right]
        self._keep(data, frames, pairs.open)
        alone = np.concatenate([pairs.never, silent])
        rows = np.concatenate([pairs.request, alone])
        answers = np.concatenate([pairs.response, np.full(len(alone), -1)])
        # In the order in which they were sent.
        place = np.empty(len(frames), np.int64)
        place[asks] = np.arange(len(asks))
        order = np.argsort(frames.packet[rows], kind="stable")
        yield from self._batches(
            data, frames, request, place=place, rows=rows[order], answers=answers[order]
        )

    def _keep(self, data: Bytes, frames: Found, rows: Ints) -> None:
        """Let requests wait for the next chunk."""
        rows = np.sort(rows)
        self._open = frames.picked(rows)
        parts = [
            data[s : s + n]
            for s, n in zip(self._open.start.tolist(), self._open.size.tolist(), strict=True)
        ]
        self._open_bytes = np.concatenate(parts) if parts else np.empty(0, np.uint8)
        self._open.start[:] = np.cumsum(self._open.size) - self._open.size

    def _batches(
        self,
        data: Bytes,
        frames: Found,
        request: RequestHeads,
        *,
        place: Ints,
        rows: Ints,
        answers: Ints,
    ) -> Iterator[tuple[Table, pa.RecordBatch]]:
        if not len(rows):
            return
        options = self._options
        asks = place[rows]
        api_key, version = request.api_key[asks], request.version[asks]
        bodies = Ranges(data, frames.start, frames.size)
        clients = Ranges(data, request.client_start, np.maximum(request.client_size, 0))
        ends = Ends(self._lines)
        is_open = answers < 0
        said = np.where(is_open, 0, answers)
        response_start = heads.response_bodies(
            data, frames.start[said], frames.size[said], api_key, version
        )
        answered = frames.at_ns[said]
        sizes = frames.size[rows] + np.where(is_open, 0, frames.size[said])
        for part in slices(sizes, options.batch_rows, options.batch_bytes):
            row, ask, said_row, mask = rows[part], asks[part], said[part], is_open[part]
            columns: dict[str, Any] = {
                "ts": times(frames.at_ns[row]),
                "answered": _masked(times(answered[part]), mask),
                "latency_us": pa.array(
                    answered[part] // 1000 - frames.at_ns[row] // 1000, mask=mask
                ),
                **ends.columns(frames.line[row]),
                "api_key": pa.array(api_key[part].astype(np.int16)),
                "api_version": pa.array(version[part].astype(np.int16)),
                "correlation_id": pa.array(request.correlation_id[ask].astype(np.int32)),
                "client_id": text(clients.take(ask, request.client_size[ask] < 0)),
                "request_bytes": pa.array(frames.size[row].astype(np.int32)),
                "response_bytes": pa.array(frames.size[said_row].astype(np.int32), mask=mask),
                "file": pa.repeat(pa.scalar(self._file), len(row)),
                "offset": pa.array(frames.offset[row]),
                "request_start": pa.array(request.body[ask].astype(np.int32)),
                "request": bodies.take(row),
                "response_start": pa.array(response_start[part].astype(np.int32), mask=mask),
                "response": bodies.take(said_row, mask),
            }
            yield Table.PAIRS, batch(PAIRS, columns)

    def finish(self) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield what waits for another file."""
        return iter(())


def _masked(column: Any, mask: Any) -> Any:  # noqa: ANN401 - Arrow arrays
    if not mask.any():
        return column
    return pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
