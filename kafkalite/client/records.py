"""Records to produce and consumed records, encoded as batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import CorruptBatchError
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import NO_PRODUCER, TRANSACTIONAL, build_batch, split_batches
from kafkalite.storage.compression import CODEC_NUMBERS
from kafkalite.storage.record_format import Headers, MalformedRecordsError, NewRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.client.fetches import AbortedTransaction
    from kafkalite.storage.batch import BatchProducer, BatchView


class ProducerRecord(NamedTuple):
    """A record to be produced."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    """Milliseconds since the Unix epoch; None for the time at which the record is sent."""


class ConsumerRecord(NamedTuple):
    """A consumed record."""

    partition: TopicPartition
    offset: int
    value: bytes | None
    key: bytes | None
    headers: Headers
    timestamp_ms: int
    """Milliseconds since the Unix epoch."""
    leader_epoch: int
    """The epoch of the leader that wrote the record; -1 if it is unknown."""
    is_log_append_time: bool = False
    """Whether the timestamp is the time at which the broker wrote the record."""


def encode_batch(
    records: Sequence[ProducerRecord],
    now_ms: int,
    *,
    compression: str = "none",
    producer: BatchProducer | None = None,
    is_transactional: bool = False,
) -> bytes:
    """Return records as one batch; raises ValueError if there are none.

    `producer` is that of an idempotent batch, or of one in a transaction.
    """
    if not records:
        raise ValueError("a batch has at least one record")
    return build_batch(
        [
            NewRecord(
                record.key,
                record.value,
                now_ms if record.timestamp_ms is None else record.timestamp_ms,
                record.headers,
            )
            for record in records
        ],
        attributes=CODEC_NUMBERS[compression] | (TRANSACTIONAL if is_transactional else 0),
        producer=NO_PRODUCER if producer is None else producer,
    )


def decode_batches(
    partition: TopicPartition,
    data: bytes,
    position: OffsetAndEpochs,
    partition_epoch: int,
    aborted: Sequence[AbortedTransaction] = (),
) -> tuple[list[ConsumerRecord], OffsetAndEpochs]:
    """Return the records from a position on, and the position after them.

    `partition_epoch` is that of the Fetch response with these batches. The new position has it, and
    the largest leader epoch of the old position and the batches. Records of the transactions
    `aborted` are left out. Raises CorruptBatchError.
    """
    filtered = _AbortedProducers(aborted)
    records: list[ConsumerRecord] = []
    offset, leader_epoch = position.offset, position.leader_epoch
    try:
        for batch in split_batches(data):
            if batch.last_offset < offset:
                continue
            if not batch.has_valid_crc():
                raise CorruptBatchError(f"{partition}: wrong checksum at {batch.base_offset}")
            if not filtered.contains(batch) and not batch.is_control:
                records += _records_of(partition, batch, position.offset)
            offset = batch.last_offset + 1
            leader_epoch = max(leader_epoch, batch.leader_epoch)
    except (KafkaError, MalformedRecordsError) as error:
        raise CorruptBatchError(f"{partition}: {error}") from error
    return records, OffsetAndEpochs(offset, leader_epoch, partition_epoch)


class _AbortedProducers:
    """The producers whose records are aborted, batch by batch."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._pending = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._producer_ids: set[int] = set()

    def contains(self, batch: BatchView) -> bool:
        """Return whether the next batch belongs to an aborted transaction."""
        if not self._pending and not self._producer_ids:
            return False
        while self._pending and self._pending[-1].first_offset <= batch.last_offset:
            self._producer_ids.add(self._pending.pop().producer_id)
        if batch.is_control:
            # A marker ends the transaction of its producer; the next one may be committed.
            self._producer_ids.discard(batch.producer_id)
        return batch.is_transactional and batch.producer_id in self._producer_ids


def _records_of(
    partition: TopicPartition, batch: BatchView, first_offset: int
) -> list[ConsumerRecord]:
    return [
        ConsumerRecord(
            partition,
            record.offset,
            record.value,
            record.key,
            record.headers,
            record.timestamp,
            batch.leader_epoch,
            batch.is_log_append_time,
        )
        for record in batch.records()
        if record.offset >= first_offset
    ]
