"""Names of the errors in encoded answers, for log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.ports.turns import NeedsWorkerError
from kafkalite.protocol import codec
from kafkalite.protocol.long_messages import bounded_variant
from kafkalite.traffic.scalar import summary
from kafkalite.traffic.scalar.messages import response_start, response_version
from kafkalite.wire.frames import LENGTH_BYTES

if TYPE_CHECKING:
    from kafkalite.wire.session import Pieces

_MAX_NAMES: Final = 3
_NO_ERROR: Final = "NONE"
_UNREADABLE: Final = "unreadable"
_NOT_SEARCHED: Final = "not searched in a long answer"
_MAX_SEARCHED_BYTES: Final = 32 * 1024
"""A longer answer is read only if its lists are short, because reading blocks all clients."""


def error_names(api_key: int, api_version: int, out: Pieces, size: int) -> str | None:
    """Return the names of the errors in an answer: the last `size` bytes of `out`.

    The text has Kafka's names of the distinct errors, at most three, and the number of further
    errors. It is "NONE" for an answer without errors. An answer with a long list is not read.
    Returns None if there is no answer. `api_version` is the version of the request.
    """
    if not size:
        return None
    frame = _last_bytes(out, size)[LENGTH_BYTES:]
    try:
        version = response_version(frame, api_key, api_version)
        start = response_start(frame, api_key, version)
        parse = codec.response_parser(api_key, version)
        response, _ = (bounded_variant(parse) if size > _MAX_SEARCHED_BYTES else parse)(
            frame, start, len(frame)
        )
    except NeedsWorkerError:
        return _NOT_SEARCHED
    except (KeyError, *codec.PARSE_ERRORS):
        return _UNREADABLE  # a stand-in may send a recorded answer that is malformed
    names = summary.errors(response)
    if not names:
        return _NO_ERROR
    more = f", +{len(names) - _MAX_NAMES}" if len(names) > _MAX_NAMES else ""
    return ", ".join(names[:_MAX_NAMES]) + more


def _last_bytes(out: Pieces, size: int) -> bytes:
    """Return the last `size` bytes of an output.

    They are found from the end, because answers to earlier requests may have been added first.
    """
    pieces: Pieces = []
    for piece in reversed(out):
        if size <= 0:
            break
        pieces.append(piece)
        size -= len(piece)
    return b"".join(reversed(pieces))
