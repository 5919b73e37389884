"""Reading of record batches into one row per record. Batches that `storage` rejects are errors.

Messages of formats 0 and 1 become rows as well; each of them is a batch of its own, as in Kafka.

Batches are decompressed a few at a time, so that memory is bounded at any compression ratio. The
lengths of records are read one after another, but each field is read for all records at once.
"""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.decoding.arrow_assembly import binary_parts, slice_array
from kafkalite.lab.columnar.records.old_messages import decode_messages
from kafkalite.lab.columnar.records.record_batches import (
    BatchError,
    BatchHeaders,
    FoundBatches,
    OldMessage,
    find_batches,
    has_wrong_crcs,
)
from kafkalite.lab.columnar.records.record_fields import (
    HEADERS,
    Bodies,
    RecordReader,
    find_records,
    header_lists,
)
from kafkalite.lab.columnar.tables import TIME
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.storage import compression
from kafkalite.storage.batch import HEADER_SIZE, MAX_DECOMPRESSED_RECORDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from kafkalite.lab.columnar.arrays import Bytes, Ints
    from kafkalite.storage.message_format import Message

RECORD_FIELDS: Final = (
    pa.field("offset", pa.int64(), nullable=False),
    pa.field("timestamp", TIME),  # null if there is none, and outside the years 1 to 9999
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
"""Fields of a record and of its batch; -1 means none, as in Kafka."""

MAX_DECOMPRESSED_BYTES: Final = 32 << 20
_MAX_RECORDS_AT_ONCE: Final = 1 << 18
"""Number of bytes, and of records, after which no further batch is decompressed at once."""
_SEQUENCE_MASK: Final = 0x7FFF_FFFF
_YEAR_1_MS: Final = -62_135_596_800_000
_YEAR_10000_MS: Final = 253_402_300_800_000
_NO_TIMESTAMP: Final = -1
_NONE: Final = -1
"""Leader epoch, producer and sequence of messages of old formats, which have none."""
_MAX_OLD_MESSAGES_AT_ONCE: Final = 1 << 14
_LENGTH_MISMATCH: Final = "the records do not fill the batch"


class BatchRecords(NamedTuple):
    """Records of batches, and the errors of batches without records."""

    records: pa.RecordBatch
    """With the fields `RECORD_FIELDS`."""
    range_indexes: Ints
    """By record, the index of the range of data."""
    batch_positions: Ints
    """By record, the position of its batch in the data."""
    errors: list[BatchError]


def read_batches(
    data: Bytes, found: FoundBatches, *, with_control: bool = True
) -> Iterator[BatchRecords]:
    """Read the records of batches and of old messages in order, a few of them at a time.

    One with a wrong CRC or malformed records gives an error and no records. The errors of `found`
    come with the first rows.
    """
    errors = found.errors
    for batch_records in _read_in_order(data, found, with_control=with_control):
        yield batch_records._replace(errors=errors + batch_records.errors)
        errors = []
    if errors:
        yield errors_without_records(errors)


def _read_in_order(
    data: Bytes, found: FoundBatches, *, with_control: bool
) -> Iterator[BatchRecords]:
    headers, old_messages = found.headers, found.old_messages
    # Before how many batches each old message is: those with equal numbers are adjacent.
    numbers = np.searchsorted(headers.position, [each.position for each in old_messages]).tolist()
    first = 0
    for number, group in groupby(zip(numbers, old_messages, strict=True), key=itemgetter(0)):
        yield from _read_batches(data, headers.select(slice(first, number)), with_control)
        yield from _read_old_messages(data, [old_message for _, old_message in group])
        first = number
    yield from _read_batches(data, headers.select(slice(first, None)), with_control)


def _read_batches(
    data: Bytes,
    batch_headers: BatchHeaders,
    with_control: bool,  # noqa: FBT001 - passed on
) -> Iterator[BatchRecords]:
    has_wrong_crc = has_wrong_crcs(data, batch_headers)
    errors = _errors(batch_headers, has_wrong_crc, "the CRC of the batch is wrong")
    batch_headers = batch_headers.select(~has_wrong_crc)
    if not with_control:
        batch_headers = batch_headers.select(~batch_headers.is_control)
    has_too_many = batch_headers.record_count > MAX_DECOMPRESSED_RECORDS
    reason = f"the batch has more than {MAX_DECOMPRESSED_RECORDS} records"
    errors += _errors(batch_headers, has_too_many, reason)
    batch_headers = batch_headers.select(~has_too_many)
    for first, stop, bodies, reasons in _decompress_batches(data, batch_headers):
        selected_headers = batch_headers.select(slice(first, stop))
        is_decompressed = np.array([each is None for each in reasons], dtype=np.bool_)
        errors += [
            _error(selected_headers, row, reason)
            for row, reason in enumerate(reasons)
            if reason is not None
        ]
        batch_records = _read_records(bodies, selected_headers.select(is_decompressed))
        yield batch_records._replace(errors=errors + batch_records.errors)
        errors = []
    if errors:
        yield errors_without_records(errors)


def _error(batch_headers: BatchHeaders, row: int, reason: str) -> BatchError:
    return BatchError(
        int(batch_headers.range_index[row]),
        int(batch_headers.position[row]),
        ProblemKind.CORRUPT_BLOCK,
        reason,
    )


def _errors(
    batch_headers: BatchHeaders, is_invalid: NDArray[np.bool_], reason: str
) -> list[BatchError]:
    return [_error(batch_headers, row, reason) for row in np.flatnonzero(is_invalid).tolist()]


# -- old messages -------------------------------------------------------------------------


def _read_old_messages(data: Bytes, old_messages: Sequence[OldMessage]) -> Iterator[BatchRecords]:
    rows: list[tuple[Any, ...]] = []
    errors: list[BatchError] = []
    for old_message in old_messages:
        decoded = decode_messages(data, old_message)
        if isinstance(decoded, BatchError):
            errors.append(decoded)
            continue
        place = (decoded.is_log_append_time, decoded.messages[0].offset, old_message)
        rows += [(message, *place) for message in decoded.messages]
        if len(rows) >= _MAX_OLD_MESSAGES_AT_ONCE:
            yield _old_rows(rows, errors)
            rows, errors = [], []
    if rows or errors:
        yield _old_rows(rows, errors)


def _old_rows(
    rows: Sequence[tuple[Message, bool, int, OldMessage]], errors: list[BatchError]
) -> BatchRecords:
    if not rows:
        return errors_without_records(errors)
    messages, is_log_append_time, base_offset, places = zip(*rows, strict=True)
    count = len(rows)
    columns = [
        pa.array([message.offset for message in messages], pa.int64()),
        _time_column(np.array([message.timestamp for message in messages], dtype=np.int64)),
        pa.array(is_log_append_time, pa.bool_()),
        pa.array([message.key for message in messages], pa.binary()),
        pa.array([message.value for message in messages], pa.binary()),
        pa.array([()] * count, HEADERS),
        pa.repeat(pa.scalar(_NONE, pa.int32()), count),
        pa.repeat(pa.scalar(_NONE, pa.int64()), count),
        pa.repeat(pa.scalar(_NONE, pa.int16()), count),
        pa.repeat(pa.scalar(_NONE, pa.int32()), count),
        pa.repeat(pa.scalar(value=False), count),
        pa.repeat(pa.scalar(value=False), count),
        pa.array(base_offset, pa.int64()),
    ]
    return BatchRecords(
        pa.RecordBatch.from_arrays(columns, schema=pa.schema(RECORD_FIELDS)),
        np.array([place.range_index for place in places], dtype=np.int64),
        np.array([place.position for place in places], dtype=np.int64),
        errors,
    )


# -- bodies -------------------------------------------------------------------------------


def _decompress_batches(
    data: Bytes, batch_headers: BatchHeaders
) -> Iterator[tuple[int, int, Bodies, list[str | None]]]:
    """Decompress a few batches at a time.

    Yields the range of their rows, the bodies of those that were decompressed, and for each batch
    the reason of its failure or None.
    """
    codecs = batch_headers.compression.tolist()
    starts, ends = (
        (batch_headers.position + HEADER_SIZE).tolist(),
        (batch_headers.position + batch_headers.size).tolist(),
    )
    counts = batch_headers.record_count.tolist()
    view = data.data
    first = 0
    while first < len(codecs):
        stop, remaining_bytes, records = first, MAX_DECOMPRESSED_BYTES, _MAX_RECORDS_AT_ONCE
        bodies: list[memoryview | bytes] = []
        reasons: list[str | None] = []
        while stop < len(codecs) and remaining_bytes > 0 and records > 0:
            body: memoryview | bytes = view[starts[stop] : ends[stop]]
            reason = None
            if codecs[stop] != compression.NO_COMPRESSION:
                try:
                    body = compression.decompress(codecs[stop], body)
                except compression.CompressedDataError as error:
                    reason = str(error).partition("\n")[0]
            if reason is None:
                bodies.append(body)
                remaining_bytes -= len(body)
                records -= counts[stop]
            reasons.append(reason)
            stop += 1
        if not any(codecs[first:stop]):
            selected = batch_headers.select(slice(first, stop))
            uncompressed = Bodies(
                data, selected.position + HEADER_SIZE, selected.position + selected.size
            )
            yield first, stop, uncompressed, reasons
        else:
            stops = np.cumsum([len(body) for body in bodies], dtype=np.int64)
            joined = np.frombuffer(b"".join(bodies), np.uint8)
            yield first, stop, Bodies(joined, _starts(stops), stops), reasons
        first = stop


def _starts(stops: Ints) -> Ints:
    starts = np.zeros(len(stops), dtype=np.int64)
    starts[1:] = stops[:-1]
    return starts


# -- rows ---------------------------------------------------------------------------------


def _read_records(bodies: Bodies, batch_headers: BatchHeaders) -> BatchRecords:
    """Read all records of decompressed batches."""
    positions = find_records(bodies, batch_headers.record_count)
    batch, data = positions.batch, bodies.data
    reader = RecordReader(data, positions.starts + 1, positions.stops)  # skips the attributes
    timestamp_delta, offset_delta = reader.read_varints(), reader.read_varints()
    key, value = reader.read_bytes(), reader.read_bytes()
    reader.is_invalid |= reader.at >= positions.stops
    headers = reader.read_headers()
    is_invalid = positions.is_invalid
    is_invalid[batch[reader.is_invalid]] = True
    errors = _errors(batch_headers, is_invalid, _LENGTH_MISMATCH)
    is_valid = ~is_invalid[batch]
    lists, invalid_names = header_lists(data, headers, is_valid)
    if len(invalid_names):
        has_invalid_name = np.zeros(len(batch_headers), dtype=np.bool_)
        has_invalid_name[batch[invalid_names]] = True
        errors += _errors(batch_headers, has_invalid_name, "a header name is not UTF-8")
        is_valid &= ~has_invalid_name[batch]
        lists, _ = header_lists(data, headers, is_valid)
    picked_headers, delta = batch_headers.select(batch[is_valid]), offset_delta[is_valid]
    timestamps = np.where(
        picked_headers.is_log_append_time,
        picked_headers.max_timestamp,
        picked_headers.base_timestamp + timestamp_delta[is_valid],
    )
    has_sequence = picked_headers.base_sequence >= 0
    sequence = np.where(
        has_sequence,
        (picked_headers.base_sequence + delta) & _SEQUENCE_MASK,
        picked_headers.base_sequence,
    )
    columns = [
        pa.array(picked_headers.base_offset + delta),
        _time_column(timestamps),
        pa.array(picked_headers.is_log_append_time),
        slice_array(data, key[0][is_valid], key[1][is_valid]),
        slice_array(data, value[0][is_valid], value[1][is_valid]),
        lists,
        pa.array(picked_headers.leader_epoch.astype(np.int32)),
        pa.array(picked_headers.producer_id),
        pa.array(picked_headers.producer_epoch.astype(np.int16)),
        pa.array(sequence.astype(np.int32)),
        pa.array(picked_headers.is_transactional),
        pa.array(picked_headers.is_control),
        pa.array(picked_headers.base_offset),
    ]
    records = pa.RecordBatch.from_arrays(columns, schema=pa.schema(RECORD_FIELDS))
    return BatchRecords(records, picked_headers.range_index, picked_headers.position, errors)


def _time_column(milliseconds: Ints) -> pa.Array:
    is_none = milliseconds == _NO_TIMESTAMP
    is_none |= (milliseconds < _YEAR_1_MS) | (milliseconds >= _YEAR_10000_MS)
    return pa.array(np.where(is_none, 0, milliseconds) * 1000, mask=is_none).cast(TIME)


def read_column(column: pa.Array, *, with_control: bool = True) -> Iterator[BatchRecords]:
    """Read the records in a column of bytes, as in Produce and Fetch.

    `range_indexes` are the rows of the column. Fetch may truncate the last batch, which is not an
    error.
    """
    data, offsets = binary_parts(column)
    found = find_batches(data, offsets[:-1], offsets[1:])
    errors = [each for each in found.errors if each.kind is not ProblemKind.TRUNCATED_BLOCK]
    yield from read_batches(data, found._replace(errors=errors), with_control=with_control)


def errors_without_records(errors: list[BatchError]) -> BatchRecords:
    """Return errors without records."""
    none = np.zeros(0, dtype=np.int64)
    records = pa.RecordBatch.from_pylist([], pa.schema(RECORD_FIELDS))
    return BatchRecords(records, none, none, errors)
