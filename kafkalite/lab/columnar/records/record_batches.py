"""Record batches: finding them in bytes, and reading their headers column by column."""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.arrays import unaligned_view
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kafkalite.storage.crc import crc32c

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.lab.columnar.arrays import Bytes, Ints

_LENGTH: Final = Struct(">8xi4xb")
_LENGTH_OFFSET: Final = 8
_MAGIC_OFFSET: Final = 16
_CURRENT_MAGIC: Final = 2
_MIN_LENGTH: Final = 14  # minimum over all formats
_CRC_OFFSET: Final = 17
_CRC_DATA_OFFSET: Final = 21
_MIN_COLUMNAR_ROWS: Final = 16
"""Minimum number of ranges that are read in columns; fewer are read one by one, which is faster."""

HEADER_FIELDS: Final = {
    "base_offset": (">i8", 0),
    "leader_epoch": (">i4", 12),
    "attributes": (">i2", 21),
    "last_offset_delta": (">i4", 23),
    "base_timestamp": (">i8", 27),
    "max_timestamp": (">i8", 35),
    "producer_id": (">i8", 43),
    "producer_epoch": (">i2", 51),
    "base_sequence": (">i4", 53),
    "record_count": (">i4", 57),
}
"""Header field → format and offset."""


def header_bytes(first: str, last: str | None = None) -> slice:
    """Return the position in a batch of a header field, or of the fields from one to another."""
    code, offset = HEADER_FIELDS[last or first]
    return slice(HEADER_FIELDS[first][1], offset + np.dtype(code).itemsize)


class BatchError(NamedTuple):
    """An invalid batch, or bytes that are not a batch."""

    range_index: int
    """Index of the range of data."""
    position: int
    """Position in the data."""
    kind: ProblemKind
    reason: str
    is_end: bool = False
    """Whether reading of the range ended here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeaders:
    """The headers of batches of format 2, in the order of the data."""

    range_index: Ints
    position: Ints
    size: Ints
    base_offset: Ints
    leader_epoch: Ints
    attributes: Ints
    last_offset_delta: Ints
    base_timestamp: Ints
    max_timestamp: Ints
    producer_id: Ints
    producer_epoch: Ints
    base_sequence: Ints
    record_count: Ints

    def __len__(self) -> int:
        return len(self.position)

    @property
    def compression(self) -> Ints:
        """Number of the compression codec."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Whether they are control batches."""
        return (self.attributes & CONTROL).astype(np.bool_)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        """Whether they belong to transactions."""
        return (self.attributes & TRANSACTIONAL).astype(np.bool_)

    @property
    def is_log_append_time(self) -> NDArray[np.bool_]:
        """Whether their timestamps are the time of appending."""
        return (self.attributes & LOG_APPEND_TIME).astype(np.bool_)

    def select(self, chosen: Ints | NDArray[np.bool_] | slice) -> BatchHeaders:
        """Return the headers of some batches."""
        return BatchHeaders(
            **{each.name: getattr(self, each.name)[chosen] for each in fields(self)}
        )


class OldMessage(NamedTuple):
    """A message of format 0 or 1, which may be the wrapper of compressed ones."""

    position: int
    """Position in the data."""
    size: int
    range_index: int
    """Index of the range of data."""


class FoundBatches(NamedTuple):
    """What was found in ranges of data, in the order of the data."""

    headers: BatchHeaders
    old_messages: list[OldMessage]
    errors: list[BatchError]


class _Others(NamedTuple):
    old_messages: list[OldMessage]
    errors: list[BatchError]


def find_batches(data: Bytes, starts: Ints, ends: Ints) -> FoundBatches:
    """Find the batches and the messages of old formats in ascending ranges of data.

    After an invalid length, or one that exceeds the range, the rest of the range is not read.
    """
    others = _Others([], [])
    at, ranges = starts.copy(), np.arange(len(starts))
    positions: list[Ints] = []
    range_indexes: list[Ints] = []
    while len(ranges) > _MIN_COLUMNAR_ROWS:
        ranges, at, ends, has_current_magic = _next_batches(data, ranges, at, ends, others)
        positions.append(at[has_current_magic])
        range_indexes.append(ranges[has_current_magic])
        size = _sizes(data, at)
        at = at + size
        is_unfinished = at < ends
        ranges, at, ends = ranges[is_unfinished], at[is_unfinished], ends[is_unfinished]
    view = data.data
    for range_index, first, end in zip(ranges.tolist(), at.tolist(), ends.tolist(), strict=True):
        found = _find_in_range(view, range_index, first, end, others)
        positions.append(np.array(found, dtype=np.int64))
        range_indexes.append(np.full(len(found), range_index))
    offset = np.concatenate(positions) if positions else np.zeros(0, dtype=np.int64)
    range_of = np.concatenate(range_indexes) if range_indexes else np.zeros(0, dtype=np.int64)
    order = np.argsort(offset, kind="stable")
    headers = _read_headers(data, offset[order], range_of[order])
    return FoundBatches(headers, sorted(others.old_messages), sorted(others.errors))


def _sizes(data: Bytes, at: Ints) -> Ints:
    return unaligned_view(data, ">i4")[at + _LENGTH_OFFSET].astype(np.int64) + LENGTH_END


def _next_batches(
    data: Bytes, ranges: Ints, at: Ints, ends: Ints, others: _Others
) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    """Check the next batch of each range.

    Returns the ranges, positions and ends of the valid batches, and whether they have format 2.
    """
    has_length_and_magic = ends - at > _MAGIC_OFFSET
    sizes = np.full(len(at), LENGTH_END)
    sizes[has_length_and_magic] = _sizes(data, at[has_length_and_magic])
    magic = np.full(len(at), _CURRENT_MAGIC)
    magic[has_length_and_magic] = data[at[has_length_and_magic] + _MAGIC_OFFSET].view(np.int8)
    min_sizes = np.where(magic == _CURRENT_MAGIC, HEADER_SIZE, LENGTH_END + _MIN_LENGTH)
    is_valid = (
        has_length_and_magic & (sizes >= min_sizes) & (magic <= _CURRENT_MAGIC) & (magic >= 0)
    )
    is_valid &= at + sizes <= ends
    has_current_magic = is_valid & (magic == _CURRENT_MAGIC)
    view = data.data
    for index in np.flatnonzero(~has_current_magic).tolist():
        # `_find_in_range` adds the old message or the error.
        end = int(at[index] + sizes[index]) if is_valid[index] else int(ends[index])
        _find_in_range(view, int(ranges[index]), int(at[index]), end, others)
    return ranges[is_valid], at[is_valid], ends[is_valid], has_current_magic[is_valid]


def _find_in_range(
    data: memoryview, range_index: int, at: int, end: int, others: _Others
) -> list[int]:
    """Return the positions of the batches in one range; append what else it has to `others`."""
    old_messages, errors = others
    found = []
    while at < end:
        if end - at <= _MAGIC_OFFSET:
            errors.append(BatchError(range_index, at, *_truncated(end - at), is_end=True))
            break
        length, magic = _LENGTH.unpack_from(data, at)
        size = length + LENGTH_END
        reason = _reason_if_invalid(length, magic)
        if reason is not None:
            errors.append(
                BatchError(range_index, at, ProblemKind.CORRUPT_BLOCK, reason, is_end=True)
            )
            break
        if at + size > end:
            errors.append(BatchError(range_index, at, *_truncated(end - at), is_end=True))
            break
        if magic == _CURRENT_MAGIC:
            found.append(at)
        else:
            old_messages.append(OldMessage(at, size, range_index))
        at += size
    return found


def _truncated(available: int) -> tuple[ProblemKind, str]:
    return ProblemKind.TRUNCATED_BLOCK, f"truncated batch: only {available} bytes"


def _reason_if_invalid(length: int, magic: int) -> str | None:
    if length < _MIN_LENGTH:
        return f"invalid batch length {length}"
    if not 0 <= magic <= _CURRENT_MAGIC:
        return f"unknown batch format {magic}"
    if magic == _CURRENT_MAGIC and length + LENGTH_END < HEADER_SIZE:
        return "the batch is shorter than its header"
    return None


def _read_headers(data: Bytes, at: Ints, range_index: Ints) -> BatchHeaders:
    if not len(at):
        return BatchHeaders(
            range_index=range_index, position=at, size=at, **dict.fromkeys(HEADER_FIELDS, at)
        )
    header_bytes = unaligned_view(data, f"V{HEADER_SIZE}")[at]
    numbers = {
        name: np.ndarray(at.shape, code, header_bytes, offset, (HEADER_SIZE,)).astype(np.int64)
        for name, (code, offset) in HEADER_FIELDS.items()
    }
    return BatchHeaders(range_index=range_index, position=at, size=_sizes(data, at), **numbers)


def has_wrong_crcs(data: Bytes, headers: BatchHeaders) -> NDArray[np.bool_]:
    """Return whether the CRC is wrong, for each batch."""
    view = data.data
    crcs = (
        unaligned_view(data, ">u4")[headers.position + _CRC_OFFSET].tolist() if len(headers) else []
    )
    ends = (headers.position + headers.size).tolist()
    return np.array(
        [
            crc32c(view[at + _CRC_DATA_OFFSET : end], 0) != crc
            for at, end, crc in zip(headers.position.tolist(), ends, crcs, strict=True)
        ],
        dtype=np.bool_,
    )
