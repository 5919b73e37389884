"""The form of a Produce request's records: exactly one batch per partition.

This is what the request itself must be, whatever the topic; what a topic asks of a batch is
checked by `storage.validation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import split_batches
from kafkalite.storage.compression import CODEC_NUMBERS, CODECS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.ports.files import Buffer
    from kafkalite.storage.batch import BatchView

_ZSTD = CODEC_NUMBERS["zstd"]


def only_batch(records: Buffer | None, *, allows_zstd: bool) -> BatchView:
    """Return the one batch that a Produce request may carry for a partition.

    KafkaError INVALID_RECORD for none or several, CORRUPT_MESSAGE for a length or format that
    cannot be, UNSUPPORTED_COMPRESSION_TYPE for zstd from a client too old to know it.
    """
    batches: Sequence[BatchView] = () if records is None else split_batches(records)
    if not batches:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    batch = batches[0]
    if batch.compression not in CODECS:
        # Kafka trips over a number it has no name for, and says just that.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if batch.compression == _ZSTD and not allows_zstd:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if len(batches) > 1:
        raise KafkaError(ErrorCode.INVALID_RECORD)
    return batch
