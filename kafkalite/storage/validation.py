"""Validation of a produced batch, and its conversion to the topic's settings.

All checks that need only the header of sixty-one bytes are done for every batch. Records are
decompressed only if the topic's configuration requires it: keys of a compacted topic, and limits of
timestamps and of decompressed sizes. Kafka always decompresses them, and also refuses invalid
records with a correct CRC. That check would halve the throughput of all producers, so it is
omitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.config.log_config import UNLIMITED_RECORD_BYTES
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.ports.turns import iterate_with_pauses, run_in_thread
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.error_texts import ErrorText
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import COMPRESSION_MASK, CONTROL, LOG_APPEND_TIME, NO_TIMESTAMP
from kafkalite.storage.compression import CODEC_NUMBERS, CODECS, NO_COMPRESSION, OversizedDataError
from kafkalite.storage.record_format import MalformedRecordsError, read_varint, scan_records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from mmap import mmap

    from kafkalite.config.log_config import LogConfig
    from kafkalite.storage.batch import BatchView

_MAX_LISTED_ERRORS = 3
_INT64_MAX = 2**63 - 1


class RecordError(NamedTuple):
    """A refused record and the reason; `batch_index` is its index in the batch."""

    batch_index: int
    message: str


class InvalidRecordsError(KafkaError):
    """A batch refused because of some records; the client gets these errors and the message."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def validate_and_convert(
    batches: Sequence[BatchView], config: LogConfig, *, now_ms: int, partition: str
) -> list[BatchView]:
    """Check a client's batches, and return them as they are to be appended.

    `partition` is the topic's name, a dash and the index, for messages. Raises KafkaError if a
    batch is invalid. As in Kafka, clients get the message of InvalidRecordsError only.
    """
    converted, size = [], 0
    for batch in batches:
        checked = _validate_and_convert_batch(batch, config, now_ms, partition)
        converted.append(checked)
        size += checked.size
    if size > config.segment_bytes:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "the batches exceed segment.bytes")
    return converted


def _validate_and_convert_batch(
    batch: BatchView, config: LogConfig, now_ms: int, partition: str
) -> BatchView:
    if batch.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch for {partition} has base offset {batch.base_offset} instead of 0",
        )
    _check_size(batch, config, partition)
    if not batch.has_valid_crc():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch for {partition} fails its CRC")
    _check_header(batch, partition)
    if _must_check_records(batch, config, now_ms):
        _check_records(batch, config, now_ms, partition)
    if config.compression_type != "producer":
        batch = _recompress(batch, config, partition)
    if config.message_timestamp_type == "LogAppendTime":
        return batch.with_log_append_time(now_ms)
    return batch.with_create_time() if batch.attributes & LOG_APPEND_TIME else batch


def needs_decompression(batch: BatchView, config: LogConfig, now_ms: int) -> bool:
    """Return whether the records of a client's batch must be decompressed."""
    return config.compression_type != "producer" or _must_check_records(batch, config, now_ms)


def _must_check_records(batch: BatchView, config: LogConfig, now_ms: int) -> bool:
    return (
        "compact" in config.cleanup_policy
        or bool(batch.attributes & LOG_APPEND_TIME)
        or _may_have_invalid_timestamps(batch, config, now_ms)
        or (
            config.max_decompressed_message_bytes < UNLIMITED_RECORD_BYTES
            and _may_have_oversized_records(batch, config)
        )
    )


def _may_have_oversized_records(batch: BatchView, config: LogConfig) -> bool:
    # Kafka limits the records of compressed batches only.
    return (
        config.max_decompressed_message_bytes < UNLIMITED_RECORD_BYTES
        and batch.compression != NO_COMPRESSION
    )


def _check_size(batch: BatchView, config: LogConfig, partition: str) -> None:
    if batch.size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {batch.size} bytes for {partition}, "
            f"max.message.bytes is {config.max_message_bytes}",
        )


def _check_header(batch: BatchView, partition: str) -> None:
    """Refuse a header that is inconsistent, or that only brokers may write."""
    count = batch.record_count
    if count <= 0 or batch.last_offset_delta + 1 != count:
        reason = f"{count} records, the last at delta {batch.last_offset_delta}"
    elif batch.attributes & CONTROL:
        reason = "a control batch from a client"
    elif batch.producer_id >= 0 and batch.base_sequence < 0:
        reason = f"sequence {batch.base_sequence} of producer {batch.producer_id}"
    elif batch.attributes & COMPRESSION_MASK not in CODECS:
        reason = f"compression {batch.compression}"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_RECORD, f"a batch for {partition} with {reason}")


def _may_have_invalid_timestamps(batch: BatchView, config: LogConfig, now_ms: int) -> bool:
    if config.message_timestamp_type != "CreateTime":
        return False
    # The header has only the largest timestamp; a lower bound must be checked for every record.
    return (
        batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms != _INT64_MAX
    )


def _check_records(batch: BatchView, config: LogConfig, now_ms: int, partition: str) -> None:
    needs_keys = "compact" in config.cleanup_policy
    limits_sizes = _may_have_oversized_records(batch, config)
    errors: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    try:
        with batch.decompressed_body() as body:
            records = iterate_with_pauses(scan_records(body, batch.record_count))
            start = 0
            for index, record in enumerate(records):
                if limits_sizes:
                    _check_record_size(body, start, config.max_decompressed_message_bytes)
                    start = record.end_position
                if needs_keys and record.key is None:
                    message = (
                        "Compacted topic cannot accept message without key "
                        f"in topic partition {partition}"
                    )
                    errors.append(RecordError(index, message))
                    continue
                timestamp_error = _timestamp_error(
                    batch, record.timestamp_delta, index, config, now_ms
                )
                if timestamp_error is not None:
                    code = ErrorCode.INVALID_TIMESTAMP
                    errors.append(RecordError(index, timestamp_error))
    except MalformedRecordsError as error:
        raise _decompression_error(error, partition) from error
    if errors:
        raise InvalidRecordsError(code, _error_message(code, errors), tuple(errors))


def _check_record_size(body: bytes | mmap, start: int, limit: int) -> None:
    size, _ = read_varint(body, start)
    if size > limit:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a record of {size} bytes, max.decompressed.message.bytes is {limit}",
        )


def _decompression_error(error: MalformedRecordsError, partition: str) -> KafkaError:
    # A producer that gets MESSAGE_TOO_LARGE splits the batch and sends both halves.
    is_oversized = isinstance(error, OversizedDataError)
    code = ErrorCode.MESSAGE_TOO_LARGE if is_oversized else ErrorCode.INVALID_RECORD
    return KafkaError(code, f"{partition}: {error}")


def _timestamp_error(
    batch: BatchView, delta: int, index: int, config: LogConfig, now_ms: int
) -> str | None:
    """Return the error of a record's timestamp, or None."""
    timestamp = batch.max_timestamp if batch.is_log_append_time else batch.base_timestamp + delta
    if config.message_timestamp_type == "CreateTime" and timestamp != NO_TIMESTAMP:
        earliest = now_ms - config.message_timestamp_before_max_ms
        latest = now_ms + config.message_timestamp_after_max_ms
        if earliest <= timestamp <= latest:
            return None
        return (
            f"Timestamp {timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{earliest}, {latest}]"
        )
    if batch.is_log_append_time:
        return (
            f"Invalid timestamp type in message {index}. "
            "Producer should not set timestamp type to LogAppendTime."
        )
    return None


def _error_message(code: ErrorCode, errors: Sequence[RecordError]) -> str:
    # These texts reach applications in Produce's error_message, and are the same as Kafka's.
    if code == ErrorCode.INVALID_TIMESTAMP:
        return ErrorText.INVALID_TIMESTAMP.template
    listed = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
        for error in errors[:_MAX_LISTED_ERRORS]
    )
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{listed}]"
    )


def _recompress(batch: BatchView, config: LogConfig, partition: str) -> BatchView:
    number = CODEC_NUMBERS[config.compression_type]
    if number == batch.compression:
        return batch
    try:
        recompressed = run_in_thread(lambda: batch.with_compression(number))
    except MalformedRecordsError as error:
        raise _decompression_error(error, partition) from error
    _check_size(recompressed, config, partition)
    return recompressed
