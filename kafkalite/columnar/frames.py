"""Bytes in order → frames: where each begins, whatever packets it is spread over.

The pieces of all streams, one stream behind the other, make one long row of bytes: the line. A
frame that fills its packet, or several that do, is found for all packets at once; the walk along
the line then goes from run to run of such packets, and frame by frame only between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.framing import LENGTH_BYTES, MAX_FRAME_BYTES
from kafkalite.columnar.arrays import NONE, ranges, u32be, where
from kafkalite.columnar.chains import Runs

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Bytes, Ints

_MAX_IN_PIECE: Final = 64
"""Of more frames in one packet than this, the walk takes one after another."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Bytes of streams in order: one row a piece, all of one stream in a row."""

    data: Bytes
    start: Ints
    """Where in the data a piece begins."""
    size: Ints
    line: Ints = field(init=False)
    """Where on the line it begins."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "line", np.cumsum(self.size) - self.size)

    @property
    def total(self) -> int:
        """How long the line is."""
        return int(self.size.sum())

    def at(self, position: int) -> int:
        """Return the piece that a position of the line lies in."""
        return int(self.line.searchsorted(position, "right")) - 1

    def copied(self, start: int, stop: int) -> bytes:
        """Return a part of the line."""
        parts = []
        piece = self.at(start)
        while start < stop:
            begin = int(self.start[piece]) + start - int(self.line[piece])
            size = min(stop, int(self.line[piece] + self.size[piece])) - start
            parts.append(self.data[begin : begin + size].tobytes())
            start += size
            piece += 1
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Cut:
    """Frames on the line."""

    line: Ints
    """Where each one's length begins."""
    size: Ints
    """How many bytes follow its length."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Where the walk along one stream ended before the stream did."""

    stream: int
    line: int
    is_broken: bool
    """Whether what stands there cannot be a frame's length."""


class Cutter:
    """Cuts the line into frames, stream by stream."""

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._line, self._size = _whole(pieces)
        self._runs = Runs(self._line, self._line + self._size + LENGTH_BYTES)

    def cut(self, starts: Ints, stops: Ints) -> tuple[Cut, Ints, list[Rest]]:
        """Cut streams that reach from `starts` to `stops` and begin with a frame.

        Return the frames, how many each stream has, and the rests.
        """
        if len(starts) and len(self._runs) == 1 and self._covers(starts, stops):
            counts = np.diff(self._line.searchsorted(np.append(starts, stops[-1])))
            return Cut(self._line, self._size), counts, []
        lines: list[Ints] = []
        sizes: list[Ints] = []
        counts = np.zeros(len(starts), np.int64)
        rests = []
        for stream, (start, stop) in enumerate(zip(starts.tolist(), stops.tolist(), strict=True)):
            rest = self._walk(start, stop, lines, sizes, counts, stream=stream)
            if rest is not None:
                rests.append(rest)
        if not lines:
            return Cut(NONE, NONE), counts, rests
        return Cut(np.concatenate(lines), np.concatenate(sizes)), counts, rests

    def _covers(self, starts: Ints, stops: Ints) -> bool:
        line, size = self._line, self._size
        end = int(line[-1] + size[-1]) + LENGTH_BYTES
        if line[0] != starts[0] or end != stops[-1] or (starts[1:] != stops[:-1]).any():
            return False
        starts = starts[starts < stops]
        found = line.searchsorted(starts)
        return bool((line[found] == starts).all())

    def _walk(
        self, at: int, stop: int, lines: list[Ints], sizes: list[Ints], counts: Ints, *, stream: int
    ) -> Rest | None:
        one_line: list[int] = []
        one_size: list[int] = []

        def flush() -> None:
            if one_line:
                lines.append(np.array(one_line, np.int64))
                sizes.append(np.array(one_size, np.int64))
                one_line.clear()
                one_size.clear()

        rest = None
        lengths = _Lengths(self._pieces)
        while at < stop:
            first = self._runs.find(at)
            after, end = self._runs.run(first, stop) if first >= 0 else (first, at)
            if after > first:
                flush()
                lines.append(self._line[first:after])
                sizes.append(self._size[first:after])
                counts[stream] += after - first
                at = end
                continue
            size = lengths.read(at, stop)
            if size > MAX_FRAME_BYTES or at + LENGTH_BYTES + size > stop or size < 0:
                rest = Rest(stream, at, is_broken=size > MAX_FRAME_BYTES)
                break
            one_line.append(at)
            one_size.append(size)
            counts[stream] += 1
            at += LENGTH_BYTES + size
        flush()
        return rest


class _Lengths:
    """Reads lengths along the line, forwards."""

    __slots__ = ("_end", "_line", "_pieces", "_start")

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._line = self._end = -1
        self._start = 0

    def read(self, at: int, stop: int) -> int:
        """Return the length that stands at a position; -1 if it goes on behind `stop`."""
        if at + LENGTH_BYTES > stop:
            return -1
        pieces = self._pieces
        if not self._line <= at < self._end:
            piece = pieces.at(at)
            self._line = int(pieces.line[piece])
            self._end = self._line + int(pieces.size[piece])
            self._start = int(pieces.start[piece])
        if at + LENGTH_BYTES <= self._end:
            begin = self._start + at - self._line
            return int.from_bytes(pieces.data[begin : begin + LENGTH_BYTES].tobytes())
        return int.from_bytes(pieces.copied(at, at + LENGTH_BYTES))


def _whole(pieces: Pieces) -> tuple[Ints, Ints]:
    """Return the frames of pieces that consist of whole frames: where on the line, and sizes."""
    if len(pieces.size) and int(pieces.size.min()) >= LENGTH_BYTES:
        sizes = u32be(pieces.data, pieces.start)
        if (sizes + LENGTH_BYTES == pieces.size).all():
            return pieces.line, sizes
    rows = where(pieces.size >= LENGTH_BYTES)
    at, end = pieces.start[rows], pieces.start[rows] + pieces.size[rows]
    found: list[tuple[Ints, Ints, Ints]] = []
    is_whole = np.zeros(len(pieces.size), np.bool_)
    for _ in range(_MAX_IN_PIECE):
        size = u32be(pieces.data, at)
        after = at + LENGTH_BYTES + size
        found.append((rows, at, size))
        is_whole[rows[after == end]] = True
        more = where(after <= end - LENGTH_BYTES)
        if not len(more):
            break
        rows, at, end = rows[more], after[more], end[more]
    row, start, size = (np.concatenate(each) for each in zip(*found, strict=True))
    kept = is_whole[row]
    if not kept.all():
        row, start, size = row[kept], start[kept], size[kept]
    line = pieces.line[row] + start - pieces.start[row]
    if len(found) > 1:
        order = np.argsort(line, kind="stable")
        line, size = line[order], size[order]
    return line, size


@dataclass(frozen=True, slots=True)
class Placed:
    """Frames' bodies in memory, and the pieces that they begin and end in."""

    start: Ints
    size: Ints
    first: Ints
    last: Ints
    extra: Bytes
    """What was put together from several pieces; positions past the data mean this."""


def place(pieces: Pieces, cut: Cut) -> Placed:
    """Return where frames' bodies are; those spread over several pieces are put together."""
    if len(cut.line) == len(pieces.line) and (cut.line == pieces.line).all():
        every = np.arange(len(cut.line))
        fits = cut.size + LENGTH_BYTES == pieces.size
        if fits.all():
            return Placed(pieces.start + LENGTH_BYTES, cut.size, every, every, pieces.data[:0])
    body, stop = cut.line + LENGTH_BYTES, cut.line + LENGTH_BYTES + cut.size
    first = pieces.line.searchsorted(cut.line, "right") - 1
    last = pieces.line.searchsorted(stop - 1, "right") - 1
    start = pieces.start[first] + body - pieces.line[first]
    spread = where(first != last)
    if not len(spread):
        return Placed(start, cut.size, first, last, pieces.data[:0])
    spans = last[spread] - first[spread] + 1
    row = ranges(first[spread], spans)
    begin = np.maximum(np.repeat(body[spread], spans), pieces.line[row])
    end = np.minimum(np.repeat(stop[spread], spans), pieces.line[row] + pieces.size[row])
    sizes = np.maximum(end - begin, 0)
    extra = _gathered(pieces.data, pieces.start[row] + begin - pieces.line[row], sizes)
    before = np.cumsum(cut.size[spread]) - cut.size[spread]
    start[spread] = len(pieces.data) + before
    return Placed(start, cut.size, first, last, extra)


def _gathered(data: Bytes, starts: Ints, sizes: Ints) -> Bytes:
    """Return ranges of bytes, one behind the other."""
    out = np.empty(int(sizes.sum()), np.uint8)
    at = 0
    source, target = data.data, out.data
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        target[at : at + size] = source[start : start + size]
        at += size
    return out
