"""The form of a Produce request's records: exactly one batch per partition, in a known codec.

This is what the request itself must be, whatever the topic; what a topic asks of a batch is
checked by `storage.validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import HEAD_SIZE, split_batches
from kafkalite.storage.compression import CODEC_NUMBERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.ports.files import Buffer
    from kafkalite.storage.batch import BatchView

_ZSTD = CODEC_NUMBERS["zstd"]

# How the compressed records of a batch begin; raw snappy, which librdkafka writes, begins anyhow.
_FIRST_BYTES = {
    CODEC_NUMBERS["none"]: b"",
    CODEC_NUMBERS["gzip"]: b"\x1f\x8b",
    CODEC_NUMBERS["snappy"]: b"",
    CODEC_NUMBERS["lz4"]: b"\x04\x22\x4d\x18",
    _ZSTD: b"\x28\xb5\x2f\xfd",
}


def only_batch(records: Buffer | None, *, allows_zstd: bool) -> BatchView:
    """Return the one batch that a Produce request may carry for a partition.

    KafkaError INVALID_RECORD for none or several, CORRUPT_MESSAGE for a length or format that
    cannot be, UNSUPPORTED_COMPRESSION_TYPE for zstd from a client too old to know it.
    """
    batches: Sequence[BatchView] = () if records is None else split_batches(records)
    if not batches:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    batch = batches[0]
    if batch.compression == _ZSTD and not allows_zstd:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if len(batches) > 1:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return batch


def begins_transactional(records: Buffer | None) -> bool:
    """Whether the first of several batches, or of what cannot be taken, is of a transaction."""
    try:
        batches = () if records is None else split_batches(records)
    except KafkaError:
        return False
    return any(batch.is_transactional for batch in batches[:1])


def check_codec(batch: BatchView) -> None:
    """Raise KafkaError unless the records begin as those of the batch's codec do.

    UNKNOWN_SERVER_ERROR, since Kafka, which opens every compressed batch, trips over one that does
    not open. Chosen: a look at the first bytes, which tells a mislabelled batch from a good one
    without decompressing them all.
    """
    first_bytes = _FIRST_BYTES.get(batch.compression)
    if first_bytes is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if first_bytes and batch.data[HEAD_SIZE : HEAD_SIZE + len(first_bytes)] != first_bytes:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
