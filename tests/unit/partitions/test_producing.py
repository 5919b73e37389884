"""A Produce request carries exactly one batch per partition, of a kind its version knows."""

from __future__ import annotations

import pytest

from kafkalite.partitions.producing import begins_transactional, check_codec, only_batch
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import TRANSACTIONAL, BatchView, Producer
from kafkalite.storage.compression import CODEC_NUMBERS
from tests.unit.data_plane import batch_of

BATCH = batch_of(b"v")
ZSTD = batch_of(b"v", attributes=CODEC_NUMBERS["zstd"])


def test_one_batch_is_taken_and_a_cut_tail_forgotten() -> None:
    assert only_batch(BATCH, allows_zstd=True).size == len(BATCH)
    assert only_batch(BATCH + BATCH[:-1], allows_zstd=True).size == len(BATCH)
    assert only_batch(ZSTD, allows_zstd=True).size == len(ZSTD)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (BATCH[:20], ErrorCode.INVALID_RECORD),
        (BATCH + BATCH, ErrorCode.INVALID_RECORD),
        (ZSTD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (ZSTD + ZSTD, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_anything_else_is_refused(records: bytes | None, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as caught:
        only_batch(records, allows_zstd=False)
    assert caught.value.code == code


@pytest.mark.parametrize("number", CODEC_NUMBERS.values())
def test_records_in_their_own_codec_pass(number: int) -> None:
    check_codec(BatchView(memoryview(batch_of(b"v", attributes=number))))


@pytest.mark.parametrize("number", [1, 3, 4, 5, 6, 7])
def test_plain_records_that_claim_to_be_compressed_do_not(number: int) -> None:
    batch = BatchView(BATCH[:22] + bytes((number,)) + BATCH[23:])
    with pytest.raises(KafkaError) as caught:
        check_codec(batch)
    assert caught.value.code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_transaction_is_seen_in_the_first_of_several_batches() -> None:
    of_transaction = batch_of(b"v", attributes=TRANSACTIONAL, producer=Producer(1, 0, 0))
    assert begins_transactional(of_transaction + BATCH)
    assert not begins_transactional(BATCH + of_transaction)
    assert not begins_transactional(None)
    assert not begins_transactional(b"")
    assert not begins_transactional(bytes(16) + b"\1" + bytes(60))
