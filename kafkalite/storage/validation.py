"""What a client's batch must be before it may be appended, and what the topic makes of it.

Everything that the sixty-one bytes of head can tell is checked on every batch. The records are
opened where the topic's configuration asks about them (keys of a compacted topic, timestamps out
of bounds) and there alone; Kafka opens them always, and so also refuses records that are garbage
under a right CRC. Chosen because a producer that computes the CRC over garbage is not worth
halving the throughput of all others for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import CONTROL, NO_TIMESTAMP
from kafkalite.storage.compression import CODEC_NUMBERS, CODECS, OversizedDataError
from kafkalite.storage.records import MalformedRecordsError, scan_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.log_config import LogConfig
    from kafkalite.storage.batch import BatchView

_SHOWN_ERRORS = 3
_INT64_MAX = 2**63 - 1


class RecordError(NamedTuple):
    """Why one record was refused; `batch_index` counts the records of the batch from 0."""

    batch_index: int
    message: str


class RecordsRefusedError(KafkaError):
    """A batch refused for some of its records; the client is told which, and the message."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: tuple[RecordError, ...]
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


def prepare(
    batches: Sequence[BatchView], config: LogConfig, *, now_ms: int, partition: str
) -> list[BatchView]:
    """Return a client's batches as they are to be appended; KafkaError when they may not be.

    `partition` is the topic's name, a dash and the index, for messages. Of the errors raised,
    clients are told the message of RecordsRefusedError only, as Kafka does.
    """
    prepared = [_prepare_batch(batch, config, now_ms, partition) for batch in batches]
    if sum(batch.size for batch in prepared) > config.segment_bytes:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "the batches exceed segment.bytes")
    return prepared


def _prepare_batch(batch: BatchView, config: LogConfig, now_ms: int, partition: str) -> BatchView:
    if batch.base_offset != 0:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"a batch for {partition} has base offset {batch.base_offset} instead of 0",
        )
    _check_size(batch, config, partition)
    if not batch.has_valid_crc():
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch for {partition} fails its CRC")
    _check_head(batch, partition)
    is_compacted = "compact" in config.cleanup_policy
    is_log_append_time = config.message_timestamp_type == "LogAppendTime"
    if is_compacted or batch.is_log_append_time or _may_be_out_of_bounds(batch, config, now_ms):
        _check_records(batch, config, now_ms, partition)
    if config.compression_type != "producer":
        batch = _recompressed(batch, config, partition)
    if is_log_append_time:
        return batch.with_log_append_time(now_ms)
    return batch.with_create_time() if batch.is_log_append_time else batch


def _check_size(batch: BatchView, config: LogConfig, partition: str) -> None:
    if batch.size > config.max_message_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {batch.size} bytes for {partition}, "
            f"max.message.bytes is {config.max_message_bytes}",
        )


def _check_head(batch: BatchView, partition: str) -> None:
    """Refuse a head that contradicts itself, or that only brokers may write."""
    count = batch.record_count
    if count <= 0 or batch.last_offset_delta + 1 != count:
        reason = f"{count} records, the last at delta {batch.last_offset_delta}"
    elif batch.attributes & CONTROL:
        reason = "a control batch from a client"
    elif batch.producer_id >= 0 and batch.base_sequence < 0:
        reason = f"sequence {batch.base_sequence} of producer {batch.producer_id}"
    elif batch.compression not in CODECS:
        reason = f"compression {batch.compression}"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_RECORD, f"a batch for {partition} with {reason}")


def _may_be_out_of_bounds(batch: BatchView, config: LogConfig, now_ms: int) -> bool:
    if config.message_timestamp_type != "CreateTime":
        return False
    # The head knows the largest timestamp only; a lower bound takes a look at every record.
    return (
        batch.max_timestamp - now_ms > config.message_timestamp_after_max_ms
        or config.message_timestamp_before_max_ms != _INT64_MAX
    )


def _check_records(batch: BatchView, config: LogConfig, now_ms: int, partition: str) -> None:
    needs_keys = "compact" in config.cleanup_policy
    errors: list[RecordError] = []
    code = ErrorCode.INVALID_RECORD
    try:
        for index, record in enumerate(scan_records(batch.body(), batch.record_count)):
            if needs_keys and record.key is None:
                message = (
                    "Compacted topic cannot accept message without key "
                    f"in topic partition {partition}"
                )
                errors.append(RecordError(index, message))
                continue
            wrong_time = _wrong_time(batch, record.timestamp_delta, index, config, now_ms)
            if wrong_time is not None:
                code = ErrorCode.INVALID_TIMESTAMP
                errors.append(RecordError(index, wrong_time))
    except MalformedRecordsError as error:
        raise _unreadable(error, partition) from error
    if errors:
        raise RecordsRefusedError(code, _refusal(code, errors), tuple(errors))


def _unreadable(error: MalformedRecordsError, partition: str) -> KafkaError:
    # A producer that hears MESSAGE_TOO_LARGE splits the batch and sends its halves.
    is_oversized = isinstance(error, OversizedDataError)
    code = ErrorCode.MESSAGE_TOO_LARGE if is_oversized else ErrorCode.INVALID_RECORD
    return KafkaError(code, f"{partition}: {error}")


def _wrong_time(
    batch: BatchView, delta: int, index: int, config: LogConfig, now_ms: int
) -> str | None:
    """Return what is wrong with a record's timestamp, if anything."""
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


def _refusal(code: ErrorCode, errors: Sequence[RecordError]) -> str:
    # These sentences reach applications through Produce's error_message: they are Kafka's.
    if code == ErrorCode.INVALID_TIMESTAMP:
        return "One or more records have been rejected due to invalid timestamp"
    shown = ", ".join(
        f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
        for error in errors[:_SHOWN_ERRORS]
    )
    return (
        f"One or more records have been rejected due to {len(errors)} record errors in total, "
        f"and only showing the first three errors at most: [{shown}]"
    )


def _recompressed(batch: BatchView, config: LogConfig, partition: str) -> BatchView:
    number = CODEC_NUMBERS[config.compression_type]
    if number == batch.compression:
        return batch
    try:
        recompressed = batch.with_compression(number)
    except MalformedRecordsError as error:
        raise _unreadable(error, partition) from error
    _check_size(recompressed, config, partition)
    return recompressed
