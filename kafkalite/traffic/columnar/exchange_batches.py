"""`ExchangeBatches`: pairs the frames of each chunk, and builds batches of frames and exchanges."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from kafkalite.traffic.columnar.arrays import byte_array, read_only, stable_order, true_indexes
from kafkalite.traffic.columnar.byte_columns import concatenate_ranges
from kafkalite.traffic.columnar.connection_state import CLOSED, MARKS
from kafkalite.traffic.columnar.frame_index import EARLIER_CHUNK, FrameIndex
from kafkalite.traffic.columnar.options import Options, Table
from kafkalite.traffic.columnar.pairing import Frames, pair_frames
from kafkalite.traffic.columnar.sasl_tokens import exclude_tokens
from kafkalite.traffic.columnar.table_rows import ParsedFrames, RequestRows, TableWriter
from kafkalite.traffic.model import Problem, ProblemKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from kafkalite.traffic.columnar.arrays import Bytes, Ints
    from kafkalite.traffic.columnar.connection_state import ConnectionStates
    from kafkalite.traffic.columnar.frame_index import FrameBuffer
    from kafkalite.traffic.columnar.pairing import PairedFrames


class ExchangeBatches:
    """Pairs the frames of one file; open requests are carried to the next chunk."""

    def __init__(
        self,
        file: str,
        options: Options,
        states: ConnectionStates,
        report: Callable[[Problem], None],
    ) -> None:
        self._file = file
        self._options = options
        self._states = states
        self._report = report
        self._writer = TableWriter(file, options, states.endpoints)
        self._open = FrameIndex()
        self._open_bytes = byte_array(b"")
        self._authenticating: set[int] = set()
        self._is_selected: dict[int, bool] = {}

    def open_requests(self, number: int) -> list[bytes]:
        """Return the open requests of a connection, each with its length."""
        requests = []
        for row in true_indexes(self._open.connection_index == number).tolist():
            start, size = int(self._open.start[row]), int(self._open.size[row])
            requests.append(size.to_bytes(4) + self._open_bytes[start : start + size].tobytes())
        return requests

    def open_frames(self) -> tuple[FrameIndex, Bytes]:
        """Return the open requests, and the bytes that contain them."""
        return self._open, self._open_bytes

    def process(
        self, new_frames: FrameIndex, buffer: FrameBuffer
    ) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield the rows of a chunk's frames."""
        frames = self._add_open_requests(self._select_clients(new_frames), buffer)
        if not len(frames):
            return
        parsed = ParsedFrames(buffer.all_bytes(), frames)
        pairs = self._pair(parsed)
        self._carry_over(parsed, pairs.open)
        parsed.set_responses(pairs.request, pairs.response)
        if Table.FRAMES in self._options.tables:
            yield from self._writer.frames(parsed, true_indexes(frames.packet != EARLIER_CHUNK))
        yield from self._orphan_rows(parsed, pairs.orphans)
        answers = np.full(len(frames), -1)
        answers[pairs.request] = pairs.response
        is_row = (
            (frames.direction == 0) & parsed.headers.is_valid & ~parsed.headers.expects_response
        )
        is_row[pairs.request] = is_row[pairs.unanswered] = True
        requests = true_indexes(is_row)
        yield from self._writer.pairs(parsed, RequestRows(requests, answers[requests]))

    def finish(self) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield the open requests; those of closed connections are pairs, the others unpaired."""
        if len(self._open):
            parsed = ParsedFrames(self._open_bytes, self._open)
            is_finished = (
                self._states.connection_rows[parsed.frames.connection_index, MARKS] & CLOSED != 0
            )
            closed, still_open = true_indexes(is_finished), true_indexes(~is_finished)
            yield from self._writer.pairs(parsed, RequestRows(closed, np.full(len(closed), -1)))
            yield from self._writer.unpaired(parsed, still_open)

    def _select_clients(self, frames: FrameIndex) -> FrameIndex:
        pattern = self._options.clients
        if pattern is None or not len(frames):
            return frames
        for number in np.unique(frames.connection_index).tolist():
            if number not in self._is_selected:
                client = str(self._states[number].client)
                self._is_selected[number] = fnmatchcase(client, pattern)
        excluded = [number for number, selected in self._is_selected.items() if not selected]
        return frames.select(~np.isin(frames.connection_index, excluded))

    def _add_open_requests(self, new_frames: FrameIndex, buffer: FrameBuffer) -> FrameIndex:
        """Add the open requests, and sort the frames by time."""
        at = buffer.add(self._open_bytes)
        open_frames = FrameIndex(
            self._open.connection_index, self._open.direction, self._open.start + at,
            self._open.size, self._open.offset, self._open.at_ns,
            np.full(len(self._open), EARLIER_CHUNK),
        )  # fmt: skip
        frames = FrameIndex.concatenate([open_frames, new_frames])
        if (frames.packet[1:] < frames.packet[:-1]).any():
            frames = frames.select(stable_order(frames.packet - EARLIER_CHUNK))
        return frames

    def _pair(self, parsed: ParsedFrames) -> PairedFrames:
        frames, headers = parsed.frames, parsed.headers
        is_pairable = headers.expects_response | ((frames.direction == 1) & headers.is_valid)
        exclude_tokens(parsed, is_pairable, self._authenticating)
        is_new = (frames.direction == 0) & parsed.is_message & (frames.packet != EARLIER_CHUNK)
        invalid, unknown_versions = (
            true_indexes(is_new & ~headers.is_valid),
            true_indexes(is_new & headers.is_valid & ~headers.has_codec),
        )
        self._report_problem(parsed, invalid, ProblemKind.MALFORMED, "invalid request header")
        self._report_problem(
            parsed, unknown_versions, ProblemKind.UNKNOWN_VERSION, "unknown versions"
        )
        return pair_frames(
            Frames(frames.connection_index, frames.direction, headers.correlation_id, is_pairable),
            len(self._states),
        )

    def _carry_over(self, parsed: ParsedFrames, rows: Ints) -> None:
        """Store the open requests for the next chunk."""
        self._open = parsed.frames.select(rows)
        self._open_bytes = read_only(
            concatenate_ranges(parsed.data, self._open.start, self._open.size)
        )
        self._open.start[:] = np.cumsum(self._open.size) - self._open.size

    def _orphan_rows(
        self, parsed: ParsedFrames, rows: Ints
    ) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Report responses without a request; yield those whose request may be in another file."""
        if not len(rows):
            return
        states = parsed.frames.connection_index[rows].tolist()
        has_opening = np.array([self._states[number].has_opening for number in states])
        self._report_problem(
            parsed, rows[has_opening], ProblemKind.NO_REQUEST, "responses without a request"
        )
        yield from self._writer.unpaired(parsed, rows[~has_opening])

    def _report_problem(
        self, parsed: ParsedFrames, rows: Ints, kind: ProblemKind, detail: str
    ) -> None:
        for number in np.unique(parsed.frames.connection_index[rows]).tolist():
            connection_rows = rows[parsed.frames.connection_index[rows] == number]
            state = self._states[number]
            self._report(
                Problem(
                    kind=kind,
                    file=self._file,
                    offset=int(parsed.frames.offset[connection_rows[0]]),
                    connection=f"{state.client} > {state.broker}",
                    detail=detail,
                    count=len(connection_rows),
                )
            )
