"""Pairing of requests with their responses, for all connections of a chunk at once.

The rule is that of `capture.reading.pairing`. A broker answers the requests of a connection in
order. So a response belongs to the first open request with its correlation id, and the requests
before that one will get no response. A response without an open request waits for a later request
of which it acknowledges bytes.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kafkalite.capture.reading.pairing import MAX_WAITING_RESPONSES
from kafkalite.lab.columnar.arrays import Ints, true_indexes
from kafkalite.lab.columnar.kernels import inlined, kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.lab.columnar.arrays import Mask

_MAX_SKIPPED: Final = 64
"""Maximum number of skipped requests per response in the compiled loop; connections with more are
paired by `_pair_connection`."""
_OPEN, _UNANSWERED, _ORPHAN, _NOT_PAIRED, _WAITING = -1, -2, -3, -4, -5
"""Values of `matches`: an open request, an unanswered request, a response without a request, any
other row, and a response that waits for its request."""
_EMPTY, _REMAINING = -1, -2
"""Values of `queues`: there is no such row; the connection is paired by `_pair_connection`."""
_FIRST_OPEN, _LAST_OPEN, _FIRST_WAITING, _LAST_WAITING, _WAITING_COUNT = range(5)
"""Columns of `queues`: the first and the last open request of a connection, and its first and last
waiting response with their number."""
_SEQ_MASK: Final = 0xFFFFFFFF
_HALF_SEQ_RANGE: Final = 0x80000000


class PairedFrames(NamedTuple):
    """Rows of requests and of their responses, each in ascending order of the requests."""

    request: Ints
    response: Ints
    open: Ints
    """Requests that may still be answered."""
    unanswered: Ints
    """Requests that will not be answered, because a later one was."""
    orphans: Ints
    """Responses without a request."""
    waiting: Ints
    """Responses whose request may still follow."""


class Frames(NamedTuple):
    """The columns that pairing needs; the frames of a connection are sorted by time."""

    connection_index: Ints
    direction: Ints
    correlation_id: Ints
    request_seq: Ints
    """As in `FrameIndex`."""
    is_pairable: Mask
    """Whether a frame is a request that gets a response, or a response."""


def pair_frames(frames: Frames, connections: int) -> PairedFrames:
    """Pair the frames of a chunk; `connections` is the number of connections."""
    matches, next_rows = np.empty((2, len(frames.connection_index)), np.int64)
    queues = np.full((connections, _WAITING_COUNT + 1), _EMPTY, np.int64)
    if not pair_all(*frames, queues, next_rows, matches):
        for number in true_indexes(queues[:, _FIRST_OPEN] == _REMAINING).tolist():
            _pair_connection(
                frames,
                true_indexes((frames.connection_index == number) & frames.is_pairable),
                matches,
            )
    is_request = frames.direction == 0
    request = true_indexes(is_request & (matches >= 0))
    return PairedFrames(
        request,
        matches[request],
        *(true_indexes(matches == kind) for kind in (_OPEN, _UNANSWERED, _ORPHAN, _WAITING)),
    )


@inlined
def _acknowledges(acknowledged: int, seq: int) -> bool:
    """As `acknowledges`, in kernels."""
    is_known = acknowledged >= 0 and seq >= 0
    return is_known and 0 < (acknowledged - seq) & _SEQ_MASK < _HALF_SEQ_RANGE


@kernel
def _mark(first: int, until: int, kind: int, next_rows: Ints, matches: Ints) -> int:
    """Mark the rows from `first` to the one before `until`; return their number."""
    count = 0
    while first >= 0 and first != until:
        matches[first] = kind
        first, count = next_rows[first], count + 1
    return count


@kernel
def _take_response(  # noqa: PLR0917
    request: int,
    correlation_ids: Ints,
    request_seqs: Ints,
    queue: Ints,
    next_rows: Ints,
    matches: Ints,
) -> None:
    """Pair a request with its waiting response if there is one.

    The rows before them have no counterpart, and responses that acknowledge nothing of the request.
    """
    first, seq = queue[_FIRST_WAITING], request_seqs[request]
    current = first
    while seq >= 0 and current >= 0 and not _acknowledges(request_seqs[current], seq):
        current = next_rows[current]
    queue[_WAITING_COUNT] -= _mark(first, current, _ORPHAN, next_rows, matches)
    queue[_FIRST_WAITING] = first = current
    while current >= 0 and not (
        correlation_ids[current] == correlation_ids[request]
        and _acknowledges(request_seqs[current], seq)
    ):
        current = next_rows[current]
    if current >= 0:
        queue[_WAITING_COUNT] -= 1 + _mark(first, current, _ORPHAN, next_rows, matches)
        queue[_FIRST_WAITING] = next_rows[current]
        _mark(queue[_FIRST_OPEN], _EMPTY, _UNANSWERED, next_rows, matches)
        queue[_FIRST_OPEN] = _EMPTY
        matches[request], matches[current] = current, _NOT_PAIRED


@kernel
def _answer(request: int, response: int, queue: Ints, next_rows: Ints, matches: Ints) -> None:
    """Pair an open request with its response; the rows before them have no counterpart."""
    _mark(queue[_FIRST_WAITING], _EMPTY, _ORPHAN, next_rows, matches)
    queue[_FIRST_WAITING] = _EMPTY
    _mark(queue[_FIRST_OPEN], request, _UNANSWERED, next_rows, matches)
    matches[request] = response
    queue[_FIRST_OPEN] = next_rows[request]


@kernel
def _append(row: int, ends: Ints, next_rows: Ints) -> None:
    """Append a row to the rows from `ends[0]` to `ends[1]`."""
    if ends[0] < 0:
        ends[0] = row
    else:
        next_rows[ends[1]] = row
    ends[1] = row


@kernel
def _wait(row: int, queue: Ints, next_rows: Ints, matches: Ints) -> None:
    """Let a response wait for its request."""
    matches[row] = _WAITING
    if queue[_FIRST_WAITING] < 0:
        queue[_WAITING_COUNT] = 0
    _append(row, queue[_FIRST_WAITING : _LAST_WAITING + 1], next_rows)
    queue[_WAITING_COUNT] += 1
    if queue[_WAITING_COUNT] > MAX_WAITING_RESPONSES:
        oldest = queue[_FIRST_WAITING]
        matches[oldest], queue[_FIRST_WAITING] = _ORPHAN, next_rows[oldest]
        queue[_WAITING_COUNT] -= 1


@kernel
def pair_all(  # noqa: PLR0917
    connections: Ints,
    directions: Ints,
    correlation_ids: Ints,
    request_seqs: Ints,
    is_pairable: Mask,
    queues: Ints,
    next_rows: Ints,
    matches: Ints,
) -> bool:
    """Fill `matches` with the response of each request; return False if a connection remains.

    `next_rows` has the open request after each open request, and the waiting response after each
    waiting response.
    """
    all_done = True
    for row in range(len(connections)):
        matches[row] = _NOT_PAIRED
        queue = queues[connections[row]]
        first = queue[_FIRST_OPEN]
        if not is_pairable[row] or first == _REMAINING:
            continue
        next_rows[row] = _EMPTY
        if directions[row] == 0:
            matches[row] = _OPEN
            if queue[_FIRST_WAITING] >= 0:
                _take_response(row, correlation_ids, request_seqs, queue, next_rows, matches)
            if matches[row] == _OPEN:
                _append(row, queue[_FIRST_OPEN : _LAST_OPEN + 1], next_rows)
            continue
        candidate, skipped = first, 0
        while (
            candidate >= 0
            and correlation_ids[candidate] != correlation_ids[row]
            and skipped < _MAX_SKIPPED
        ):
            candidate, skipped = next_rows[candidate], skipped + 1
        if candidate < 0 and request_seqs[row] < 0:
            matches[row] = _ORPHAN
        elif candidate < 0:
            _wait(row, queue, next_rows, matches)
        elif correlation_ids[candidate] == correlation_ids[row]:
            _answer(candidate, row, queue, next_rows, matches)
        else:
            queue[_FIRST_OPEN], all_done = _REMAINING, False
    return all_done


def _pair_connection(frames: Frames, rows: Ints, matches: Ints) -> None:
    """Pair one connection with any number of open requests."""
    ids, seqs = frames.correlation_id, frames.request_seq
    open_rows: deque[int] = deque()
    open_counts: Counter[int] = Counter()
    waiting: deque[int] = deque()
    for row, is_response_row in zip(rows.tolist(), frames.direction[rows].tolist(), strict=True):
        correlation_id, seq = int(ids[row]), int(seqs[row])
        if not is_response_row:
            while seq >= 0 and waiting and not acknowledges(int(seqs[waiting[0]]), seq):
                matches[waiting.popleft()] = _ORPHAN
            response = _find(waiting, row, frames)
            if response is None:
                open_rows.append(row)
                open_counts[correlation_id] += 1
                matches[row] = _OPEN
                continue
            matches[_drop_until(waiting, response)] = _ORPHAN
            matches[list(open_rows)] = _UNANSWERED
            open_rows.clear()
            open_counts.clear()
            matches[row], matches[response] = response, _NOT_PAIRED
        elif not open_counts[correlation_id]:
            matches[row] = _ORPHAN if seq < 0 else _WAITING
            if seq >= 0:
                waiting.append(row)
            if len(waiting) > MAX_WAITING_RESPONSES:
                matches[waiting.popleft()] = _ORPHAN
        else:
            matches[list(waiting)] = _ORPHAN
            waiting.clear()
            request = next(each for each in open_rows if ids[each] == correlation_id)
            skipped = _drop_until(open_rows, request)
            open_counts.subtract(ids[[*skipped, request]].tolist())
            matches[skipped] = _UNANSWERED
            matches[request], matches[row] = row, _NOT_PAIRED


def _find(waiting: Iterable[int], request: int, frames: Frames) -> int | None:
    """Return the row of the waiting response to a request."""
    ids, seqs = frames.correlation_id, frames.request_seq
    for row in waiting:
        if ids[row] == ids[request] and acknowledges(int(seqs[row]), int(seqs[request])):
            return row
    return None


def acknowledges(acknowledged: int, seq: int) -> bool:
    """Whether a response that acknowledges a number was sent after the bytes at `seq` arrived.

    False if one of them is unknown.
    """
    is_known = acknowledged >= 0 and seq >= 0
    return is_known and 0 < (acknowledged - seq) & _SEQ_MASK < _HALF_SEQ_RANGE


def _drop_until(rows: deque[int], last: int) -> list[int]:
    """Remove the first rows including `last`; return those before it."""
    dropped = []
    while (row := rows.popleft()) != last:
        dropped.append(row)
    return dropped
