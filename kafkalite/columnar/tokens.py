"""SASL's bare tokens: frames behind a SaslHandshake v0 that are neither requests nor responses."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kafkalite.capture.messages import is_request
from kafkalite.columnar.arrays import where

if TYPE_CHECKING:
    from kafkalite.columnar.arrays import Mask
    from kafkalite.columnar.rows import Known

_HANDSHAKE, _BEFORE_TOKENS = 17, 0
_ERROR: Final = slice(4, 6)
_TOKEN: Final = None


def without_tokens(known: Known, takes_part: Mask, authenticating: set[int]) -> None:
    """Take tokens, and what answers them, out of the frames that are to be paired.

    `authenticating` are the connections on which tokens are to be expected; it is kept up to date.
    """
    heads, frames = known.heads, known.frames
    is_shake = (heads.api_key == _HANDSHAKE) & (heads.version == _BEFORE_TOKENS) & heads.is_right
    shakes = where(is_shake & (frames.direction == 0))
    for number in {*frames.line[shakes].tolist(), *authenticating}:
        _go_through(known, number, takes_part, authenticating)


def _go_through(known: Known, number: int, takes_part: Mask, authenticating: set[int]) -> None:
    """Follow one connection frame by frame."""
    frames = known.frames
    rows = where(frames.line == number)
    waiting: deque[int | None] = deque()
    for row in rows.tolist():
        start = int(frames.start[row])
        if frames.direction[row] == 0:
            body = known.data[start : start + int(frames.size[row])].tobytes()
            if number in authenticating and not is_request(body):
                waiting.append(_TOKEN)
                takes_part[row] = known.is_message[row] = known.heads.awaits[row] = False
                continue
            authenticating.discard(number)
            if known.heads.awaits[row]:
                waiting.append(row)
        elif waiting and waiting[0] is _TOKEN:
            waiting.popleft()
            takes_part[row] = known.is_message[row] = False
        else:
            asked = _answered(known, row, waiting)
            if asked is None:
                continue
            kind = (known.heads.api_key[asked], known.heads.version[asked])
            if kind == (_HANDSHAKE, _BEFORE_TOKENS):
                error = known.data[start : start + int(frames.size[row])][_ERROR].tobytes()
                (authenticating.add if error == b"\0\0" else authenticating.discard)(number)


def _answered(known: Known, response: int, waiting: deque[int | None]) -> int | None:
    """Return the request that a response answers; those before it get no answer any more."""
    wanted = int(known.heads.correlation_id[response])
    ids = [
        each is not _TOKEN and int(known.heads.correlation_id[each]) == wanted for each in waiting
    ]
    if True not in ids or not known.heads.is_right[response]:
        return None
    for _ in range(ids.index(True)):
        waiting.popleft()
    return waiting.popleft()
