"""Frames of chunk after chunk → batches of frames and of requests with their responses."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np

from kafkalite.capture.model import Problem, ProblemKind
from kafkalite.columnar.arrays import grouped, sealed, view, where
from kafkalite.columnar.found import EARLIER, Found
from kafkalite.columnar.lines import MARKS, OVER
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.pairing import Frames, paired
from kafkalite.columnar.payloads import joined
from kafkalite.columnar.rows import Known, Rows, Sink
from kafkalite.columnar.tokens import without_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from kafkalite.columnar.arrays import Bytes, Ints
    from kafkalite.columnar.found import Buffer
    from kafkalite.columnar.lines import Lines
    from kafkalite.columnar.pairing import Paired


class Exchanging:
    """Pairs the frames of one file; requests without a response wait for the next chunk."""

    def __init__(
        self, file: str, options: Options, lines: Lines, report: Callable[[Problem], None]
    ) -> None:
        self._file = file
        self._options = options
        self._lines = lines
        self._report = report
        self._sink = Sink(file, options, lines.told)
        self._open = Found()
        self._open_bytes = view(b"")
        self._authenticating: set[int] = set()
        self._is_wanted: dict[int, bool] = {}

    def asked(self, number: int) -> list[bytes]:
        """Return the requests of a connection that wait for their responses, with their lengths."""
        found = []
        for row in where(self._open.line == number).tolist():
            start, size = int(self._open.start[row]), int(self._open.size[row])
            found.append(size.to_bytes(4) + self._open_bytes[start : start + size].tobytes())
        return found

    def open(self) -> tuple[Found, Bytes]:
        """Return the requests that wait for their responses, and the bytes that they are in."""
        return self._open, self._open_bytes

    def take(self, found: Found, buffer: Buffer) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield what a chunk's frames make known."""
        frames = self._with_open(self._wanted(found), buffer)
        if not len(frames):
            return
        known = Known(buffer.whole(), frames)
        pairs = self._paired(known)
        self._keep(known, pairs.open)
        known.answer(pairs.request, pairs.response)
        if Table.FRAMES in self._options.tables:
            yield from self._sink.frames(known, where(frames.packet != EARLIER))
        yield from self._orphans(known, pairs.orphans)
        answers = np.full(len(frames), -1)
        answers[pairs.request] = pairs.response
        is_told = (frames.direction == 0) & known.heads.is_right & ~known.heads.awaits
        is_told[pairs.request] = is_told[pairs.never] = True
        requests = where(is_told)
        yield from self._sink.pairs(known, Rows(requests, answers[requests]))

    def finish(self) -> Iterator[tuple[Table, pa.RecordBatch]]:
        """Yield requests without a response, which another file may have or none."""
        if len(self._open):
            known = Known(self._open_bytes, self._open)
            is_over = self._lines.ends[known.frames.line, MARKS] & OVER != 0
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
        """Put the requests that wait in front, and bring frames into the order of time."""
        at = buffer.add(self._open_bytes)
        waiting = Found(
            self._open.line, self._open.direction, self._open.start + at, self._open.size,
            self._open.offset, self._open.at_ns, np.full(len(self._open), EARLIER),
        )  # fmt: skip
        frames = Found.joined([waiting, found])
        if (frames.packet[1:] < frames.packet[:-1]).any():
            frames = frames.picked(grouped(frames.packet - EARLIER))
        return frames

    def _paired(self, known: Known) -> Paired:
        frames, heads = known.frames, known.heads
        takes_part = heads.awaits | ((frames.direction == 1) & heads.is_right)
        without_tokens(known, takes_part, self._authenticating)
        is_news = (frames.direction == 0) & known.is_message & (frames.packet != EARLIER)
        wrong, unknown = (
            where(is_news & ~heads.is_right),
            where(is_news & heads.is_right & ~heads.has_codec),
        )
        self._tell(known, wrong, ProblemKind.MALFORMED, "a request whose header makes no sense")
        self._tell(known, unknown, ProblemKind.UNKNOWN_VERSION, "requests of unknown versions")
        return paired(
            Frames(frames.line, frames.direction, heads.correlation_id, takes_part),
            len(self._lines),
        )

    def _keep(self, known: Known, rows: Ints) -> None:
        """Let requests wait for the next chunk."""
        self._open = known.frames.picked(rows)
        self._open_bytes = sealed(joined(known.data, self._open.start, self._open.size))
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
