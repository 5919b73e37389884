"""Conversion of message sets, as clients before Kafka 0.11 produce them, to batches of format 2.

The rules are those of LogValidator in Kafka 3.9, whose logs have format 2 only (KIP-724).
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from kafkalite.ports.turns import iterate_with_pauses, run_in_thread
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME,
    MAGIC_2,
    MAGIC_POSITION,
    MAX_DECOMPRESSED_RECORDS,
    NO_TIMESTAMP,
    BatchView,
    build_batch,
)
from kafkalite.storage.compression import (
    CODEC_NUMBERS,
    CODECS,
    NO_COMPRESSION,
    OversizedDataError,
    decompress,
)
from kafkalite.storage.message_format import (
    MAGIC_0,
    MAGIC_1,
    Message,
    decode_message,
    split_messages,
)
from kafkalite.storage.old_lz4 import to_standard_lz4
from kafkalite.storage.record_format import MalformedRecordsError, NewRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafkalite.ports.files import Buffer

_LZ4 = CODEC_NUMBERS["lz4"]
_ZSTD = CODEC_NUMBERS["zstd"]
_ATTRIBUTES_POSITION = MAGIC_POSITION + 1
_SHORT_BYTES = 16 * 1024


class MessageSet:
    """The messages of a producer for one partition; they may be none."""

    __slots__ = ("_records",)

    is_transactional = False
    """Transactions need format 2."""

    def __init__(self, records: Buffer) -> None:
        """View a set; raises KafkaError CORRUPT_MESSAGE if its first message is too short."""
        next(split_messages(records), None)
        self._records = records

    def to_batch(self) -> BatchView | None:
        """Return the batch with the messages as its records; None if there are no messages.

        Raises KafkaError: CORRUPT_MESSAGE for a wrong CRC, INVALID_RECORD for messages that do not
        belong together, UNKNOWN_SERVER_ERROR for those that Kafka fails to decode,
        MESSAGE_TOO_LARGE for more than MAX_DECOMPRESSED_RECORDS and for too many bytes.
        """
        try:
            outer = _decode(self._records)
            if not outer:
                return None
            codec = _codec_of(outer)
            inner = outer if codec == NO_COMPRESSION else unwrap(outer[0])
        except OversizedDataError as error:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
        except MalformedRecordsError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        records = [_record(message) for message in iterate_with_pauses(inner)]
        time_type = LOG_APPEND_TIME if outer[0].is_log_append_time else 0
        build = partial(build_batch, records, attributes=codec | time_type)
        return BatchView(build() if codec == NO_COMPRESSION else run_in_thread(build))


def is_message_set(records: Buffer | None) -> bool:
    """Return whether records begin with a message of format 0 or 1, or have no batch.

    Raises KafkaError UNKNOWN_SERVER_ERROR for null.
    """
    if records is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no records")
    return len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] < MAGIC_2


def takes_long(records: Buffer) -> bool:
    """Return whether the conversion may take long, because a set is large or compressed."""
    return len(records) > _SHORT_BYTES or (
        len(records) > _ATTRIBUTES_POSITION
        and bool(records[_ATTRIBUTES_POSITION] & COMPRESSION_MASK)
    )


def _decode(data: Buffer) -> list[Message]:
    """Return the messages of a set; raises OversizedDataError for too many to have in memory."""
    entries = islice(split_messages(data), MAX_DECOMPRESSED_RECORDS + 1)
    messages = [decode_message(*each) for each in iterate_with_pauses(entries)]
    if len(messages) > MAX_DECOMPRESSED_RECORDS:
        raise OversizedDataError(f"more than {MAX_DECOMPRESSED_RECORDS} messages in one set")
    return messages


def _codec_of(messages: Sequence[Message]) -> int:
    """Return the codec of the messages; raises KafkaError if they do not belong together."""
    codec = NO_COMPRESSION
    for message in messages:
        if message.compression not in CODECS:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"compression {message.compression}")
        codec = message.compression or codec
    if codec != NO_COMPRESSION and len(messages) > 1:
        raise _invalid("a compressed message and others")
    _check_formats(messages, messages[0].magic)
    return codec


def _check_formats(messages: Iterable[Message], magic: int) -> None:
    for message in messages:
        if message.magic != magic:
            raise _invalid(f"messages of the formats {magic} and {message.magic}")


def unwrap(wrapper: Message) -> Sequence[Message]:
    """Return the messages in the value of a compressed message; in format 1, offsets are relative.

    Raises KafkaError as `MessageSet.to_batch`, and MalformedRecordsError.
    """
    codec, value = wrapper.compression, wrapper.value
    if codec == _ZSTD or value is None:
        raise _invalid("no message set that its format can have")
    if codec == _LZ4 and wrapper.magic == MAGIC_0:
        value = to_standard_lz4(value)
    messages = _decode(decompress(codec, value))
    if not messages:
        raise _invalid("an empty compressed message")
    _check_formats(messages, wrapper.magic)
    if any(message.compression for message in messages):
        raise _invalid("a compressed message in a compressed one")
    # The offset of the wrapper is 0 in sets of some releases of librdkafka.
    if wrapper.magic == MAGIC_1 and 0 != wrapper.offset < messages[-1].offset:
        raise _invalid("an offset after that of the wrapper")
    if wrapper.is_log_append_time:
        return [message._replace(timestamp=wrapper.timestamp) for message in messages]
    return messages


def _record(message: Message) -> NewRecord:
    if message.timestamp < NO_TIMESTAMP:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"timestamp {message.timestamp}")
    return NewRecord(message.key, message.value, message.timestamp)


def _invalid(what: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"a message set with {what}")
