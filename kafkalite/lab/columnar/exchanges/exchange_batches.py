"""`ExchangeBatches`: pairs the frames of each chunk, and builds batches of frames and exchanges."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.lab.columnar.arrays import byte_array, read_only, stable_order, true_indexes
from kafkalite.lab.columnar.byte_columns import concatenate_ranges
from kafkalite.lab.columnar.exchanges.pairing import Frames, pair_frames
from kafkalite.lab.columnar.exchanges.sasl_tokens import exclude_tokens
from kafkalite.lab.columnar.frames.frame_index import EARLIER_CHUNK, FrameIndex
from kafkalite.lab.columnar.frames.table_rows import ParsedFrames, RequestRows, TableWriter
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.segments.connection_state import CLOSED, MARKS, PAIRED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from kafkalite.lab.columnar.arrays import Bytes, Ints, Mask
    from kafkalite.lab.columnar.exchanges.pairing import PairedFrames
    from kafkalite.lab.columnar.frames.frame_index import FrameBuffer
    from kafkalite.lab.columnar.segments.connection_state import ConnectionStates


class ExchangeBatches:
    """Pairs the frames of one file.

    Open requests and waiting responses are carried to the next chunk, up to limits.
    """

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
        is_request = self._open.direction == 0
        for row in true_indexes((self._open.connection_index == number) & is_request).tolist():
            start, size = int(self._open.start[row]), int(self._open.size[row])
            requests.append(size.to_bytes(4) + self._open_bytes[start : start + size].tobytes())
        return requests

    def open_frames(self) -> tuple[FrameIndex, Bytes]:
        """Return the open requests, and the bytes that contain them."""
        return self._open.select(self._open.direction == 0), self._open_bytes

    def process(
        self, new_frames: FrameIndex, buffer: FrameBuffer
    ) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield the rows of a chunk's frames."""
        frames = self._add_open_frames(self._select_clients(new_frames), buffer)
        if not len(frames):
            return
        parsed = ParsedFrames(buffer.all_bytes(), frames)
        pairs = self._pair(parsed)
        detail = "open requests above the limit of memory; they count as unanswered"
        self._report_problem(parsed, pairs.dropped, ProblemKind.TOO_MANY_OPEN, detail)
        self._carry_over(parsed, np.sort(np.concatenate([pairs.open, pairs.waiting])))
        parsed.set_responses(pairs.request, pairs.response)
        if Table.FRAMES in self._options.tables:
            yield from self._writer.frames(parsed, true_indexes(frames.packet != EARLIER_CHUNK))
        yield from self._orphan_rows(parsed, pairs.orphans)
        unpaired = self._answered_in_earlier_file(frames, pairs)
        yield from self._writer.unpaired(parsed, unpaired)
        self._states.connection_rows[frames.connection_index[pairs.request], MARKS] |= PAIRED
        answers = np.full(len(frames), -1)
        answers[pairs.request] = pairs.response
        is_row = (
            (frames.direction == 0) & parsed.headers.is_valid & ~parsed.headers.expects_response
        )
        is_row[pairs.request] = is_row[pairs.unanswered] = True
        is_row[unpaired] = False
        requests = true_indexes(is_row)
        yield from self._writer.pairs(parsed, RequestRows(requests, answers[requests]))

    def finish(self) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield the frames that have no counterpart in this file.

        Those of closed connections can have none in another file if this file has the opening, or
        for requests if an earlier one has a response.
        """
        if not len(self._open):
            return
        parsed = ParsedFrames(self._open_bytes, self._open)
        connections, is_request = self._open.connection_index, self._open.direction == 0
        marks = self._states.connection_rows[connections, MARKS]
        has_opening = self._has_opening(connections)
        is_finished = (marks & CLOSED != 0) & (has_opening | (is_request & (marks & PAIRED != 0)))
        finished = true_indexes(is_finished & is_request)
        yield from self._writer.pairs(parsed, RequestRows(finished, np.full(len(finished), -1)))
        yield from self._orphan_rows(parsed, true_indexes(is_finished & ~is_request))
        yield from self._writer.unpaired(parsed, true_indexes(~is_finished))

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

    def _add_open_frames(self, new_frames: FrameIndex, buffer: FrameBuffer) -> FrameIndex:
        """Add the open frames, and sort all frames by time."""
        at = buffer.add(self._open_bytes)
        open_frames = FrameIndex(
            self._open.connection_index, self._open.direction, self._open.start + at,
            self._open.size, self._open.offset, self._open.at_ns, self._open.request_seq,
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
            Frames(
                frames.connection_index, frames.direction, headers.correlation_id,
                frames.request_seq, is_pairable, frames.size,
            ),
            len(self._states),
        )  # fmt: skip

    def _answered_in_earlier_file(self, frames: FrameIndex, pairs: PairedFrames) -> Ints:
        """Return the unanswered requests whose response may have been captured in an earlier file.

        These are the ones before the first pair of a connection whose opening is not in this file.
        """
        rows, states = pairs.unanswered, self._states
        if len(rows):
            rows = rows[states.connection_rows[frames.connection_index[rows], MARKS] & PAIRED == 0]
            rows = rows[~self._has_opening(frames.connection_index[rows])]
        if len(rows):
            first_pairs = np.full(len(states), len(frames))
            np.minimum.at(first_pairs, frames.connection_index[pairs.request], pairs.request)
            rows = rows[rows < first_pairs[frames.connection_index[rows]]]
        return rows

    def _has_opening(self, connections: Ints) -> Mask:
        """Return for each connection index whether this file has the opening of the connection."""
        return np.array(
            [self._states[number].has_opening for number in connections.tolist()], np.bool_
        )

    def _carry_over(self, parsed: ParsedFrames, rows: Ints) -> None:
        """Store the open frames for the next chunk."""
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
        has_opening = self._has_opening(parsed.frames.connection_index[rows])
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
