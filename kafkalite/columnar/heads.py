"""What stands before the bodies of requests and responses, read for many frames at once.

Where a header makes no sense its frame is told as such; nothing of it is to be believed then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.messages import is_known
from kafkalite.columnar.arrays import Windows, i16be, i32be, u8, where
from kafkalite.protocol import codec
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.wire.headers import HEADER_BYTES, skip_tagged_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.columnar.arrays import Bytes, Ints, Mask

CORRELATION_BYTES: Final = 4
_VERSIONS: Final = 64
_KEYS: Final = max(codec.api_keys()) + 1
_PRODUCE: Final = 0
_ONE_BYTE: Final = 0x80
_ABSENT, _PLAIN, _COMPACT = 0, 1, 2
_TRANSACTIONAL_ID: Final = np.array([_ABSENT] * 3 + [_PLAIN] * 6 + [_COMPACT] * (_VERSIONS - 9))
"""How a Produce request of each version has its transactional id, behind which its acks stand."""


def _table(ask: Callable[[int, int], object], *, unknown: bool) -> Mask:
    """Return what holds for each API and version; the last row and column stand for all beyond."""
    keys = codec.api_keys()
    return np.array(
        [
            [bool(ask(key, version)) if key in keys else unknown for version in range(_VERSIONS)]
            for key in range(_KEYS + 1)
        ]
    )


# APIs that are yet to come are flexible, as all new ones have been for years.
_HAS_TAGS: Final = _table(codec.is_flexible, unknown=True)
_ANSWER_HAS_TAGS: Final = _table(codec.response_header_version, unknown=True)
_IS_KNOWN: Final = _table(is_known, unknown=False)


def _look_up(table: Mask, api_key: Ints, version: Ints) -> Mask:
    found: Mask = table[
        np.where(api_key < 0, _KEYS, np.minimum(api_key, _KEYS)),
        np.where(version < 0, _VERSIONS - 1, np.minimum(version, _VERSIONS - 1)),
    ]
    return found


def is_known_version(api_key: Ints, version: Ints) -> Mask:
    """Return for which APIs and versions there are codecs."""
    return _look_up(_IS_KNOWN, api_key, version)


@dataclass(frozen=True, slots=True)
class RequestHeads:
    """One row a request."""

    api_key: Ints
    version: Ints
    correlation_id: Ints
    client_start: Ints
    client_size: Ints
    """Negative for null."""
    body: Ints
    """Where the body begins, counted from the frame's start."""
    is_right: Mask


def request_heads(data: Bytes, start: Ints, size: Ints) -> RequestHeads:
    """Read the headers of requests; of one too short for a header, all is zero."""
    is_right = size >= HEADER_BYTES
    at = start if is_right.all() else np.where(is_right, start, 0)
    if len(data) < HEADER_BYTES:
        zeros = np.zeros(len(start), np.int64)
        return RequestHeads(
            zeros, zeros, zeros, zeros, zeros - 1, zeros, np.zeros(len(start), np.bool_)
        )
    window = Windows(data, at, HEADER_BYTES)
    api_key, version = window.read(">i2", 0), window.read(">i2", 2)
    correlation_id, client = window.read(">i4", 4), window.read(">i2", 8)
    body = HEADER_BYTES + np.maximum(client, 0)
    is_right = is_right & (body <= size) & (api_key >= 0)
    rows = where(is_right & _look_up(_HAS_TAGS, api_key, version))
    body, is_right = _past_tags(data, start, size, body, is_right, rows=rows)
    return RequestHeads(
        api_key, version, correlation_id, start + HEADER_BYTES, client, body, is_right
    )


def _past_tags(
    data: Bytes, start: Ints, size: Ints, body: Ints, is_right: Mask, *, rows: Ints
) -> tuple[Ints, Mask]:
    """Move bodies behind the tagged fields of their headers; there are nearly never any."""
    cut = rows[body[rows] >= size[rows]]
    is_right[cut] = False
    rows = rows[body[rows] < size[rows]]
    some = rows[u8(data, start[rows] + body[rows]) != 0]
    body[rows] += 1
    for row in some.tolist():
        frame = bytearray(data[start[row] : start[row] + size[row]])
        try:
            body[row] = skip_tagged_fields(frame, int(body[row]) - 1, len(frame))
        except ProtocolViolation:
            is_right[row] = False
    return body, is_right


def response_bodies(data: Bytes, start: Ints, size: Ints, api_key: Ints, version: Ints) -> Ints:
    """Return where the bodies of responses begin, counted from the frame; else its end."""
    body = np.full(len(start), CORRELATION_BYTES, np.int64)
    tagged = _look_up(_ANSWER_HAS_TAGS, api_key, version)
    is_right = size >= CORRELATION_BYTES
    body, is_right = _past_tags(data, start, size, body, is_right, rows=where(tagged & is_right))
    return np.where(is_right, body, size)


def correlation_ids(data: Bytes, start: Ints, size: Ints) -> Ints:
    """Return the correlation ids of responses; -1 where there is none."""
    if len(data) < CORRELATION_BYTES:
        return np.full(len(start), -1, np.int64)
    is_right = size >= CORRELATION_BYTES
    if is_right.all():
        return i32be(data, start)
    return np.where(is_right, i32be(data, np.where(is_right, start, 0)), -1)


def awaits_answer(data: Bytes, start: Ints, size: Ints, heads: RequestHeads) -> Mask:
    """Return which requests a broker answers: all but those of Produce with acks=0."""
    awaits = np.ones(len(start), np.bool_)
    rows = where(
        (heads.api_key == _PRODUCE)
        & heads.is_right
        & (heads.version >= 0)
        & (heads.version < _VERSIONS)
    )
    if not len(rows):
        return awaits
    at, end = start[rows] + heads.body[rows], start[rows] + size[rows]
    layout = _TRANSACTIONAL_ID[heads.version[rows]]
    whole = at + 2 <= end
    rows, at, end, layout = rows[whole], at[whole], end[whole], layout[whole]
    plain, compact = layout == _PLAIN, layout == _COMPACT
    low = u8(data, at)
    high = np.where(low >= _ONE_BYTE, u8(data, at + 1), 0)
    length = np.where(low >= _ONE_BYTE, (low & 0x7F) | high << 7, low)
    # A transactional id so long that its length takes three bytes is no id of anybody.
    long = compact & (high >= _ONE_BYTE)
    at = at + np.where(plain, 2 + np.maximum(i16be(data, at), 0), 0)
    at += np.where(compact, np.maximum(length - 1, 0) + np.where(low >= _ONE_BYTE, 2, 1), 0)
    whole = (at + 2 <= end) & ~long
    awaits[rows[whole]] = i16be(data, at[whole]) != 0
    return awaits
