"""Record batches → one row a record; what the scalar reading of `storage` refuses is refused.

Batches are opened some at a time, so that memory is bounded however well they are compressed. In
an open one only the lengths of records are followed one by one; every field is then read of all
records at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import ProblemKind
from kafkalite.columnar.assemble import binary_parts, slice_array
from kafkalite.columnar.batches import BatchError, Heads, find_batches, wrong_crcs
from kafkalite.columnar.record_parts import (
    HEADERS,
    Bodies,
    RecordReader,
    header_lists,
    place_records,
)
from kafkalite.columnar.tables import TIME
from kafkalite.storage import compression
from kafkalite.storage.batch import HEAD_SIZE, MOST_OPENED_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kafkalite.columnar.arrays import Bytes, Ints

RECORD_FIELDS: Final = (
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", TIME),  # null for none, and for one that no calendar has
    pa.field("is_log_append_time", pa.bool_(), nullable=False),
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("headers", HEADERS, nullable=False),
    pa.field("leader_epoch", pa.int32(), nullable=False),
    pa.field("producer_id", pa.int64(), nullable=False),
    pa.field("producer_epoch", pa.int16(), nullable=False),
    pa.field("sequence", pa.int32(), nullable=False),
    pa.field("is_transactional", pa.bool_(), nullable=False),
    pa.field("is_control", pa.bool_(), nullable=False),
    pa.field("base_offset", pa.int64(), nullable=False),  # of its batch
)
"""What a record says, and its batch for it; -1 is none, as in Kafka's own."""

OPENED_BYTES: Final = 32 << 20
_MOST_RECORDS: Final = 1 << 18
_SEQUENCE_MASK: Final = 0x7FFF_FFFF
_YEAR_1_MS: Final = -62_135_596_800_000
_YEAR_10000_MS: Final = 253_402_300_800_000
_NO_TIMESTAMP: Final = -1
_DAMAGED: Final = "the records do not fill their batch"


class Opened(NamedTuple):
    """Records, and the batches they are of."""

    records: pa.RecordBatch
    """Of `RECORD_FIELDS`."""
    cells: Ints
    """By record, the stretch of the data that it stands in."""
    places: Ints
    """By record, where its batch stands in the data."""
    errors: list[BatchError]


def open_batches(data: Bytes, heads: Heads, *, with_control: bool = True) -> Iterator[Opened]:
    """Read the records of batches, some at a time, in their order.

    Of a batch with a wrong CRC, or whose records are damaged, there is an error and no record.
    """
    wrong = wrong_crcs(data, heads)
    errors = _errors(heads, wrong, "a batch whose CRC is wrong")
    heads = heads.some(~wrong)
    if not with_control:
        heads = heads.some(~heads.is_control)
    many = heads.record_count > MOST_OPENED_RECORDS
    errors += _errors(heads, many, f"a batch of more than {MOST_OPENED_RECORDS} records")
    heads = heads.some(~many)
    for first, last, bodies, why in _bodies(data, heads):
        some = heads.some(slice(first, last))
        is_open = np.array([each is None for each in why], dtype=np.bool_)
        errors += [
            _error(some, row, reason) for row, reason in enumerate(why) if reason is not None
        ]
        opened = _rows(bodies, some.some(is_open))
        yield opened._replace(errors=errors + opened.errors)
        errors = []
    if errors:
        yield nothing(errors)


def _error(heads: Heads, row: int, reason: str) -> BatchError:
    return BatchError(int(heads.cell[row]), int(heads.at[row]), ProblemKind.CORRUPT_BLOCK, reason)


def _errors(heads: Heads, wrong: NDArray[np.bool_], reason: str) -> list[BatchError]:
    return [_error(heads, row, reason) for row in np.flatnonzero(wrong).tolist()]


# -- bodies -------------------------------------------------------------------------------


def _bodies(data: Bytes, heads: Heads) -> Iterator[tuple[int, int, Bodies, list[str | None]]]:
    """Open batches until enough is open; their range, the open ones, and why others are not."""
    codecs = heads.compression.tolist()
    starts, ends = (heads.at + HEAD_SIZE).tolist(), (heads.at + heads.size).tolist()
    counts = heads.record_count.tolist()
    view = data.data
    first = 0
    while first < len(codecs):
        last, room, records = first, OPENED_BYTES, _MOST_RECORDS
        bodies: list[memoryview | bytes] = []
        why: list[str | None] = []
        while last < len(codecs) and room > 0 and records > 0:
            body: memoryview | bytes = view[starts[last] : ends[last]]
            reason = None
            if codecs[last] != compression.NONE:
                try:
                    body = compression.decompress(codecs[last], body)
                except compression.CompressedDataError as error:
                    reason = str(error).partition("\n")[0]
            if reason is None:
                bodies.append(body)
                room -= len(body)
                records -= counts[last]
            why.append(reason)
            last += 1
        if not any(codecs[first:last]):
            some = heads.some(slice(first, last))
            yield first, last, Bodies(data, some.at + HEAD_SIZE, some.at + some.size), why
        else:
            stops = np.cumsum([len(body) for body in bodies], dtype=np.int64)
            joined = np.frombuffer(b"".join(bodies), np.uint8)
            yield first, last, Bodies(joined, _before(stops), stops), why
        first = last


def _before(stops: Ints) -> Ints:
    starts = np.zeros(len(stops), dtype=np.int64)
    starts[1:] = stops[:-1]
    return starts


# -- rows ---------------------------------------------------------------------------------


def _rows(bodies: Bodies, heads: Heads) -> Opened:
    """Read all records of open batches."""
    placed = place_records(bodies, heads.record_count)
    batch, data = placed.batch, bodies.data
    reader = RecordReader(data, placed.starts + 1, placed.stops)  # the first byte says nothing
    timestamp_delta, offset_delta = reader.number(), reader.number()
    key, value = reader.slice(), reader.slice()
    reader.is_wrong |= reader.at >= placed.stops
    headers = reader.headers()
    is_wrong = placed.is_wrong
    is_wrong[batch[reader.is_wrong]] = True
    errors = _errors(heads, is_wrong, _DAMAGED)
    good = ~is_wrong[batch]
    lists, spoilt = header_lists(data, headers, good)
    if len(spoilt):
        is_spoilt = np.zeros(len(heads), dtype=np.bool_)
        is_spoilt[batch[spoilt]] = True
        errors += _errors(heads, is_spoilt, "a header whose name is not UTF-8")
        good &= ~is_spoilt[batch]
        lists, _ = header_lists(data, headers, good)
    its, delta = heads.some(batch[good]), offset_delta[good]
    timestamps = np.where(
        its.is_log_append_time, its.max_timestamp, its.base_timestamp + timestamp_delta[good]
    )
    counted = its.base_sequence >= 0
    sequence = np.where(counted, (its.base_sequence + delta) & _SEQUENCE_MASK, its.base_sequence)
    columns = [
        pa.array(its.base_offset + delta),
        _times(timestamps),
        pa.array(its.is_log_append_time),
        slice_array(data, key[0][good], key[1][good]),
        slice_array(data, value[0][good], value[1][good]),
        lists,
        pa.array(its.leader_epoch.astype(np.int32)),
        pa.array(its.producer_id),
        pa.array(its.producer_epoch.astype(np.int16)),
        pa.array(sequence.astype(np.int32)),
        pa.array(its.is_transactional),
        pa.array(its.is_control),
        pa.array(its.base_offset),
    ]
    records = pa.RecordBatch.from_arrays(columns, schema=pa.schema(RECORD_FIELDS))
    return Opened(records, its.cell, its.at, errors)


def _times(milliseconds: Ints) -> pa.Array:
    is_none = milliseconds == _NO_TIMESTAMP
    is_none |= (milliseconds < _YEAR_1_MS) | (milliseconds >= _YEAR_10000_MS)
    return pa.array(np.where(is_none, 0, milliseconds) * 1000, mask=is_none).cast(TIME)


def read_column(column: pa.Array, *, with_control: bool = True) -> Iterator[Opened]:
    """Read the records in a column of bytes, as Produce and Fetch carry them.

    `cells` are the rows of the column. Fetch may cut the last batch short, which is no error.
    """
    data, offsets = binary_parts(column)
    heads, errors = find_batches(data, offsets[:-1], offsets[1:])
    errors = [each for each in errors if each.kind is not ProblemKind.TRUNCATED_BLOCK]
    for opened in open_batches(data, heads, with_control=with_control):
        yield opened._replace(errors=errors + opened.errors)
        errors = []
    if errors:
        yield nothing(errors)


def nothing(errors: list[BatchError]) -> Opened:
    """Return errors without any record."""
    none = np.zeros(0, dtype=np.int64)
    records = pa.RecordBatch.from_pylist([], pa.schema(RECORD_FIELDS))
    return Opened(records, none, none, errors)
