"""Requests and their responses, for all connections of a chunk at once.

A broker answers the requests of a connection in their order. So a response belongs to the first
request that waits for one, if the correlation ids agree; where they do not, to the first one that
has its id, and those before get none any more.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kafkalite.columnar.arrays import Ints, where
from kafkalite.columnar.compiled import kernel

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Mask

_PATIENCE: Final = 64
"""Of a connection with more requests than this in front of the one that is answered, or of more
responses to nothing while these wait, ids are counted instead."""
_OPEN, _NEVER, _ORPHAN, _OTHER = -1, -2, -3, -4


class Paired(NamedTuple):
    """Rows of requests and of their responses, each in ascending order of requests."""

    request: Ints
    response: Ints
    open: Ints
    """Requests that are still to be answered."""
    never: Ints
    """Requests that were passed over by the answer to a later one."""
    orphans: Ints
    """Responses to nothing."""


class Frames(NamedTuple):
    """What pairing must know of frames; those of a connection are in the order of time."""

    line: Ints
    direction: Ints
    correlation_id: Ints
    takes_part: Mask
    """Requests that get an answer, and responses that may be one."""


def paired(frames: Frames, lines: int) -> Paired:
    """Pair the frames of a chunk; `lines` is how many connections there are."""
    fates, behind = np.empty((2, len(frames.line)), np.int64)
    queues = np.full((lines, 2), _OPEN, np.int64)
    if not pair_all(*frames, queues, behind, fates):
        for number in where(queues[:, 0] == _OTHER).tolist():
            _by_turns(frames, where((frames.line == number) & frames.takes_part), fates)
    asks = frames.direction == 0
    request = where(asks & (fates >= 0))
    return Paired(
        request,
        fates[request],
        where(asks & (fates == _OPEN)),
        where(asks & (fates == _NEVER)),
        where(fates == _ORPHAN),
    )


@kernel
def pair_all(  # noqa: PLR0917
    lines: Ints,
    directions: Ints,
    ids: Ints,
    takes_part: Mask,
    queues: Ints,
    behind: Ints,
    fates: Ints,
) -> bool:
    """Fill `fates`: of requests, their responses; return whether that could be done for all.

    `queues` has the first and the last request of a connection that wait, or says that it could
    not be done; `behind`, the next one behind each.
    """
    all_done = True
    for row in range(len(lines)):
        fates[row] = _OTHER
        queue = lines[row]
        first = queues[queue, 0]
        if not takes_part[row] or first == _OTHER:
            continue
        if directions[row] == 0:
            fates[row] = behind[row] = _OPEN
            if first == _OPEN:
                queues[queue, 0] = row
            else:
                behind[queues[queue, 1]] = row
            queues[queue, 1] = row
            continue
        asked, passed = first, 0
        while asked >= 0 and ids[asked] != ids[row] and passed < _PATIENCE:
            asked, passed = behind[asked], passed + 1
        if asked < 0:
            fates[row] = _ORPHAN
        elif ids[asked] == ids[row]:
            while first != asked:
                fates[first] = _NEVER
                first = behind[first]
            fates[asked] = row
            queues[queue, 0] = behind[asked]
        else:
            queues[queue, 0], all_done = _OTHER, False
    return all_done


def _by_turns(frames: Frames, rows: Ints, fates: Ints) -> None:
    """Pair one connection, however many requests wait."""
    waiting: deque[int] = deque()
    ids: dict[int, int] = {}
    correlation = frames.correlation_id[rows].tolist()
    is_response = frames.direction[rows].tolist()
    for row, correlation_id, answers in zip(rows.tolist(), correlation, is_response, strict=True):
        if not answers:
            waiting.append(row)
            ids[correlation_id] = ids.get(correlation_id, 0) + 1
            fates[row] = _OPEN
            continue
        if not ids.get(correlation_id):
            fates[row] = _ORPHAN
            continue
        while True:
            first = waiting.popleft()
            this = int(frames.correlation_id[first])
            ids[this] -= 1
            if this == correlation_id:
                fates[first], fates[row] = row, _OTHER
                break
            fates[first] = _NEVER
