"""Headers of requests and responses, parsed for all frames of a chunk.

If a header is invalid, `is_valid` is False, and the other columns of its frame have no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.reading.messages import is_known
from kafkalite.lab.columnar.arrays import true_indexes
from kafkalite.lab.columnar.kernels import kernel, peek_i16, peek_i32, peek_u8
from kafkalite.protocol import codec
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.codec_helpers import MAX_TAGGED_FIELDS
from kafkalite.wire.headers import HEADER_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.lab.columnar.arrays import Bytes, Ints, Mask
    from kafkalite.lab.columnar.frames.frame_index import FrameIndex

CORRELATION_BYTES: Final = 4
_VERSION_COUNT: Final = 64
_KEY_COUNT: Final = max(codec.api_keys()) + 1
_PRODUCE: Final = int(ApiKey.PRODUCE)
_HIGH_BIT, _LAST_SHIFT = 0x80, 28
_ABSENT, _FIXED_LENGTH, _COMPACT = 0, 1, 2
_TRANSACTIONAL_ID_ENCODING: Final = tuple(
    [_ABSENT] * 3 + [_FIXED_LENGTH] * 6 + [_COMPACT] * (_VERSION_COUNT - 9)
)
"""By version of Produce: encoding of the transactional id, which precedes the acks."""

_HAS_TAGS, _RESPONSE_HAS_TAGS, _HAS_CODEC = 1, 2, 4
_INVALID: Final = -1


def _traits() -> Ints:
    """Return flags by API and version; the last row and column apply to all unknown ones.

    Unknown APIs are treated as flexible, because all new APIs are.
    """
    keys = codec.api_keys()
    flags: list[tuple[int, Callable[[int, int], object], bool]] = [
        (_HAS_TAGS, codec.is_flexible, True),
        (_RESPONSE_HAS_TAGS, codec.response_header_version, True),
        (_HAS_CODEC, is_known, False),
    ]
    table = np.zeros((_KEY_COUNT + 1, _VERSION_COUNT), np.int64)
    for key in range(_KEY_COUNT + 1):
        for version in range(_VERSION_COUNT):
            for flag, get, unknown in flags:
                if get(key, version) if key in keys else unknown:
                    table[key, version] |= flag
    return table


_TRAITS: Final = _traits()


@dataclass(frozen=True, slots=True)
class FrameHeaders:
    """One row per frame. A response has only a correlation id and `is_valid`."""

    api_key: Ints
    version: Ints
    correlation_id: Ints
    """-1 if there is none."""
    client_id_start: Ints
    client_id_size: Ints
    """Negative for null."""
    body_offset: Ints
    """Offset of the body in the frame."""
    is_valid: Mask
    expects_response: Mask
    """Whether a frame is a request that gets a response; False for Produce with acks=0."""
    has_codec: Mask
    """Whether a request's API and version are known."""


def read(data: Bytes, frames: FrameIndex) -> FrameHeaders:
    """Parse the headers of frames."""
    columns = np.empty((6, len(frames)), np.int64)
    flags = np.empty((4, len(frames)), np.bool_)
    parse_headers(data, frames.direction, frames.start, frames.size, _TRAITS, columns, flags)
    headers = FrameHeaders(*columns, *flags[:3])
    # A request with a client id that is not UTF-8 is invalid.
    for row in true_indexes(flags[3]).tolist():
        start = int(headers.client_id_start[row])
        if not _is_utf8(data[start : start + int(headers.client_id_size[row])].tobytes()):
            headers.is_valid[row] = headers.expects_response[row] = False
    return headers


def find_response_bodies(  # noqa: PLR0917
    data: Bytes, starts: Ints, sizes: Ints, api_key: Ints, version: Ints, bodies: Ints
) -> None:
    """Find the offsets of response bodies in their frames; the frame's size if there is none."""
    find_bodies(data, starts, sizes, api_key, version, _TRAITS, bodies)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@kernel
def _look_up(traits: Ints, api_key: int, version: int) -> int:
    row = api_key if 0 <= api_key < len(traits) else len(traits) - 1
    column = version if 0 <= version < _VERSION_COUNT else _VERSION_COUNT - 1
    found: int = traits[row, column]
    return found


@kernel
def _read_varint(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """Return a varint, and the position after it; the position is negative if it is invalid."""
    value = 0
    for shift in range(0, _LAST_SHIFT + 1, 7):
        if at >= end:
            break
        byte = peek_u8(data, at)
        at += 1
        value |= (byte & ~_HIGH_BIT) << shift
        if byte < _HIGH_BIT:
            return value, at
    return value, _INVALID


@kernel
def skip_tagged_fields(data: Bytes, at: int, end: int) -> int:
    """Return the position after a header's tagged fields; negative if they are invalid."""
    count, at = _read_varint(data, at, end)
    if count > MAX_TAGGED_FIELDS:
        return _INVALID
    while at >= 0 and count > 0:
        _, at = _read_varint(data, at, end)
        if at < 0:
            break
        size, at = _read_varint(data, at, end)
        if at < 0 or at + size > end:
            return _INVALID
        at += size
        count -= 1
    return at


@kernel
def _expects_response(data: Bytes, at: int, end: int, version: int) -> bool:
    """Whether the acks of a Produce request, which follow the transactional id, are not 0."""
    if version < 0 or version >= _VERSION_COUNT or at + 2 > end:
        return True
    layout = _TRANSACTIONAL_ID_ENCODING[version]
    if layout == _FIXED_LENGTH:
        at += 2 + max(peek_i16(data, at), 0)
    elif layout == _COMPACT:
        # A length of three bytes is longer than any transactional id.
        length, at = _read_varint(data, at, min(at + 2, end))
        if at < 0:
            return True
        at += max(length - 1, 0)
    return at + 2 > end or peek_i16(data, at) != 0


@kernel
def parse_headers(  # noqa: PLR0917
    data: Bytes,
    directions: Ints,
    starts: Ints,
    sizes: Ints,
    traits: Ints,
    columns: Ints,
    flags: Mask,
) -> None:
    """Fill the columns of `FrameHeaders`; the last flag is set for non-ASCII client ids."""
    for row in range(len(starts)):
        start, size = starts[row], sizes[row]
        for column in range(6):
            columns[column, row] = 0
        for column in range(4):
            flags[column, row] = False
        if directions[row] == 1:
            flags[0, row] = size >= CORRELATION_BYTES
            columns[2, row] = peek_i32(data, start) if size >= CORRELATION_BYTES else -1
            continue
        if size < HEADER_BYTES:
            columns[4, row] = -1
            continue
        api_key, version = peek_i16(data, start), peek_i16(data, start + 2)
        client = peek_i16(data, start + 8)
        body, end = start + HEADER_BYTES + max(client, 0), start + size
        is_valid = api_key >= 0 and body <= end
        if is_valid:
            for position in range(start + HEADER_BYTES, body):
                if peek_u8(data, position) >= _HIGH_BIT:
                    flags[3, row] = True
            own_traits = _look_up(traits, api_key, version)
            flags[2, row] = own_traits & _HAS_CODEC != 0
            if own_traits & _HAS_TAGS:
                after = skip_tagged_fields(data, body, end)
                is_valid = after >= 0
                body = after if is_valid else body
        columns[0, row], columns[1, row] = api_key, version
        columns[2, row] = peek_i32(data, start + 4)
        columns[3, row], columns[4, row] = start + HEADER_BYTES, client
        columns[5, row] = body - start
        flags[0, row] = is_valid
        flags[1, row] = is_valid and (
            api_key != _PRODUCE or _expects_response(data, body, end, version)
        )


@kernel
def find_bodies(  # noqa: PLR0917
    data: Bytes, starts: Ints, sizes: Ints, keys: Ints, versions: Ints, traits: Ints, bodies: Ints
) -> None:
    """Fill `bodies` with the offsets of response bodies."""
    for row in range(len(starts)):
        at, end = starts[row] + CORRELATION_BYTES, starts[row] + sizes[row]
        if at > end:
            at = end
        elif _look_up(traits, keys[row], versions[row]) & _RESPONSE_HAS_TAGS:
            at = skip_tagged_fields(data, at, end)
            at = end if at < 0 else at
        bodies[row] = at - starts[row]
