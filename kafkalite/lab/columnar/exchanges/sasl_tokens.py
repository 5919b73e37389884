"""Bare SASL tokens: frames after SaslHandshake v0 that are neither requests nor responses."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from kafkalite.capture.reading.messages import is_request
from kafkalite.lab.columnar.arrays import true_indexes
from kafkalite.lab.columnar.exchanges.pairing import acknowledges
from kafkalite.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kafkalite.lab.columnar.arrays import Mask
    from kafkalite.lab.columnar.frames.table_rows import ParsedFrames

_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE)
_HANDSHAKE_VERSION: Final = 0
_ERROR_CODE: Final = slice(4, 6)
_TOKEN: Final = None


def exclude_tokens(parsed: ParsedFrames, is_pairable: Mask, authenticating: set[int]) -> None:
    """Exclude tokens, and the responses to them, from the frames to be paired.

    `authenticating` has the connections on which tokens may follow, and is updated.
    """
    headers, frames = parsed.headers, parsed.frames
    is_handshake = (
        (headers.api_key == _HANDSHAKE) & (headers.version == _HANDSHAKE_VERSION) & headers.is_valid
    )
    handshakes = true_indexes(is_handshake & (frames.direction == 0))
    for number in {*frames.connection_index[handshakes].tolist(), *authenticating}:
        _exclude_in_connection(parsed, number, is_pairable, authenticating)


def _exclude_in_connection(
    parsed: ParsedFrames, number: int, is_pairable: Mask, authenticating: set[int]
) -> None:
    """Process one connection frame by frame."""
    frames = parsed.frames
    rows = true_indexes(frames.connection_index == number)
    open_requests: deque[int | None] = deque()
    early_responses: deque[int] = deque()
    for row in rows.tolist():
        start = int(frames.start[row])
        if frames.direction[row] == 0:
            body = parsed.data[start : start + int(frames.size[row])].tobytes()
            if number in authenticating and not is_request(body):
                is_pairable[row] = parsed.is_message[row] = parsed.headers.expects_response[row] = (
                    False
                )
                if early_responses:
                    response = early_responses.popleft()
                    is_pairable[response] = parsed.is_message[response] = False
                else:
                    open_requests.append(_TOKEN)
                continue
            authenticating.discard(number)
            early = next((each for each in early_responses if _answers(parsed, each, row)), None)
            if early is not None:
                while early_responses.popleft() != early:
                    pass
                open_requests.clear()
                _note_handshake(parsed, number, row, early, authenticating)
            elif parsed.headers.expects_response[row]:
                open_requests.append(row)
        elif open_requests and open_requests[0] is _TOKEN:
            open_requests.popleft()
            is_pairable[row] = parsed.is_message[row] = False
        else:
            request = _take_answered_request(parsed, row, open_requests)
            if request is None:
                early_responses.append(row)
            else:
                early_responses.clear()
                _note_handshake(parsed, number, request, row, authenticating)


def _note_handshake(
    parsed: ParsedFrames, number: int, request: int, response: int, authenticating: set[int]
) -> None:
    """Update `authenticating` if the request is a handshake after which tokens follow."""
    api_and_version = (parsed.headers.api_key[request], parsed.headers.version[request])
    if api_and_version == (_HANDSHAKE, _HANDSHAKE_VERSION):
        start, size = int(parsed.frames.start[response]), int(parsed.frames.size[response])
        error = parsed.data[start : start + size][_ERROR_CODE].tobytes()
        (authenticating.add if error == b"\0\0" else authenticating.discard)(number)


def _answers(parsed: ParsedFrames, response: int, request: int) -> bool:
    """Whether a response that was captured before a request belongs to it."""
    ids, seqs = parsed.headers.correlation_id, parsed.frames.request_seq
    return bool(ids[response] == ids[request]) and acknowledges(
        int(seqs[response]), int(seqs[request])
    )


def _take_answered_request(
    parsed: ParsedFrames, response: int, open_requests: deque[int | None]
) -> int | None:
    """Remove the request of a response, and the requests before it; return the request or None."""
    correlation_id = int(parsed.headers.correlation_id[response])
    has_same_id = [
        each is not _TOKEN and int(parsed.headers.correlation_id[each]) == correlation_id
        for each in open_requests
    ]
    if True not in has_same_id or not parsed.headers.is_valid[response]:
        return None
    for _ in range(has_same_id.index(True)):
        open_requests.popleft()
    return open_requests.popleft()
