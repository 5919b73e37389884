"""RecordSender: sends numbered records, and says which record a broker refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError, ClientError, no_partition_text
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.key_partition import partition_of_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafkalite.client.producer import Producer
    from kafkalite.client.records import ProducerRecord

_MAX_BATCH_BYTES: Final = 512 * 1024
"""Maximum keys and values of a batch with several records: half of the default of brokers."""
_TOO_LARGE: Final = frozenset((ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE))


class NumberedRecord(NamedTuple):
    """A record, the number of its line, and its partition; None to select it by the key."""

    number: int
    record: ProducerRecord
    partition: int | None = None


class SentRecord(NamedTuple):
    """The number of a line, and the position of its record; the offset is -1 if it is unknown."""

    number: int
    partition: int
    offset: int


class RecordRefusedError(ClientError):
    """A broker or the client refuses a record; the text has the number of its line."""


class RecordSender:
    """Sends records to one topic: by key as Java's producer does, without a key in turns.

    With `on_refusal`, a refusal of records does not raise: `on_refusal` is called with its reason,
    and the other records are sent.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition_count: int,
        *,
        on_refusal: Callable[[str], None] | None = None,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition_count = partition_count
        self._next_partition = 0
        self._on_refusal = on_refusal

    async def send(self, records: Sequence[NumberedRecord]) -> list[SentRecord]:
        """Send records, and return their positions in the order of their numbers.

        Raises RecordRefusedError, or another ClientError. Earlier records may have been written
        then, also those of other partitions with larger numbers.
        """
        by_partition: dict[int, list[NumberedRecord]] = {}
        for each in records:
            by_partition.setdefault(self._partition_of(each), []).append(each)
        sent: list[SentRecord] = []
        for index, rows in by_partition.items():
            for batch in _batches(rows):
                sent += await self._send_batch(TopicPartition(self._topic, index), batch)
        return sorted(sent)

    def _partition_of(self, numbered: NumberedRecord) -> int:
        count = self._partition_count
        partition, key = numbered.partition, numbered.record.key
        if partition is not None:
            if not 0 <= partition < count:
                text = no_partition_text(self._topic, partition, count)
                raise RecordRefusedError(f"line {numbered.number}: {text}")
            return partition
        if not count:
            text = f"topic {self._topic!r} has no partition yet"
            raise RecordRefusedError(f"line {numbered.number}: {text}")
        if key is not None:
            return partition_of_key(key, count)
        partition = self._next_partition
        self._next_partition = (partition + 1) % count
        return partition

    async def _send_batch(
        self, partition: TopicPartition, batch: Sequence[NumberedRecord]
    ) -> list[SentRecord]:
        """Send a batch, in halves if it is too large."""
        try:
            written = await self._producer.send_batch(partition, [each.record for each in batch])
        except BrokerError as error:
            if error.code not in _TOO_LARGE:
                if self._on_refusal is None:
                    raise
                self._on_refusal(error.reason)
                return []
            if len(batch) == 1:
                self._refuse_size(batch[0], error.code)
                return []
            middle = len(batch) // 2
            first = await self._send_batch(partition, batch[:middle])
            return first + await self._send_batch(partition, batch[middle:])
        start = written.first_offset
        return [
            SentRecord(each.number, partition.partition, start if start < 0 else start + position)
            for position, each in enumerate(batch)
        ]

    def _refuse_size(self, numbered: NumberedRecord, code: ErrorCode) -> None:
        text = (
            f"line {numbered.number}: the record of {_size(numbered):,} bytes is too large for "
            f"topic {self._topic!r} ({code.name}); max.message.bytes is its limit"
        )
        if self._on_refusal is None:
            raise RecordRefusedError(text) from None
        self._on_refusal(text)


def _size(numbered: NumberedRecord) -> int:
    return len(numbered.record.key or b"") + len(numbered.record.value or b"")


def _batches(records: Sequence[NumberedRecord]) -> Iterator[Sequence[NumberedRecord]]:
    """Yield consecutive records whose keys and values are not too large for one batch."""
    start, size = 0, 0
    for position, each in enumerate(records):
        size += _size(each)
        if size > _MAX_BATCH_BYTES and position > start:
            yield records[start:position]
            start, size = position, _size(each)
    yield records[start:]
