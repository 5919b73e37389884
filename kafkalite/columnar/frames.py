"""Segments in order → frames: compiled loops over a chunk's segments, in the file's order.

`follow` says of which connections something was lost, repeated or out of order: those are for the
exact way, segment by segment. `cut` finds the frames of the others. `settle` carries these on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.framing import LENGTH_BYTES, MAX_FRAME_BYTES
from kafkalite.capture.reassembly import MAX_WAIT_NS
from kafkalite.columnar.compiled import kernel, peek_u8, peek_u32, piece
from kafkalite.columnar.lines import (
    APPEARED,
    BEGIN,
    CHUNK,
    END,
    ENDED,
    EXACT,
    FIRST,
    FLAGS,
    HAVE,
    INITIAL,
    IS_ODD,
    IS_RESET,
    JUDGED,
    LAST,
    LATEST_NS,
    LENGTH,
    LINE_CHUNK,
    MARKS,
    NEXT,
    OVER,
    PIECE,
    PLACE,
    REST,
    UNKNOWN,
)
from kafkalite.columnar.packets import FIN, RST, SYN

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Bytes, Ints

_MASK: Final = 0xFFFFFFFF


@piece
def _readable(side: Ints, at_ns: int) -> int:
    """Return the time from which bytes that came at some time could be read.

    Not before those in front of them, unless the clock was set back.
    """
    if not 0 <= side[LATEST_NS] - at_ns < MAX_WAIT_NS:
        side[LATEST_NS] = at_ns
    latest: int = side[LATEST_NS]
    return latest


@kernel
def follow(  # noqa: PLR0917
    groups: Ints,
    seqs: Ints,
    flags: Ints,
    sizes: Ints,
    missing: Ints,
    at_ns: Ints,
    chunk: int,
    sides: Ints,
    ends: Ints,
    follows: Ints,
    met: Ints,
) -> int:
    """Mark connections that are not in order; `groups` says whose each segment is.

    `follows` becomes each segment's next one of its direction, and `met` the directions that are
    here; returns how many. `at_ns` becomes the times from which segments' bytes could be read. In
    order is what goes on where it was, without a byte missing; opens the connection at its first
    segment only, and ends it with its last.
    """
    count = 0
    for row in range(len(groups)):
        group, flag = groups[row], flags[row]
        line, side = ends[group >> 1], sides[group]
        follows[row] = UNKNOWN
        if sizes[row] > 0:
            at_ns[row] = _readable(side, at_ns[row])
        opens, closes = flag & SYN != 0, flag & (FIN | RST) != 0
        is_odd = missing[row] != 0 or (opens and closes)
        if side[CHUNK] != chunk:
            side[CHUNK], side[BEGIN], side[FIRST], side[FLAGS] = chunk, seqs[row], row, 0
            side[HAVE], side[REST] = 0, UNKNOWN
            met[count] = group
            count += 1
            is_odd |= side[NEXT] != (UNKNOWN if opens else seqs[row])
        else:
            follows[side[LAST]] = row
            is_odd |= opens or side[FLAGS] & (FIN | RST) != 0 or seqs[row] != side[END]
        if line[LINE_CHUNK] != chunk:
            line[LINE_CHUNK], line[IS_RESET] = chunk, 0
            line[IS_ODD] = line[MARKS] & (EXACT | OVER)
        # Behind a reset nothing is said, by neither side.
        is_odd |= line[IS_RESET] != 0
        if is_odd:
            line[IS_ODD] = 1
        line[IS_RESET] |= flag & RST
        side[LAST], side[FLAGS] = row, side[FLAGS] | flag
        length = sizes[row] + missing[row] + opens + (flag & FIN != 0)
        side[END] = (seqs[row] + length) & _MASK
    return count


@kernel
def _copy(  # noqa: PLR0917
    data: Bytes, start: int, size: int, skip: int, out: Bytes, at: int
) -> tuple[int, int]:
    """Append bytes to `out` but for the first `skip`; return its end, and what is left to skip."""
    passed = min(skip, size)
    for place in range(passed, size):
        out[np.uint64(at + place - passed)] = data[np.uint64(start + place)]
    return at + size - passed, skip - passed


@kernel
def _gather(  # noqa: PLR0917
    data: Bytes,
    starts: Ints,
    sizes: Ints,
    follows: Ints,
    side: Ints,
    rests: Bytes,
    bounds: Ints,
    size: int,
    skip: int,
    out: Bytes,
    at: int,
) -> int:
    """Append `size` bytes of a direction, from those that are kept on; return where they end."""
    row, place = side[PIECE], side[PLACE]
    if side[REST] >= 0:
        first, stop = bounds[side[REST]], bounds[side[REST] + 1]
        at, skip = _copy(rests, first, stop - first, skip, out, at)
        size -= stop - first
        row, place = side[FIRST], starts[side[FIRST]]
    while size > 0 and row >= 0:
        part = min(size, starts[row] + sizes[row] - place)
        at, skip = _copy(data, place, part, skip, out, at)
        size -= part
        row = follows[row]
        place = starts[row] if row >= 0 else 0
    return at


@kernel
def _go_on(data: Bytes, side: Ints, at: int, end: int) -> int:
    """Go on in a direction's unfinished frame, its length first; return how far that goes."""
    while side[HAVE] < LENGTH_BYTES and at < end:
        side[LENGTH] = side[LENGTH] << 8 | peek_u8(data, at)
        side[HAVE] += 1
        at += 1
    if side[HAVE] >= LENGTH_BYTES and side[LENGTH] <= MAX_FRAME_BYTES:
        part = min(LENGTH_BYTES + side[LENGTH] - side[HAVE], end - at)
        side[HAVE] += part
        at += part
    return at


@kernel
def cut(  # noqa: PLR0917
    data: Bytes,
    groups: Ints,
    starts: Ints,
    sizes: Ints,
    follows: Ints,
    sides: Ints,
    ends: Ints,
    rests: Bytes,
    bounds: Ints,
    found: Ints,
    extra: Bytes,
) -> tuple[int, int]:
    """Find the frames of connections in order; returns how many, and the bytes of `extra` used.

    `found` gets a column each: the connection, the direction, where the body begins (behind the
    data: in `extra`, where bodies are put together), its size, and the segments that the frame
    begins and ends in; the first is UNKNOWN where it began before this chunk. `rests` are the
    beginnings of frames that were kept, cut at `bounds`. Marks connections that say what is no
    length.
    """
    count = used = 0
    for row in range(len(groups)):
        line, side = ends[groups[row] >> 1], sides[groups[row]]
        at, end = starts[row], starts[row] + sizes[row]
        while at < end and line[IS_ODD] == 0:
            body, first = at + LENGTH_BYTES, row
            if side[HAVE] == 0 and body <= end and peek_u32(data, at) <= end - body:
                side[LENGTH] = peek_u32(data, at)
                at = body + side[LENGTH]
            else:
                if side[HAVE] == 0:
                    side[PIECE], side[PLACE], side[LENGTH] = row, at, 0
                at = _go_on(data, side, at, end)
                if side[HAVE] >= LENGTH_BYTES and side[LENGTH] > MAX_FRAME_BYTES:
                    line[IS_ODD] = 1
                if side[HAVE] != LENGTH_BYTES + side[LENGTH]:
                    continue
                body, first = len(data) + used, UNKNOWN if side[REST] >= 0 else side[PIECE]
                used = _gather(
                    data, starts, sizes, follows, side, rests, bounds, side[HAVE], LENGTH_BYTES,
                    extra, used,
                )  # fmt: skip
                side[HAVE], side[REST] = 0, UNKNOWN
            found[0, count], found[1, count] = groups[row] >> 1, groups[row] & 1
            found[2, count], found[3, count] = body, side[LENGTH]
            found[4, count], found[5, count] = first, row
            count += 1
    return count, used


@kernel
def settle(  # noqa: PLR0917
    data: Bytes,
    starts: Ints,
    sizes: Ints,
    follows: Ints,
    met: Ints,
    sides: Ints,
    ends: Ints,
    rests: Bytes,
    bounds: Ints,
    left: Bytes,
    stops: Ints,
) -> None:
    """Carry on the directions in `met` that are in order.

    What each of them has of an unfinished frame is put into `left`, up to its place in `stops`.
    """
    used = 0
    for index in range(len(met)):
        side, line = sides[met[index]], ends[met[index] >> 1]
        if line[IS_ODD] == 0:
            used = _gather(
                data, starts, sizes, follows, side, rests, bounds, side[HAVE], 0, left, used
            ) if side[HAVE] else used  # fmt: skip
            side[NEXT] = side[END]
            if line[MARKS] & JUDGED:
                line[MARKS] |= APPEARED
            if side[FLAGS] & SYN:
                side[INITIAL] = side[BEGIN]
            if side[FLAGS] & FIN:
                line[MARKS] |= ENDED << (met[index] & 1)
            if side[FLAGS] & RST or line[MARKS] & (3 * ENDED) == 3 * ENDED:
                line[MARKS] |= OVER
        stops[index] = used
