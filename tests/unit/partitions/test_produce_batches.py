"""A Produce request has exactly one batch per partition, of a kind that its version supports."""

from __future__ import annotations

import pytest

from kafkalite.partitions.produce_batches import (
    check_codec,
    is_first_batch_transactional,
    parse_single_batch,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import TRANSACTIONAL, BatchProducer, BatchView
from kafkalite.storage.compression import CODEC_NUMBERS
from tests.unit.data_plane import batch_of

BATCH = batch_of(b"v")
ZSTD = batch_of(b"v", attributes=CODEC_NUMBERS["zstd"])


def test_one_batch_is_accepted_and_an_incomplete_second_ignored() -> None:
    assert parse_single_batch(BATCH, allows_zstd=True).size == len(BATCH)
    assert parse_single_batch(BATCH + BATCH[:-1], allows_zstd=True).size == len(BATCH)
    assert parse_single_batch(ZSTD, allows_zstd=True).size == len(ZSTD)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (ZSTD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (ZSTD + ZSTD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_other_records_are_refused(records: bytes | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        parse_single_batch(records, allows_zstd=False)
    assert caught.value.code == code


@pytest.mark.parametrize("number", [1, 3, 4, 5, 6, 7])
def test_uncompressed_records_with_a_codec_are_refused(number: int) -> None:
    batch = BatchView(BATCH[:22] + bytes((number,)) + BATCH[23:])
    with pytest.raises(KafkaError) as caught:
        check_codec(batch)
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_transactional_flag_is_read_from_the_first_of_several_batches() -> None:
    of_transaction = batch_of(b"v", attributes=TRANSACTIONAL, producer=BatchProducer(1, 0, 0))
    assert is_first_batch_transactional(of_transaction + BATCH)
    assert not is_first_batch_transactional(BATCH + of_transaction)
    assert not is_first_batch_transactional(None)
    assert not is_first_batch_transactional(b"")
    assert not is_first_batch_transactional(bytes(16) + b"\1" + bytes(60))
