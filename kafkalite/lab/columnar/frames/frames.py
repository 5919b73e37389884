"""Compiled loops that find frames in a chunk's segments, in file order.

`link_segments` marks connections with lost, repeated or reordered segments; these are processed
segment by segment. `find_frames` finds the frames of the others. `advance_connections` stores their
state for the next chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.reading.framing import LENGTH_BYTES, MAX_FRAME_BYTES
from kafkalite.capture.reading.reassembly import MAX_WAIT_NS
from kafkalite.lab.columnar.kernels import (
    inlined,
    interpreted_as,
    kernel,
    peek_u8,
    peek_u32,
)
from kafkalite.lab.columnar.segments.connection_state import (
    BEGIN_SEQ,
    BOTH_FINISHED,
    CLOSED,
    CONNECTION_LAST_CHUNK,
    END_SEQ,
    FINISHED,
    FIRST_ROW,
    FLAGS,
    FRAME_POSITION,
    FRAME_ROW,
    HAS_FRAMES,
    INITIAL_SEQ,
    IRREGULAR,
    IS_IRREGULAR,
    IS_RESET,
    LAST_CHUNK,
    LAST_ROW,
    LATEST_NS,
    LENGTH,
    MARKS,
    NEXT_SEQ,
    PARTIAL_INDEX,
    RECEIVED,
    RECOGNIZED,
    UNKNOWN,
)
from kafkalite.lab.columnar.segments.packets import ACK, FIN, RST, SYN

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Bytes, Ints

_SEQ_MASK: Final = 0xFFFFFFFF


@inlined
def _read_time_ns(direction: Ints, at_ns: int) -> int:
    """Return the time at which the receiver could read the bytes of a segment.

    It does not decrease from one segment to the next, unless the clock was set back.
    """
    if not 0 <= direction[LATEST_NS] - at_ns < MAX_WAIT_NS:
        direction[LATEST_NS] = at_ns
    latest: int = direction[LATEST_NS]
    return latest


@inlined
def _answers_nothing(opposite: Ints, flags: int, chunk: int) -> bool:
    """Whether a SYN answers one of the opposite direction that is not in the capture yet."""
    is_missing: bool = opposite[NEXT_SEQ] == UNKNOWN and opposite[LAST_CHUNK] != chunk
    return flags & ACK != 0 and is_missing


@kernel
def link_segments(  # noqa: PLR0917
    direction_ids: Ints,
    seqs: Ints,
    flags: Ints,
    sizes: Ints,
    missing_bytes: Ints,
    at_ns: Ints,
    chunk: int,
    directions: Ints,
    connections: Ints,
    next_rows: Ints,
    active: Ints,
) -> int:
    """Mark irregular connections, and link each segment to the next one of its direction.

    `active` receives the directions with segments; their number is returned. `at_ns` receives the
    times of reading. A segment before a SYN, or after a FIN or RST, makes a connection irregular.
    """
    count = 0
    for row in range(len(direction_ids)):
        direction_id, flag = direction_ids[row], flags[row]
        connection, direction = connections[direction_id >> 1], directions[direction_id]
        next_rows[row] = UNKNOWN
        if sizes[row] > 0:
            at_ns[row] = _read_time_ns(direction, at_ns[row])
        is_opening, is_closing = flag & SYN != 0, flag & (FIN | RST) != 0
        is_irregular = missing_bytes[row] != 0 or (is_opening and is_closing)
        is_irregular |= is_opening and _answers_nothing(directions[direction_id ^ 1], flag, chunk)
        if direction[LAST_CHUNK] != chunk:
            direction[LAST_CHUNK], direction[BEGIN_SEQ] = chunk, seqs[row]
            direction[FIRST_ROW], direction[FLAGS] = row, 0
            direction[RECEIVED], direction[PARTIAL_INDEX] = 0, UNKNOWN
            active[count] = direction_id
            count += 1
            is_irregular |= direction[NEXT_SEQ] != (UNKNOWN if is_opening else seqs[row])
        else:
            next_rows[direction[LAST_ROW]] = row
            is_closed = direction[FLAGS] & (FIN | RST) != 0
            is_irregular |= is_opening or is_closed or seqs[row] != direction[END_SEQ]
        if connection[CONNECTION_LAST_CHUNK] != chunk:
            connection[CONNECTION_LAST_CHUNK], connection[IS_RESET] = chunk, 0
            connection[IS_IRREGULAR] = connection[MARKS] & (IRREGULAR | CLOSED)
        # No data follows a reset, in either direction.
        is_irregular |= connection[IS_RESET] != 0
        connection[IS_IRREGULAR] |= is_irregular
        connection[IS_RESET] |= flag & RST
        direction[LAST_ROW], direction[FLAGS] = row, direction[FLAGS] | flag
        length = sizes[row] + missing_bytes[row] + is_opening + (flag & FIN != 0)
        direction[END_SEQ] = (seqs[row] + length) & _SEQ_MASK
    return count


@kernel
def _copy(  # noqa: PLR0917
    data: Bytes, start: int, size: int, skip: int, out: Bytes, out_end: int
) -> tuple[int, int]:
    """Append bytes to `out` except the first `skip`.

    Returns the end in `out`, and the number of bytes that remain to be skipped.
    """
    skipped = min(skip, size)
    for position in range(skipped, size):
        out[np.uint64(out_end + position - skipped)] = data[np.uint64(start + position)]
    return out_end + size - skipped, skip - skipped


@interpreted_as(_copy)
def _copy_slice(  # noqa: PLR0917
    data: Bytes, start: int, size: int, skip: int, out: Bytes, out_end: int
) -> tuple[int, int]:
    skipped = min(skip, size)
    end = out_end + size - skipped
    out[out_end:end] = data[start + skipped : start + size]
    return end, skip - skipped


@kernel
def _copy_frame(  # noqa: PLR0917
    data: Bytes,
    starts: Ints,
    sizes: Ints,
    next_rows: Ints,
    direction: Ints,
    partial: Bytes,
    bounds: Ints,
    size: int,
    skip: int,
    out: Bytes,
    out_end: int,
) -> int:
    """Append `size` bytes of a direction's current frame to `out`, except the first `skip`.

    The bytes of earlier chunks come from `partial`. Returns the end in `out`.
    """
    row, position = direction[FRAME_ROW], direction[FRAME_POSITION]
    if direction[PARTIAL_INDEX] >= 0:
        start, end = bounds[direction[PARTIAL_INDEX]], bounds[direction[PARTIAL_INDEX] + 1]
        out_end, skip = _copy(partial, start, end - start, skip, out, out_end)
        size -= end - start
        row, position = direction[FIRST_ROW], starts[direction[FIRST_ROW]]
    while size > 0 and row >= 0:
        part = min(size, starts[row] + sizes[row] - position)
        out_end, skip = _copy(data, position, part, skip, out, out_end)
        size -= part
        row = next_rows[row]
        position = starts[row] if row >= 0 else 0
    return out_end


@kernel
def _continue_frame(data: Bytes, direction: Ints, at: int, end: int) -> int:
    """Continue a direction's partial frame; return the position after its bytes."""
    while direction[RECEIVED] < LENGTH_BYTES and at < end:
        direction[LENGTH] = direction[LENGTH] << 8 | peek_u8(data, at)
        direction[RECEIVED] += 1
        at += 1
    if direction[RECEIVED] >= LENGTH_BYTES and direction[LENGTH] <= MAX_FRAME_BYTES:
        part = min(LENGTH_BYTES + direction[LENGTH] - direction[RECEIVED], end - at)
        direction[RECEIVED] += part
        at += part
    return at


@kernel
def find_frames(  # noqa: PLR0917
    data: Bytes,
    direction_ids: Ints,
    starts: Ints,
    sizes: Ints,
    next_rows: Ints,
    directions: Ints,
    connections: Ints,
    partial: Bytes,
    bounds: Ints,
    columns: Ints,
    assembled: Bytes,
) -> tuple[int, int]:
    """Find the frames of regular connections; return the number of frames and of assembled bytes.

    `columns` receives one column per frame: connection, direction, start and size of the body,
    first and last segment. The first segment is UNKNOWN if the frame began in an earlier chunk. A
    body in several segments is copied to `assembled`; its start is then `len(data)` plus its
    position in `assembled`. `partial` has the partial frames of earlier chunks, split at `bounds`.
    """
    count = used = 0
    for row in range(len(direction_ids)):
        connection, direction = connections[direction_ids[row] >> 1], directions[direction_ids[row]]
        at, end = starts[row], starts[row] + sizes[row]
        while at < end and connection[IS_IRREGULAR] == 0:
            body, first_row = at + LENGTH_BYTES, row
            if direction[RECEIVED] == 0 and body <= end and peek_u32(data, at) <= end - body:
                direction[LENGTH] = peek_u32(data, at)
                at = body + direction[LENGTH]
            else:
                if direction[RECEIVED] == 0:
                    direction[FRAME_ROW], direction[FRAME_POSITION] = row, at
                    direction[LENGTH] = 0
                at = _continue_frame(data, direction, at, end)
                if direction[RECEIVED] >= LENGTH_BYTES and direction[LENGTH] > MAX_FRAME_BYTES:
                    connection[IS_IRREGULAR] = 1
                if direction[RECEIVED] != LENGTH_BYTES + direction[LENGTH]:
                    continue
                body = len(data) + used
                first_row = UNKNOWN if direction[PARTIAL_INDEX] >= 0 else direction[FRAME_ROW]
                used = _copy_frame(
                    data, starts, sizes, next_rows, direction, partial, bounds,
                    direction[RECEIVED], LENGTH_BYTES, assembled, used,
                )  # fmt: skip
                direction[RECEIVED], direction[PARTIAL_INDEX] = 0, UNKNOWN
            columns[0, count], columns[1, count] = direction_ids[row] >> 1, direction_ids[row] & 1
            columns[2, count], columns[3, count] = body, direction[LENGTH]
            columns[4, count], columns[5, count] = first_row, row
            count += 1
    return count, used


@kernel
def advance_connections(  # noqa: PLR0917
    data: Bytes,
    starts: Ints,
    sizes: Ints,
    next_rows: Ints,
    active: Ints,
    directions: Ints,
    connections: Ints,
    partial: Bytes,
    bounds: Ints,
    out: Bytes,
    stops: Ints,
) -> None:
    """Advance the regular directions in `active`.

    The partial frame of each direction is appended to `out`; `stops` receives its end in `out`.
    """
    used = 0
    for index in range(len(active)):
        direction, connection = directions[active[index]], connections[active[index] >> 1]
        if connection[IS_IRREGULAR] == 0:
            used = _copy_frame(
                data, starts, sizes, next_rows, direction, partial, bounds,
                direction[RECEIVED], 0, out, used,
            ) if direction[RECEIVED] else used  # fmt: skip
            direction[NEXT_SEQ] = direction[END_SEQ]
            if connection[MARKS] & RECOGNIZED:
                connection[MARKS] |= HAS_FRAMES
            if direction[FLAGS] & SYN:
                direction[INITIAL_SEQ] = direction[BEGIN_SEQ]
            if direction[FLAGS] & FIN:
                connection[MARKS] |= FINISHED << (active[index] & 1)
            if direction[FLAGS] & RST or connection[MARKS] & BOTH_FINISHED == BOTH_FINISHED:
                connection[MARKS] |= CLOSED
        stops[index] = used
