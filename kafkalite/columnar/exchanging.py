"""Frames of chunk after chunk → batches of frames and of requests with their responses."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.columnar import heads
from kafkalite.columnar.arrays import where
from kafkalite.columnar.found import EARLIER, Found
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.pairing import Frames, paired
from kafkalite.columnar.rows import Known, Rows, Sink
from kafkalite.columnar.streams import grouped
from kafkalite.columnar.tokens import without_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.found import Buffer
    from kafkalite.columnar.lines import Line
    from kafkalite.columnar.pairing import Paired


class Exchanging:
    """Pairs the frames of one file; requests without a response wait for the next chunk."""

    def __init__(
        self, file: str, options: Options, lines: Sequence[Line], report: Callable[[Problem], None]
    ) -> None:
        self._file = file
        self._options = options
        self._lines = lines
        self._report = report
        self._sink = Sink(file, options, lines)
        self._open = Found()
        self._open_bytes = np.empty(0, np.uint8)
        self._authenticating: set[int] = set()
        self._is_wanted: dict[int, bool] = {}

    def asked(self, number: int) -> list[bytes]:
        """Return the requests of a connection that wait for their responses, with their lengths."""
        found = []
        for row in where(self._open.line == number).tolist():
            start, size = int(self._open.start[row]), int(self._open.size[row])
            found.append(size.to_bytes(4) + self._open_bytes[start : start + size].tobytes())
        return found

    def take(self, found: Found, buffer: Buffer) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield what a chunk's frames make known."""
        frames = self._with_open(self._wanted(found), buffer)
        if not len(frames):
            return
        known = self._known(buffer.whole(), frames)
        frames = known.frames
        pairs = self._paired(known)
        self._keep(known, pairs.open)
        known.answer(pairs.request, pairs.response)
        fresh = where(frames.packet != EARLIER)
        if Table.FRAMES in self._options.tables:
            yield from self._sink.frames(known, fresh)
        yield from self._orphans(known, pairs.orphans)
        is_silent = (frames.direction == 0) & known.is_right & ~known.awaits
        alone = np.concatenate([pairs.never, where(is_silent)])
        requests = np.concatenate([pairs.request, alone])
        answers = np.concatenate([pairs.response, np.full(len(alone), -1)])
        yield from self._sink.pairs(known, Rows(requests, answers))

    def finish(self) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield requests without a response, which another file may have or none."""
        if len(self._open):
            known = self._known(self._open_bytes, self._open)
            is_over = np.array([self._lines[line].is_over for line in known.frames.line.tolist()])
            over, still = where(is_over), where(~is_over)
            yield from self._sink.pairs(known, Rows(over, np.full(len(over), -1)))
            yield from self._sink.unpaired(known, still)

    def _wanted(self, found: Found) -> Found:
        pattern = self._options.clients
        if pattern is None or not len(found):
            return found
        for number in np.unique(found.line).tolist():
            if number not in self._is_wanted:
                client = str(self._lines[number].client)
                self._is_wanted[number] = fnmatchcase(client, pattern)
        unwanted = [number for number, is_wanted in self._is_wanted.items() if not is_wanted]
        return found.picked(~np.isin(found.line, unwanted))

    def _with_open(self, found: Found, buffer: Buffer) -> Found:
        """Put the requests that wait in front, and bring each direction's frames together."""
        at = buffer.add(self._open_bytes)
        waiting = Found(
            self._open.line, self._open.direction, self._open.start + at, self._open.size,
            self._open.offset, self._open.at_ns, np.full(len(self._open), EARLIER),
        )  # fmt: skip
        frames = Found.joined([waiting, found])
        group = frames.line * 2 + frames.direction
        if (group[1:] < group[:-1]).any():
            frames = frames.picked(grouped(group))
        return frames

    def _known(self, data: Bytes, frames: Found) -> Known:
        known = Known(data, frames, np.empty(len(frames), np.bool_))
        rows = known.asks
        request = known.request
        known.awaits[:] = False
        known.awaits[rows] = request.is_right & heads.awaits_answer(
            data, frames.start[rows], frames.size[rows], request
        )
        return known

    def _paired(self, known: Known) -> Paired:
        frames = known.frames
        takes_part = known.awaits | ((frames.direction == 1) & known.is_right)
        without_tokens(known, takes_part, self._authenticating)
        wrong = where((frames.direction == 0) & ~known.is_right & known.is_message)
        wrong = wrong[frames.packet[wrong] != EARLIER]
        self._tell(known, wrong, ProblemKind.MALFORMED, "a request whose header makes no sense")
        news = (known.request.is_right & (frames.packet[known.asks] != EARLIER)) & ~(
            heads.is_known_version(known.request.api_key, known.request.version)
        )
        if news.any():
            rows = known.asks[news]
            rows = rows[known.is_message[rows]]
            self._tell(known, rows, ProblemKind.UNKNOWN_VERSION, "requests of unknown versions")
        rows = where(takes_part)
        pairs = paired(
            Frames(
                frames.line[rows], frames.direction[rows], known.correlation_id[rows],
                known.awaits[rows], frames.packet[rows],
            ),
            len(self._lines),
        )  # fmt: skip
        return type(pairs)(*(rows[each] for each in pairs)) if len(rows) < len(frames) else pairs

    def _keep(self, known: Known, rows: Ints) -> None:
        """Let requests wait for the next chunk."""
        frames = known.frames
        self._open = frames.picked(np.sort(rows))
        parts = [
            known.data[start : start + size]
            for start, size in zip(self._open.start.tolist(), self._open.size.tolist(), strict=True)
        ]
        self._open_bytes = np.concatenate(parts) if parts else np.empty(0, np.uint8)
        self._open.start[:] = np.cumsum(self._open.size) - self._open.size

    def _orphans(self, known: Known, rows: Ints) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Tell responses without a request; where its beginning is not here, another file may."""
        if not len(rows):
            return
        lines = known.frames.line[rows].tolist()
        begins_here = np.array([self._lines[number].begins_here for number in lines])
        self._tell(known, rows[begins_here], ProblemKind.NO_REQUEST, "responses to no request")
        yield from self._sink.unpaired(known, rows[~begins_here])

    def _tell(self, known: Known, rows: Ints, kind: ProblemKind, detail: str) -> None:
        for number in np.unique(known.frames.line[rows]).tolist():
            mine = rows[known.frames.line[rows] == number]
            line = self._lines[number]
            self._report(
                Problem(
                    kind=kind,
                    file=self._file,
                    offset=int(known.frames.offset[mine[0]]),
                    connection=f"{line.client} > {line.broker}",
                    detail=detail,
                    count=len(mine),
                )
            )
