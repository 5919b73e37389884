"""Pairing of requests with their responses, for all connections of a chunk at once.

A broker answers the requests of a connection in order. So a response belongs to the first open
request, if the correlation ids are equal. Otherwise it belongs to the first request with its id,
and the requests before that one will get no response.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kafkalite.traffic.columnar.arrays import Ints, true_indexes
from kafkalite.traffic.columnar.kernels import kernel

if TYPE_CHECKING:
    from kafkalite.traffic.columnar.arrays import Mask

_MAX_SKIPPED: Final = 64
"""Maximum number of skipped requests per response in the compiled loop; connections with more are
paired by `_pair_connection`."""
_OPEN, _UNANSWERED, _ORPHAN, _NOT_PAIRED = -1, -2, -3, -4
"""Values of `matches`: an open request, an unanswered request, a response without a request, and
any other row."""
_EMPTY, _REMAINING = -1, -2
"""Values of `queues`: the connection has no open request; it is paired by `_pair_connection`."""


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


class Frames(NamedTuple):
    """The columns that pairing needs; the frames of a connection are sorted by time."""

    connection_index: Ints
    direction: Ints
    correlation_id: Ints
    is_pairable: Mask
    """Whether a frame is a request that gets a response, or a response."""


def pair_frames(frames: Frames, connections: int) -> PairedFrames:
    """Pair the frames of a chunk; `connections` is the number of connections."""
    matches, next_open = np.empty((2, len(frames.connection_index)), np.int64)
    queues = np.full((connections, 2), _EMPTY, np.int64)
    if not pair_all(*frames, queues, next_open, matches):
        for number in true_indexes(queues[:, 0] == _REMAINING).tolist():
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
        true_indexes(is_request & (matches == _OPEN)),
        true_indexes(is_request & (matches == _UNANSWERED)),
        true_indexes(matches == _ORPHAN),
    )


@kernel
def pair_all(  # noqa: PLR0917
    connections: Ints,
    directions: Ints,
    correlation_ids: Ints,
    is_pairable: Mask,
    queues: Ints,
    next_open: Ints,
    matches: Ints,
) -> bool:
    """Fill `matches` with the response of each request; return False if a connection remains.

    `queues` has the first and the last open request of each connection. `next_open` has the open
    request after each open request.
    """
    all_done = True
    for row in range(len(connections)):
        matches[row] = _NOT_PAIRED
        queue = connections[row]
        first = queues[queue, 0]
        if not is_pairable[row] or first == _REMAINING:
            continue
        if directions[row] == 0:
            matches[row], next_open[row] = _OPEN, _EMPTY
            if first == _EMPTY:
                queues[queue, 0] = row
            else:
                next_open[queues[queue, 1]] = row
            queues[queue, 1] = row
            continue
        candidate, skipped = first, 0
        while (
            candidate >= 0
            and correlation_ids[candidate] != correlation_ids[row]
            and skipped < _MAX_SKIPPED
        ):
            candidate, skipped = next_open[candidate], skipped + 1
        if candidate < 0:
            matches[row] = _ORPHAN
        elif correlation_ids[candidate] == correlation_ids[row]:
            while first != candidate:
                matches[first] = _UNANSWERED
                first = next_open[first]
            matches[candidate] = row
            queues[queue, 0] = next_open[candidate]
        else:
            queues[queue, 0], all_done = _REMAINING, False
    return all_done


def _pair_connection(frames: Frames, rows: Ints, matches: Ints) -> None:
    """Pair one connection with any number of open requests."""
    open_rows: deque[int] = deque()
    open_counts: dict[int, int] = {}
    correlation_ids = frames.correlation_id[rows].tolist()
    response_flags = frames.direction[rows].tolist()
    for row, correlation_id, is_response_row in zip(
        rows.tolist(), correlation_ids, response_flags, strict=True
    ):
        if not is_response_row:
            open_rows.append(row)
            open_counts[correlation_id] = open_counts.get(correlation_id, 0) + 1
            matches[row] = _OPEN
            continue
        if not open_counts.get(correlation_id):
            matches[row] = _ORPHAN
            continue
        while True:
            first = open_rows.popleft()
            first_id = int(frames.correlation_id[first])
            open_counts[first_id] -= 1
            if first_id == correlation_id:
                matches[first], matches[row] = row, _NOT_PAIRED
                break
            matches[first] = _UNANSWERED
