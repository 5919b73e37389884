"""Headers of requests and responses, parsed for all frames of a chunk.

A frame with an invalid header is marked; its other columns are meaningless.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.traffic.columnar.arrays import where
from kafkalite.traffic.columnar.kernels import kernel, peek_i16, peek_i32, peek_u8
from kafkalite.traffic.scalar.messages import is_known
from kafkalite.wire.headers import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.traffic.columnar.arrays import Bytes, Ints, Mask
    from kafkalite.traffic.columnar.frame_index import FrameIndex

CORRELATION_BYTES: Final = 4
_VERSIONS: Final = 64
_KEYS: Final = max(codec.api_keys()) + 1
_PRODUCE: Final = int(ApiKey.PRODUCE)
_ONE_BYTE, _LAST_SHIFT = 0x80, 28
_ABSENT, _PLAIN, _COMPACT = 0, 1, 2
_TRANSACTIONAL_ID: Final = tuple([_ABSENT] * 3 + [_PLAIN] * 6 + [_COMPACT] * (_VERSIONS - 9))
"""By Produce version: encoding of the transactional id, which is before the acks."""

_TAGGED, _RESPONSE_TAGGED, _HAS_CODEC = 1, 2, 4
_INVALID: Final = -1


def _traits() -> Ints:
    """Return flags by API and version; the last row and column apply to all unknown ones.

    Unknown APIs are treated as flexible, because all new APIs are.
    """
    keys = codec.api_keys()
    flags: list[tuple[int, Callable[[int, int], object], bool]] = [
        (_TAGGED, codec.is_flexible, True),
        (_RESPONSE_TAGGED, codec.response_header_version, True),
        (_HAS_CODEC, is_known, False),
    ]
    table = np.zeros((_KEYS + 1, _VERSIONS), np.int64)
    for key in range(_KEYS + 1):
        for version in range(_VERSIONS):
            for trait, get, unknown in flags:
                if get(key, version) if key in keys else unknown:
                    table[key, version] |= trait
    return table


_TRAITS: Final = _traits()


@dataclass(frozen=True, slots=True)
class FrameHeaders:
    """One row per frame. Of a response, only the correlation id and the validity are known."""

    api_key: Ints
    version: Ints
    correlation_id: Ints
    """-1 if there is none."""
    client_start: Ints
    client_size: Ints
    """Negative for null."""
    body: Ints
    """Offset of the body in the frame."""
    is_valid: Mask
    expects_response: Mask
    """Whether a frame is a request that gets a response; False for Produce with acks=0."""
    has_codec: Mask
    """Whether a request's API and version are known."""


def read(data: Bytes, frames: FrameIndex) -> FrameHeaders:
    """Parse the headers of frames."""
    numbers = np.empty((6, len(frames)), np.int64)
    verdicts = np.empty((4, len(frames)), np.bool_)
    read_frames(data, frames.direction, frames.start, frames.size, _TRAITS, numbers, verdicts)
    headers = FrameHeaders(*numbers, *verdicts[:3])
    # A request with a client id that is not UTF-8 is invalid.
    for row in where(verdicts[3]).tolist():
        start = int(headers.client_start[row])
        if not _is_text(data[start : start + int(headers.client_size[row])].tobytes()):
            headers.is_valid[row] = headers.expects_response[row] = False
    return headers


def response_bodies(  # noqa: PLR0917
    data: Bytes, starts: Ints, sizes: Ints, api_key: Ints, version: Ints, bodies: Ints
) -> None:
    """Find the offsets of response bodies in their frames; the frame's size if there is none."""
    read_bodies(data, starts, sizes, api_key, version, _TRAITS, bodies)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@kernel
def _look_up(traits: Ints, api_key: int, version: int) -> int:
    row = api_key if 0 <= api_key < len(traits) else len(traits) - 1
    column = version if 0 <= version < _VERSIONS else _VERSIONS - 1
    known: int = traits[row, column]
    return known


@kernel
def _past_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return a varint, and the position after it; a negative position if it is invalid."""
    value = 0
    for shift in range(0, _LAST_SHIFT + 1, 7):
        if at >= end:
            break
        byte = peek_u8(data, at)
        at += 1
        value |= (byte & ~_ONE_BYTE) << shift
        if byte < _ONE_BYTE:
            return value, at
    return value, _INVALID


@kernel
def past_tags(data: Bytes, at: int, end: int) -> int:
    """Return the position after a header's tagged fields; negative if they are invalid."""
    count, at = _past_varint(data, at, end)
    while at >= 0 and count > 0:
        _, at = _past_varint(data, at, end)
        if at < 0:
            break
        size, at = _past_varint(data, at, end)
        if at < 0 or at + size > end:
            return _INVALID
        at += size
        count -= 1
    return at


@kernel
def _expects_response(data: Bytes, at: int, end: int, version: int) -> bool:
    """Whether a Produce request's acks are not 0; they follow the transactional id."""
    if version < 0 or version >= _VERSIONS or at + 2 > end:
        return True
    layout = _TRANSACTIONAL_ID[version]
    if layout == _PLAIN:
        at += 2 + max(peek_i16(data, at), 0)
    elif layout == _COMPACT:
        # A length of three bytes is longer than any transactional id.
        length, at = _past_varint(data, at, min(at + 2, end))
        if at < 0:
            return True
        at += max(length - 1, 0)
    return at + 2 > end or peek_i16(data, at) != 0


@kernel
def read_frames(  # noqa: PLR0917
    data: Bytes,
    directions: Ints,
    starts: Ints,
    sizes: Ints,
    traits: Ints,
    numbers: Ints,
    verdicts: Mask,
) -> None:
    """Fill the columns of `FrameHeaders`, and a flag for non-ASCII client ids."""
    for row in range(len(starts)):
        start, size = starts[row], sizes[row]
        for column in range(6):
            numbers[column, row] = 0
        for column in range(4):
            verdicts[column, row] = False
        if directions[row] == 1:
            verdicts[0, row] = size >= CORRELATION_BYTES
            numbers[2, row] = peek_i32(data, start) if size >= CORRELATION_BYTES else -1
            continue
        if size < HEADER_BYTES:
            numbers[4, row] = -1
            continue
        api_key, version = peek_i16(data, start), peek_i16(data, start + 2)
        client = peek_i16(data, start + 8)
        body, end = start + HEADER_BYTES + max(client, 0), start + size
        is_valid = api_key >= 0 and body <= end
        if is_valid:
            for position in range(start + HEADER_BYTES, body):
                if peek_u8(data, position) >= _ONE_BYTE:
                    verdicts[3, row] = True
            known = _look_up(traits, api_key, version)
            verdicts[2, row] = known & _HAS_CODEC != 0
            if known & _TAGGED:
                after = past_tags(data, body, end)
                is_valid = after >= 0
                body = after if is_valid else body
        numbers[0, row], numbers[1, row] = api_key, version
        numbers[2, row] = peek_i32(data, start + 4)
        numbers[3, row], numbers[4, row] = start + HEADER_BYTES, client
        numbers[5, row] = body - start
        verdicts[0, row] = is_valid
        verdicts[1, row] = is_valid and (
            api_key != _PRODUCE or _expects_response(data, body, end, version)
        )


@kernel
def read_bodies(  # noqa: PLR0917
    data: Bytes, starts: Ints, sizes: Ints, keys: Ints, versions: Ints, traits: Ints, bodies: Ints
) -> None:
    """Fill `bodies` with the offsets of response bodies."""
    for row in range(len(starts)):
        at, end = starts[row] + CORRELATION_BYTES, starts[row] + sizes[row]
        if at > end:
            at = end
        elif _look_up(traits, keys[row], versions[row]) & _RESPONSE_TAGGED:
            at = past_tags(data, at, end)
            at = end if at < 0 else at
        bodies[row] = at - starts[row]
