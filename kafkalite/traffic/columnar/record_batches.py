"""Record batches: finding them in bytes, and reading their headers column by column."""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEADER_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kafkalite.storage.crc import crc32c
from kafkalite.traffic.columnar.arrays import unaligned
from kafkalite.traffic.model import ProblemKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.traffic.columnar.arrays import Bytes, Ints

_LENGTH: Final = Struct(">8xi4xb")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_MAGIC_2: Final = 2
_SMALLEST_LENGTH: Final = 14  # minimum over all formats
_CRC_AT: Final = 17
_COVERED_AT: Final = 21
_FEW: Final = 16

_FIELDS: Final = {
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


class BatchError(NamedTuple):
    """An invalid batch, or bytes that are not a batch."""

    range_index: int
    """Index of the range of data."""
    at: int
    """Position in the data."""
    kind: ProblemKind
    reason: str
    is_end: bool = False
    """Whether reading of the range ended here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHeaders:
    """The headers of batches of format 2, in the order of the data."""

    range_index: Ints
    at: Ints
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
        return len(self.at)

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

    def picked(self, chosen: Ints | NDArray[np.bool_] | slice) -> BatchHeaders:
        """Return a selection."""
        return BatchHeaders(
            **{each.name: getattr(self, each.name)[chosen] for each in fields(self)}
        )


def find_batches(data: Bytes, starts: Ints, ends: Ints) -> tuple[BatchHeaders, list[BatchError]]:
    """Find the batches in ascending ranges of data.

    A batch of an old format is reported as an error and skipped. After an invalid length, or one
    that exceeds the range, the rest of the range is not read.
    """
    errors: list[BatchError] = []
    at, ranges = starts.copy(), np.arange(len(starts))
    positions: list[Ints] = []
    cells_found: list[Ints] = []
    while len(ranges) > _FEW:
        ranges, at, ends, is_new = _next_batches(data, ranges, at, ends, errors)
        positions.append(at[is_new])
        cells_found.append(ranges[is_new])
        size = _sizes(data, at)
        at = at + size
        going = at < ends
        ranges, at, ends = ranges[going], at[going], ends[going]
    view = data.data
    for range_index, first, end in zip(ranges.tolist(), at.tolist(), ends.tolist(), strict=True):
        found = _chain(view, range_index, first, end, errors)
        positions.append(np.array(found, dtype=np.int64))
        cells_found.append(np.full(len(found), range_index))
    offset = np.concatenate(positions) if positions else np.zeros(0, dtype=np.int64)
    range_of = np.concatenate(cells_found) if cells_found else np.zeros(0, dtype=np.int64)
    order = np.argsort(offset, kind="stable")
    errors.sort()
    return _read(data, offset[order], range_of[order]), errors


def _sizes(data: Bytes, at: Ints) -> Ints:
    return unaligned(data, ">i4")[at + _LENGTH_AT].astype(np.int64) + LENGTH_END


def _next_batches(
    data: Bytes, ranges: Ints, at: Ints, ends: Ints, errors: list[BatchError]
) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    """Check the next batch of each range; return valid ones, and whether they have format 2."""
    has_head = ends - at > _MAGIC_AT
    sizes = np.full(len(at), LENGTH_END)
    sizes[has_head] = _sizes(data, at[has_head])
    magic = np.full(len(at), _MAGIC_2)
    magic[has_head] = data[at[has_head] + _MAGIC_AT].view(np.int8)
    smallest = np.where(magic == _MAGIC_2, HEADER_SIZE, LENGTH_END + _SMALLEST_LENGTH)
    is_good = has_head & (sizes >= smallest) & (magic <= _MAGIC_2) & (magic >= 0)
    is_good &= at + sizes <= ends
    is_new = is_good & (magic == _MAGIC_2)
    view = data.data
    for index in np.flatnonzero(~is_new).tolist():
        # `_chain` adds the error.
        end = int(at[index] + sizes[index]) if is_good[index] else int(ends[index])
        _chain(view, int(ranges[index]), int(at[index]), end, errors)
    return ranges[is_good], at[is_good], ends[is_good], is_new[is_good]


def _chain(
    data: memoryview, range_index: int, at: int, end: int, errors: list[BatchError]
) -> list[int]:
    """Walk the batches of one range, one by one."""
    found = []
    while at < end:
        if end - at <= _MAGIC_AT:
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
        if magic == _MAGIC_2:
            found.append(at)
        else:
            old = f"batch format {magic} is not supported"
            errors.append(BatchError(range_index, at, ProblemKind.UNKNOWN_VERSION, old))
        at += size
    return found


def _truncated(available: int) -> tuple[ProblemKind, str]:
    return ProblemKind.TRUNCATED_BLOCK, f"truncated batch: only {available} bytes"


def _reason_if_invalid(length: int, magic: int) -> str | None:
    if length < _SMALLEST_LENGTH:
        return f"invalid batch length {length}"
    if not 0 <= magic <= _MAGIC_2:
        return f"unknown batch format {magic}"
    if magic == _MAGIC_2 and length + LENGTH_END < HEADER_SIZE:
        return "the batch is shorter than its header"
    return None


def _read(data: Bytes, at: Ints, range_index: Ints) -> BatchHeaders:
    if not len(at):
        return BatchHeaders(range_index=range_index, at=at, size=at, **dict.fromkeys(_FIELDS, at))
    head = unaligned(data, f"V{HEADER_SIZE}")[at]
    numbers = {
        name: np.ndarray(at.shape, code, head, offset, (HEADER_SIZE,)).astype(np.int64)
        for name, (code, offset) in _FIELDS.items()
    }
    return BatchHeaders(range_index=range_index, at=at, size=_sizes(data, at), **numbers)


def wrong_crcs(data: Bytes, headers: BatchHeaders) -> NDArray[np.bool_]:
    """Return for each batch whether its CRC is wrong."""
    view = data.data
    crcs = unaligned(data, ">u4")[headers.at + _CRC_AT].tolist() if len(headers) else []
    ends = (headers.at + headers.size).tolist()
    return np.array(
        [
            crc32c(view[at + _COVERED_AT : end], 0) != crc
            for at, end, crc in zip(headers.at.tolist(), ends, crcs, strict=True)
        ],
        dtype=np.bool_,
    )
