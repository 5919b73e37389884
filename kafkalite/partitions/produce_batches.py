"""Checks of a Produce request's records: exactly one batch per partition, in a known codec.

These checks are independent of the topic; those that depend on the topic's settings are in
`storage.validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import COMPRESSION_MASK, HEADER_SIZE, split_batches
from kafkalite.storage.compression import CODEC_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.ports.files import Buffer
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.up_conversion import MessageSet

_ZSTD = CODEC_NUMBERS["zstd"]

# Codec → first bytes of compressed records. Raw snappy, as librdkafka writes it, has no magic
# bytes.
_FIRST_BYTES = {
    CODEC_NUMBERS["none"]: b"",
    CODEC_NUMBERS["gzip"]: b"\x1f\x8b",
    CODEC_NUMBERS["snappy"]: b"",
    CODEC_NUMBERS["lz4"]: b"\x04\x22\x4d\x18",
    _ZSTD: b"\x28\xb5\x2f\xfd",
}


def parse_single_batch(records: Buffer | None, *, allows_zstd: bool) -> BatchView:
    """Return the one batch that a Produce request may contain for a partition.

    Raises KafkaError INVALID_RECORD for none or several, CORRUPT_MESSAGE for an impossible length
    or format, UNSUPPORTED_COMPRESSION_TYPE for zstd in a version without zstd.
    """
    batches: Sequence[BatchView] = () if records is None else split_batches(records)
    if not batches:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    batch = batches[0]
    if not allows_zstd and batch.compression == _ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if len(batches) > 1:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return batch


def parse_old_records(records: Buffer | None, *, allows_zstd: bool) -> BatchView | MessageSet:
    """Return the message set of a producer before Kafka 0.11, or the one batch in its place.

    Raises KafkaError UNKNOWN_SERVER_ERROR for null, and otherwise as `parse_single_batch`.
    """
    from kafkalite.storage.up_conversion import MessageSet, is_message_set  # noqa: PLC0415 - few clients need it

    if is_message_set(records):
        return MessageSet(records or b"")
    return parse_single_batch(records, allows_zstd=allows_zstd)


def is_first_batch_transactional(records: Buffer | None) -> bool:
    """Whether the first batch is transactional, even if there are several or it is invalid."""
    try:
        batches = () if records is None else split_batches(records)
    except KafkaError:
        return False
    return any(batch.is_transactional for batch in batches[:1])


def check_codec(batch: BatchView) -> None:
    """Raise KafkaError unless the records begin as the batch's codec requires.

    The code is UNKNOWN_SERVER_ERROR, because decompression fails in Kafka with an unexpected
    exception. The first bytes are enough to detect a wrong codec without decompression.
    """
    first_bytes = _FIRST_BYTES.get(batch.attributes & COMPRESSION_MASK)
    if first_bytes is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if first_bytes and batch.data[HEADER_SIZE : HEADER_SIZE + len(first_bytes)] != first_bytes:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
