"""Reading of messages of formats 0 and 1, as clients and brokers before Kafka 0.11 have them.

They are rare, so each one is decoded by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.capture.model import ProblemKind
from kafkalite.lab.columnar.records.record_batches import BatchError
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.compression import NO_COMPRESSION
from kafkalite.storage.message_format import ENTRY, MAGIC_0, Message, decode_message
from kafkalite.storage.record_format import MalformedRecordsError
from kafkalite.storage.up_conversion import unwrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.lab.columnar.arrays import Bytes
    from kafkalite.lab.columnar.records.record_batches import OldMessage


class DecodedMessages(NamedTuple):
    """The messages of one entry: a message, or those in a compressed one."""

    messages: Sequence[Message]
    """With absolute offsets; at least one."""
    is_log_append_time: bool


def decode_messages(data: Bytes, old_message: OldMessage) -> DecodedMessages | BatchError:
    """Decode a message, and those in it if it is compressed; a damaged one is an error."""
    position, size, _ = old_message
    entry = data.data[position : position + size]
    offset, _ = ENTRY.unpack_from(entry)
    try:
        outer = decode_message(offset, entry[ENTRY.size :])
        messages: Sequence[Message] = (outer,)
        if outer.compression != NO_COMPRESSION:
            messages = _with_absolute_offsets(outer, unwrap(outer))
    except KafkaError as error:
        return _damaged(old_message, error.message or error.code.name)
    except MalformedRecordsError as error:
        return _damaged(old_message, str(error).partition("\n")[0])
    return DecodedMessages(messages, outer.is_log_append_time)


def _damaged(old_message: OldMessage, reason: str) -> BatchError:
    return BatchError(
        old_message.range_index, old_message.position, ProblemKind.CORRUPT_BLOCK, reason
    )


def _with_absolute_offsets(wrapper: Message, inner: Sequence[Message]) -> Sequence[Message]:
    """Return inner messages with the offsets that Kafka computes.

    In format 1 the wrapper has the offset of the last one, or 0 from some releases of librdkafka
    (`AbstractLegacyRecordBatch.DeepRecordsIterator`).
    """
    if wrapper.magic == MAGIC_0 or not wrapper.offset:
        return inner
    first = wrapper.offset - inner[-1].offset
    return [message._replace(offset=first + message.offset) for message in inner]
