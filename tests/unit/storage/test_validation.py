"""Validation of clients' batches, and their conversion to the topic's settings."""

from __future__ import annotations

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    MAX_DECOMPRESSED_RECORDS,
    BatchProducer,
    BatchView,
    assemble,
    build_batch,
)
from kafkalite.storage.compression import compress
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.validation import InvalidRecordsError, RecordError, validate_and_convert
from tests.unit.storage.logs import batch

NOW_MS = 1_000_000
DEFAULT = LogConfig()
COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))


def converted(view: BatchView, config: LogConfig = DEFAULT) -> BatchView:
    (result,) = validate_and_convert([view], config, now_ms=NOW_MS, partition="t-0")
    return result


def refusal(view: BatchView, config: LogConfig = DEFAULT) -> KafkaError:
    with pytest.raises(KafkaError) as refused:
        converted(view, config)
    return refused.value


def with_counts(
    last_offset_delta: int, record_count: int, payload: bytes = b"anything", codec: int = 0
) -> BatchView:
    return BatchView(
        assemble(
            payload,
            base_offset=0,
            leader_epoch=-1,
            attributes=codec,
            last_offset_delta=last_offset_delta,
            base_timestamp=0,
            max_timestamp=0,
            producer=BatchProducer(),
            record_count=record_count,
        )
    )


def test_ordinary_batch_is_neither_changed_nor_decompressed() -> None:
    garbage = with_counts(4, 5)
    assert converted(garbage) is garbage


@pytest.mark.parametrize(("last_delta", "count"), [(-1, 0), (0, 0), (0, -1), (0, 2), (2, 2)])
def test_inconsistent_record_count_is_refused(last_delta: int, count: int) -> None:
    assert refusal(with_counts(last_delta, count)).code is ErrorCode.INVALID_RECORD


def test_producer_id_without_sequence_is_refused() -> None:
    assert refusal(batch(b"v", producer=BatchProducer(1, 0, -1))).code is ErrorCode.INVALID_RECORD
    assert converted(batch(b"v", producer=BatchProducer(1, 0, 0))).producer_id == 1


def test_an_unknown_compression_is_refused() -> None:
    view = BatchView(
        assemble(
            b"", base_offset=0, leader_epoch=0, attributes=6, last_offset_delta=0,
            base_timestamp=0, max_timestamp=0, producer=BatchProducer(), record_count=1,
        )
    )  # fmt: skip
    assert refusal(view).code is ErrorCode.INVALID_RECORD


def test_max_message_bytes_applies_to_the_whole_batch() -> None:
    view = batch(b"v" * 100)
    assert converted(view, DEFAULT._replace(max_message_bytes=view.size)) is view
    too_small = DEFAULT._replace(max_message_bytes=view.size - 1)
    assert refusal(view, too_small).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", range(5))
def test_compacted_topic_requires_keys(codec: int) -> None:
    view = batch(b"1", b"2", b"3", keys=[b"k", None, b"k"], attributes=codec)
    error = refusal(view, COMPACT)
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_RECORD
    message = "Compacted topic cannot accept message without key in topic partition t-0"
    assert error.record_errors == (RecordError(1, message),)
    assert error.message == (
        "One or more records have been rejected due to 1 record errors in total, and only "
        "showing the first three errors at most: "
        f"[RecordError(batchIndex=1, message='{message}')]"
    )
    assert converted(batch(b"1", None, attributes=codec), COMPACT).record_count == 2


def test_message_has_three_errors_and_the_list_all() -> None:
    error = refusal(batch(b"1", b"2", b"3", b"4", keys=[None] * 4), COMPACT)
    assert isinstance(error, InvalidRecordsError)
    assert [each.batch_index for each in error.record_errors] == [0, 1, 2, 3]
    assert error.message is not None
    assert error.message.count("batchIndex") == 3
    assert "4 record errors" in error.message


def test_invalid_records_are_refused_when_checked() -> None:
    assert refusal(with_counts(0, 1), COMPACT).code is ErrorCode.INVALID_RECORD
    garbage = BatchView(
        assemble(
            b"not gzip", base_offset=0, leader_epoch=0, attributes=1, last_offset_delta=0,
            base_timestamp=0, max_timestamp=0, producer=BatchProducer(), record_count=1,
        )
    )  # fmt: skip
    assert refusal(garbage, COMPACT).code is ErrorCode.INVALID_RECORD
    recompressing = DEFAULT._replace(compression_type="zstd")
    assert refusal(garbage, recompressing).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("timestamp", "config", "is_refused"),
    [
        (NOW_MS + 3_600_000, DEFAULT, False),
        (NOW_MS + 3_600_001, DEFAULT, True),
        (0, DEFAULT, False),
        (-1, DEFAULT, False),
        (NOW_MS - 500, DEFAULT._replace(message_timestamp_before_max_ms=500), False),
        (NOW_MS - 501, DEFAULT._replace(message_timestamp_before_max_ms=500), True),
        (-1, DEFAULT._replace(message_timestamp_before_max_ms=500), False),
        (NOW_MS + 3_600_001, DEFAULT._replace(message_timestamp_type="LogAppendTime"), False),
    ],
)
def test_timestamps_have_bounds(timestamp: int, config: LogConfig, is_refused: bool) -> None:  # noqa: FBT001
    view = batch(b"v", timestamp=timestamp)
    if not is_refused:
        assert converted(view, config).record_count == 1
        return
    error = refusal(view, config)
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert error.message == "One or more records have been rejected due to invalid timestamp"
    earliest = NOW_MS - config.message_timestamp_before_max_ms
    latest = NOW_MS + config.message_timestamp_after_max_ms
    assert error.record_errors == (
        RecordError(
            0,
            f"Timestamp {timestamp} of message with offset 0 is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]",
        ),
    )


@pytest.mark.parametrize(
    ("compression_type", "codec"),
    [("producer", 1), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)],
)
def test_batch_is_recompressed_for_the_topic(compression_type: str, codec: int) -> None:
    view = batch(b"a" * 100, b"b" * 100, attributes=1)
    result = converted(view, DEFAULT._replace(compression_type=compression_type))
    assert result.compression == codec
    assert result.has_valid_crc()
    assert result.records() == view.records()
    assert (result is view) == (codec == 1)


def test_recompressed_batch_must_fit_max_message_bytes() -> None:
    view = batch(b"a" * 10_000, attributes=4)
    config = DEFAULT._replace(compression_type="uncompressed", max_message_bytes=5000)
    assert refusal(view, config).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("config", [COMPACT, LogConfig(compression_type="gzip")])
@pytest.mark.parametrize("codec", [2, 3, 4])
def test_batch_with_oversized_content_is_too_large(
    config: LogConfig, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that gets this error splits the batch."""
    monkeypatch.setattr("kafkalite.storage.compression.MAX_DECOMPRESSED_BYTES", 1_000_000)
    view = with_counts(0, 1, compress(codec, bytes(1_000_001)), codec)
    assert refusal(view, config).code is ErrorCode.MESSAGE_TOO_LARGE


def test_batch_with_too_many_records_is_too_large() -> None:
    many = with_counts(MAX_DECOMPRESSED_RECORDS, MAX_DECOMPRESSED_RECORDS + 1)
    assert refusal(many, COMPACT).code is ErrorCode.MESSAGE_TOO_LARGE
    assert converted(many) is many


@pytest.mark.parametrize("codec", range(5))
def test_records_of_compressed_batches_have_a_maximum_size(codec: int) -> None:
    records = [NewRecord(b"k", bytes(size), 1) for size in (10, 100, 20)]
    view = BatchView(build_batch(records, attributes=codec))
    # Attributes, two deltas, the lengths of key, value and headers, and a value of 100 bytes.
    size = 1 + 1 + 1 + 2 + 2 + 100 + 1
    assert converted(view, LogConfig(max_decompressed_message_bytes=size)) is view
    smaller = LogConfig(max_decompressed_message_bytes=size - 1)
    if codec:
        assert refusal(view, smaller).code is ErrorCode.INVALID_RECORD
    else:
        assert converted(view, smaller) is view
