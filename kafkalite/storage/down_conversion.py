"""Conversion of batches of format 2 to message sets, for consumers before Kafka 0.11.

The result is that of LazyDownConversionRecords and RecordsUtil in Kafka 3.9: headers and
transaction markers are left out, and the compression of each batch remains.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kafkalite.ports.turns import iterate_with_pauses, run_in_thread
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import HEADER_SIZE, LOG_APPEND_TIME, split_batches
from kafkalite.storage.compression import CODEC_NUMBERS, NO_COMPRESSION, compress
from kafkalite.storage.message_format import ENTRY, MAGIC_0, Message, encode_message
from kafkalite.storage.old_lz4 import to_old_lz4

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from kafkalite.ports.files import Buffer
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.record_format import Record

_LZ4: Final = CODEC_NUMBERS["lz4"]
_ZSTD: Final = CODEC_NUMBERS["zstd"]
_CHUNK_BYTES: Final = 128 * 1024
"""The size of the batches that Kafka converts at once."""
_SHORT_BYTES: Final = 16 * 1024
"""Up to this size, a thread for decompression costs more than it saves."""
_NO_OFFSET: Final = -1


def to_messages(data: Buffer, magic: int, first_offset: int) -> bytes:
    """Return the records of batches from `first_offset` on as messages of format 0 or 1.

    The result is as long as `data` or as its first converted batch. Longer messages end in the
    middle of one, and shorter ones are followed by a part of a message without content, which
    clients skip. Compressed batches are converted as a whole.

    Raises KafkaError UNSUPPORTED_COMPRESSION_TYPE if the first batch is compressed with zstd, and
    MalformedRecordsError for records that cannot be decoded.
    """
    batches = split_batches(data)
    if not batches:
        return b""
    converted = bytearray(next(_converted(_each(batches), magic, first_offset), b""))
    size = max(len(data), len(converted) or ENTRY.size)
    if converted:
        try:
            for chunk in _converted(_chunks(batches[1:]), magic, first_offset):
                if len(converted) >= size:
                    break
                converted += chunk
        except KafkaError:
            pass  # A later fetch begins with this batch, and gets the error.
    while len(converted) < size:
        converted += _overflow(size - len(converted))
    return bytes(memoryview(converted)[:size])


def _each(batches: Iterable[BatchView]) -> Iterator[Sequence[BatchView]]:
    return ((batch,) for batch in batches)


def _chunks(batches: Iterable[BatchView]) -> Iterator[Sequence[BatchView]]:
    chunk: list[BatchView] = []
    size = 0
    for batch in batches:
        if chunk and size + batch.size > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(batch)
        size += batch.size
    if chunk:
        yield chunk


def _converted(
    chunks: Iterable[Sequence[BatchView]], magic: int, first_offset: int
) -> Iterator[bytes]:
    """Yield the messages of each chunk that has some."""
    for chunk in chunks:
        messages = b"".join([_convert(batch, magic, first_offset) for batch in _convertible(chunk)])
        if messages:
            yield messages


def _convertible(chunk: Sequence[BatchView]) -> list[BatchView]:
    batches = [batch for batch in chunk if not batch.is_control]
    if any(batch.compression == _ZSTD for batch in batches):
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return batches


def _convert(batch: BatchView, magic: int, first_offset: int) -> bytes:
    codec = batch.compression
    attributes = LOG_APPEND_TIME if magic > MAGIC_0 and batch.is_log_append_time else 0
    run = run_in_thread if batch.size > _SHORT_BYTES else _call
    records = [*iterate_with_pauses(batch.decode(run(batch.body)))]
    if codec == NO_COMPRESSION:
        return _encode(
            (record for record in records if record.offset >= first_offset), magic, attributes
        )
    if not records:
        return b""
    # Inner offsets are relative since format 1.
    base_offset = records[0].offset if magic > MAGIC_0 else 0
    payload = run(partial(compress, codec, _encode(records, magic, attributes, base_offset)))
    if codec == _LZ4 and magic == MAGIC_0:
        payload = to_old_lz4(payload)
    timestamp = max(record.timestamp for record in records)
    return encode_message(
        Message(records[-1].offset, magic, attributes | codec, timestamp, None, payload)
    )


def _call(function: Callable[[], bytes]) -> bytes:
    return function()


def _encode(records: Iterable[Record], magic: int, attributes: int, base_offset: int = 0) -> bytes:
    return b"".join(
        [
            encode_message(
                Message(
                    record.offset - base_offset,
                    magic,
                    attributes,
                    record.timestamp,
                    record.key,
                    record.value,
                )
            )
            for record in iterate_with_pauses(records)
        ]
    )


def _overflow(remaining: int) -> bytes:
    """Return the beginning of a message that is longer than the rest of the answer."""
    size = max(ENTRY.size, min(remaining + 1, _CHUNK_BYTES))
    return ENTRY.pack(_NO_OFFSET, max(remaining + 1, HEADER_SIZE)).ljust(size, b"\0")
