"""Where record batches stand in bytes, and what their heads say, a column at a time."""

from __future__ import annotations

from dataclasses import dataclass, fields
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.arrays import unaligned
from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    CONTROL,
    HEAD_SIZE,
    LENGTH_END,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kafkalite.storage.crc import crc32c

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kafkalite.columnar.arrays import Bytes, Ints

_LENGTH: Final = Struct(">8xi4xb")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_MAGIC_2: Final = 2
_SMALLEST_LENGTH: Final = 14  # of any format there ever was
_CRC_AT: Final = 17
_COVERED_AT: Final = 21
_FEW: Final = 16

_PLACES: Final = {
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
"""Where the numbers of a head stand."""


class BatchError(NamedTuple):
    """What is wrong with a batch, or with what stands where one should."""

    cell: int
    """In which stretch of the data."""
    at: int
    """Where in the data."""
    kind: ProblemKind
    reason: str
    is_end: bool = False
    """Whether what follows in this stretch was not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The heads of batches of format 2, in the order in which they stand in the data."""

    cell: Ints
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
        """Number of the codec that each one's records are compressed with."""
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> NDArray[np.bool_]:
        """Which hold markers."""
        return (self.attributes & CONTROL).astype(np.bool_)

    @property
    def is_transactional(self) -> NDArray[np.bool_]:
        """Which belong to transactions."""
        return (self.attributes & TRANSACTIONAL).astype(np.bool_)

    @property
    def is_log_append_time(self) -> NDArray[np.bool_]:
        """Which carry the time of appending."""
        return (self.attributes & LOG_APPEND_TIME).astype(np.bool_)

    def some(self, chosen: Ints | NDArray[np.bool_] | slice) -> Heads:
        """Return some of them."""
        return Heads(**{each.name: getattr(self, each.name)[chosen] for each in fields(self)})


def find_batches(data: Bytes, starts: Ints, ends: Ints) -> tuple[Heads, list[BatchError]]:
    """Find the batches in stretches of data that stand in ascending order.

    A batch of an old format is an error and passed over; behind a length that no batch can have,
    or one that leads out of its stretch, nothing is looked for.
    """
    errors: list[BatchError] = []
    at, cells = starts.copy(), np.arange(len(starts))
    places: list[Ints] = []
    whose: list[Ints] = []
    while len(cells) > _FEW:
        cells, at, ends, is_new = _next_batches(data, cells, at, ends, errors)
        places.append(at[is_new])
        whose.append(cells[is_new])
        size = _sizes(data, at)
        at = at + size
        going = at < ends
        cells, at, ends = cells[going], at[going], ends[going]
    view = data.data
    for cell, first, end in zip(cells.tolist(), at.tolist(), ends.tolist(), strict=True):
        found = _chain(view, cell, first, end, errors)
        places.append(np.array(found, dtype=np.int64))
        whose.append(np.full(len(found), cell))
    place = np.concatenate(places) if places else np.zeros(0, dtype=np.int64)
    cell_of = np.concatenate(whose) if whose else np.zeros(0, dtype=np.int64)
    order = np.argsort(place, kind="stable")
    errors.sort()
    return _read(data, place[order], cell_of[order]), errors


def _sizes(data: Bytes, at: Ints) -> Ints:
    return unaligned(data, ">i4")[at + _LENGTH_AT].astype(np.int64) + LENGTH_END


def _next_batches(
    data: Bytes, cells: Ints, at: Ints, ends: Ints, errors: list[BatchError]
) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    """Look at one more batch of each stretch; those that have one, and which are of format 2."""
    has_head = ends - at > _MAGIC_AT
    sizes = np.full(len(at), LENGTH_END)
    sizes[has_head] = _sizes(data, at[has_head])
    magic = np.full(len(at), _MAGIC_2)
    magic[has_head] = data[at[has_head] + _MAGIC_AT].view(np.int8)
    smallest = np.where(magic == _MAGIC_2, HEAD_SIZE, LENGTH_END + _SMALLEST_LENGTH)
    is_good = has_head & (sizes >= smallest) & (magic <= _MAGIC_2) & (magic >= 0)
    is_good &= at + sizes <= ends
    is_new = is_good & (magic == _MAGIC_2)
    view = data.data
    for odd in np.flatnonzero(~is_new).tolist():
        # The same look again, by the one that can tell what is wrong.
        end = int(at[odd] + sizes[odd]) if is_good[odd] else int(ends[odd])
        _chain(view, int(cells[odd]), int(at[odd]), end, errors)
    return cells[is_good], at[is_good], ends[is_good], is_new[is_good]


def _chain(data: memoryview, cell: int, at: int, end: int, errors: list[BatchError]) -> list[int]:
    """Walk the batches of one stretch, one by one."""
    found = []
    while at < end:
        if end - at <= _MAGIC_AT:
            errors.append(BatchError(cell, at, *_cut(end - at), is_end=True))
            break
        length, magic = _LENGTH.unpack_from(data, at)
        size = length + LENGTH_END
        reason = _impossible(length, magic)
        if reason is not None:
            errors.append(BatchError(cell, at, ProblemKind.CORRUPT_BLOCK, reason, is_end=True))
            break
        if at + size > end:
            errors.append(BatchError(cell, at, *_cut(end - at), is_end=True))
            break
        if magic == _MAGIC_2:
            found.append(at)
        else:
            old = f"a batch of the old format {magic}"
            errors.append(BatchError(cell, at, ProblemKind.UNKNOWN_VERSION, old))
        at += size
    return found


def _cut(left: int) -> tuple[ProblemKind, str]:
    return ProblemKind.TRUNCATED_BLOCK, f"a batch of which only {left} bytes are there"


def _impossible(length: int, magic: int) -> str | None:
    if length < _SMALLEST_LENGTH:
        return f"a batch of length {length}"
    if not 0 <= magic <= _MAGIC_2:
        return f"a batch of unknown format {magic}"
    if magic == _MAGIC_2 and length + LENGTH_END < HEAD_SIZE:
        return "a batch shorter than its head"
    return None


def _read(data: Bytes, at: Ints, cell: Ints) -> Heads:
    if not len(at):
        return Heads(cell=cell, at=at, size=at, **dict.fromkeys(_PLACES, at))
    head = unaligned(data, f"V{HEAD_SIZE}")[at]
    numbers = {
        name: np.ndarray(at.shape, code, head, place, (HEAD_SIZE,)).astype(np.int64)
        for name, (code, place) in _PLACES.items()
    }
    return Heads(cell=cell, at=at, size=_sizes(data, at), **numbers)


def wrong_crcs(data: Bytes, heads: Heads) -> NDArray[np.bool_]:
    """Return which batches are not the bytes that their CRC was computed over."""
    view = data.data
    told = unaligned(data, ">u4")[heads.at + _CRC_AT].tolist() if len(heads) else []
    ends = (heads.at + heads.size).tolist()
    return np.array(
        [
            crc32c(view[at + _COVERED_AT : end], 0) != crc
            for at, end, crc in zip(heads.at.tolist(), ends, told, strict=True)
        ],
        dtype=np.bool_,
    )
