"""Pairing of requests with their responses, for all connections of a chunk at once.

The rule is that of `capture.reading.pairing`. A broker answers the requests of a connection in
order. So a response belongs to the first open request with its correlation id, and the requests
before that one will get no response. A response without an open request waits for a later request
of which it acknowledges bytes.

A compiled loop pairs nearly all chunks. If open requests or waiting responses may exceed a limit,
`_RowPairing` pairs the chunk again.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.reading import pairing
from kafkalite.capture.reading.pairing import MAX_WAITING_RESPONSES, PENDING_ROW_BYTES
from kafkalite.lab.columnar.arrays import Ints, true_indexes
from kafkalite.lab.columnar.kernels import inlined, kernel
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.lab.columnar.arrays import Mask

_MAX_SKIPPED: Final = 64
"""Maximum number of skipped requests per response in the compiled loop; connections with more are
paired by `_RowPairing`."""
_OPEN, _UNANSWERED, _ORPHAN, _NOT_PAIRED, _WAITING, _DROPPED = -1, -2, -3, -4, -5, -6
"""Values of `matches`: an open request, an unanswered request, a response without a request, any
other row, a response that waits for its request, and an open request above a limit."""
_EMPTY, _REMAINING = -1, -2
"""Values of `queues`: there is no such row; the connection is paired by `_RowPairing`."""
_FIRST_OPEN, _LAST_OPEN, _FIRST_WAITING, _LAST_WAITING, _WAITING_COUNT = range(5)
"""Columns of `queues`: the first and the last open request of a connection, and its first and last
waiting response with their number."""
_KERNEL_COLUMNS: Final = 5
"""Number of columns of `Frames` that the compiled loop needs."""
_SEQ_MASK: Final = 0xFFFFFFFF
_HALF_SEQ_RANGE: Final = 0x80000000


class PairedFrames(NamedTuple):
    """Rows of requests and of their responses, each in ascending order of the requests."""

    request: Ints
    response: Ints
    open: Ints
    """Requests that may still be answered."""
    unanswered: Ints
    """Requests that count as unanswered, because a later one was answered or because of a limit."""
    dropped: Ints
    """The unanswered requests that were dropped because of a limit."""
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
    size: Ints | None = None
    """Sizes of the frames; None for no limits of bytes."""


def pair_frames(frames: Frames, connections: int) -> PairedFrames:
    """Pair the frames of a chunk; `connections` is the number of connections."""
    matches, next_rows = np.empty((2, len(frames.connection_index)), np.int64)
    queues = np.full((connections, _WAITING_COUNT + 1), _EMPTY, np.int64)
    if not pair_all(*frames[:_KERNEL_COLUMNS], queues, next_rows, matches):
        remaining = true_indexes(queues[:, _FIRST_OPEN] == _REMAINING)
        is_remaining = np.isin(frames.connection_index, remaining) & frames.is_pairable
        _RowPairing(frames, matches).pair(true_indexes(is_remaining), is_limited=False)
    if frames.size is not None and _may_exceed_limits(frames, matches):
        _RowPairing(frames, matches).pair(true_indexes(frames.is_pairable), is_limited=True)
    is_request = frames.direction == 0
    request = true_indexes(is_request & (matches >= 0))
    return PairedFrames(
        request,
        matches[request],
        true_indexes(matches == _OPEN),
        true_indexes((matches == _UNANSWERED) | (matches == _DROPPED)),
        *(true_indexes(matches == kind) for kind in (_DROPPED, _ORPHAN, _WAITING)),
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


def _may_exceed_limits(frames: Frames, matches: Ints) -> bool:
    """Whether frames without a counterpart exceed a limit at some time; False if impossible.

    Those that never get one count until the end, so the answer may be wrong for them.
    """
    assert frames.size is not None
    if _may_exceed(_waiting_bytes(frames, matches), pairing.MAX_WAITING_RESPONSE_BYTES):
        return True
    requests = true_indexes((frames.direction == 0) & frames.is_pairable)
    sizes = frames.size[requests] + PENDING_ROW_BYTES
    if len(requests) > pairing.MAX_PENDING_REQUESTS:
        counts = np.bincount(frames.connection_index[requests])
        if int(counts.max()) > pairing.MAX_PENDING_REQUESTS:
            return True
    if int(sizes.sum()) <= pairing.MAX_PENDING_REQUEST_BYTES:
        return False
    changes = np.zeros(len(matches), np.int64)
    changes[requests] = sizes
    responses = matches[requests]
    is_answered = responses >= 0
    np.subtract.at(changes, np.maximum(responses, requests)[is_answered], sizes[is_answered])
    return _may_exceed(changes, pairing.MAX_PENDING_REQUEST_BYTES)


def _waiting_bytes(frames: Frames, matches: Ints) -> Ints:
    """Return how each row changes the bytes of waiting responses."""
    assert frames.size is not None
    changes = np.zeros(len(matches), np.int64)
    has_waited = ((matches == _WAITING) | (matches == _ORPHAN)) & (frames.request_seq >= 0)
    requests = true_indexes((frames.direction == 0) & (matches >= 0))
    requests = requests[matches[requests] < requests]
    has_waited[matches[requests]] = True
    waiting = true_indexes(has_waited)
    changes[waiting] = frames.size[waiting] + PENDING_ROW_BYTES
    changes[requests] -= frames.size[matches[requests]] + PENDING_ROW_BYTES
    return changes


def _may_exceed(changes: Ints, limit: int) -> bool:
    return int(np.cumsum(changes).max(initial=0)) > limit


class _Connection:
    """The frames of a connection that have no counterpart yet."""

    __slots__ = ("open_counts", "open_rows", "waiting")

    def __init__(self) -> None:
        self.open_rows: deque[int] = deque()
        self.open_counts: Counter[int] = Counter()
        """Number of open requests with a correlation id."""
        self.waiting: deque[int] = deque()


class _RowPairing:
    """Pairs frames one by one, with any number of open requests."""

    def __init__(self, frames: Frames, matches: Ints) -> None:
        self._frames = frames
        self._matches = matches
        self._connections: defaultdict[int, _Connection] = defaultdict(_Connection)
        self._order: deque[int] = deque()
        """Requests of all connections that may be open, oldest first."""
        self._open_bytes = 0
        self._waiting_order: deque[int] = deque()
        """Responses of all connections that may be waiting, oldest first."""
        self._waiting_bytes = 0

    def pair(self, rows: Ints, *, is_limited: bool) -> None:
        """Pair the frames of some connections; `is_limited` limits those without a counterpart."""
        columns = (rows, self._frames.connection_index[rows], self._frames.direction[rows])
        for row, number, direction in zip(*(each.tolist() for each in columns), strict=True):
            connection = self._connections[number]
            if direction:
                if self._add_response(connection, row) and is_limited:
                    self._limit_waiting(row)
            elif self._add_request(connection, row) and is_limited:
                self._limit_open(connection, row)

    def _add_request(self, connection: _Connection, row: int) -> bool:
        """Pair a request with a waiting response; return whether it is open because of none."""
        matches, seqs, waiting = self._matches, self._frames.request_seq, connection.waiting
        seq = int(seqs[row])
        while seq >= 0 and waiting and not acknowledges(int(seqs[waiting[0]]), seq):
            self._end_waiting(connection, 1)
        response = _find(waiting, row, self._frames)
        if response is None:
            connection.open_rows.append(row)
            connection.open_counts[int(self._frames.correlation_id[row])] += 1
            matches[row] = _OPEN
            return True
        self._end_waiting(connection, 1 + waiting.index(response))
        self._end(connection, len(connection.open_rows), _UNANSWERED)
        matches[row], matches[response] = response, _NOT_PAIRED
        return False

    def _add_response(self, connection: _Connection, row: int) -> bool:
        """Pair a response with an open request; return whether it waits because of none."""
        matches, ids, waiting = self._matches, self._frames.correlation_id, connection.waiting
        if not connection.open_counts[int(ids[row])]:
            seq = int(self._frames.request_seq[row])
            matches[row] = _ORPHAN if seq < 0 else _WAITING
            if seq >= 0:
                waiting.append(row)
                self._waiting_bytes += self._size(row)
            if len(waiting) > MAX_WAITING_RESPONSES:
                self._end_waiting(connection, 1)
            return seq >= 0
        self._end_waiting(connection, len(waiting))
        index = next(
            index for index, each in enumerate(connection.open_rows) if ids[each] == ids[row]
        )
        self._end(connection, index, _UNANSWERED)
        self._end(connection, 1, row)
        matches[row] = _NOT_PAIRED
        return False

    def _limit_open(self, connection: _Connection, newest: int) -> None:
        """Drop the requests above the limits, as `capture.reading.pairing`."""
        self._order.append(newest)
        newest_bytes = self._size(newest)
        self._open_bytes += newest_bytes
        while len(connection.open_rows) > pairing.MAX_PENDING_REQUESTS:
            self._end(connection, 1, _DROPPED)
        while self._open_bytes - newest_bytes > pairing.MAX_PENDING_REQUEST_BYTES:
            oldest = self._order.popleft()
            if self._matches[oldest] == _OPEN:
                owner = self._connections[int(self._frames.connection_index[oldest])]
                self._end(owner, 1, _DROPPED)

    def _limit_waiting(self, newest: int) -> None:
        """Drop the oldest waiting responses above the limit, as `capture.reading.pairing`."""
        self._waiting_order.append(newest)
        newest_bytes = self._size(newest)
        while self._waiting_bytes - newest_bytes > pairing.MAX_WAITING_RESPONSE_BYTES:
            oldest = self._waiting_order.popleft()
            if self._matches[oldest] == _WAITING:
                owner = self._connections[int(self._frames.connection_index[oldest])]
                self._end_waiting(owner, 1)

    def _end_waiting(self, connection: _Connection, count: int) -> None:
        """Give the oldest waiting responses of a connection no request."""
        for _ in range(count):
            row = connection.waiting.popleft()
            self._matches[row] = _ORPHAN
            self._waiting_bytes -= self._size(row)

    def _end(self, connection: _Connection, count: int, match: int) -> None:
        """Give the oldest open requests of a connection this value of `matches`."""
        for _ in range(count):
            row = connection.open_rows.popleft()
            connection.open_counts[int(self._frames.correlation_id[row])] -= 1
            self._matches[row] = match
            self._open_bytes -= self._size(row)

    def _size(self, row: int) -> int:
        sizes = self._frames.size
        return 0 if sizes is None else int(sizes[row]) + PENDING_ROW_BYTES


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
