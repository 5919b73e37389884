"""What transaction coordinators want done on partitions, and the news brought back to them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.server.outbox import FIRST_RETRY_MS, LAST_RETRY_MS
from kafkalite.storage.marker import TransactionMarker
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.state import TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalite.coordinator.active import ActiveShard
    from kafkalite.groups.coordinator import GroupCoordinator
    from kafkalite.metadata.controller import MetadataController
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.ports.clock import Clock
    from kafkalite.server.outbox import Outbox
    from kafkalite.transactions.coordinator import TransactionCoordinator
    from kafkalite.transactions.shard import TransactionShard
    from kafkalite.transactions.state import TopicPartition

_AT_ONCE = 200
"""Partitions that are told of one transaction before others have their turn."""

_OVERTAKEN = frozenset((
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
))  # fmt: skip
"""What partitions say that have heard of a later transaction."""


class _Unwritten(NamedTuple):
    """What is left of an intent that was begun."""

    intent: WriteMarkers
    partitions: tuple[TopicPartition, ...]
    refused: tuple[TopicPartition, ...] = ()
    """Those that could not be told in this round, and are asked again in the next."""
    is_overtaken: bool = False
    """Whether a partition has heard of a later transaction."""
    pause_ms: int = FIRST_RETRY_MS
    """How long it is to the next round."""

    def next_round(self) -> _Unwritten:
        """Return what is left after this round, the one after that a longer while away."""
        pause_ms = min(2 * self.pause_ms, LAST_RETRY_MS)
        return self._replace(partitions=self.refused, refused=(), pause_ms=pause_ms)


class TransactionIntents:
    """Carries out the intents of transaction coordinators."""

    __slots__ = ("_clock", "_groups", "_metadata", "_outbox", "_partitions", "_transactions")

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: MetadataController,
        partitions: PartitionTable,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._partitions = partitions
        self._groups = groups
        self._transactions = transactions

    def join(self, outbox: Outbox) -> None:
        """Be the one who carries out these intents."""
        self._outbox = outbox
        outbox.assign(WriteMarkers, self.write_markers)
        outbox.assign(_Unwritten, self._go_on)

    def write_markers(self, intent: WriteMarkers) -> None:
        """Tell partitions how a transaction ended, then tell its coordinator that they know.

        One that cannot be told now keeps none of the others waiting, and is told later; where there
        are many, requests are served in between. Partitions that are no more are passed over, and
        so is an intent that waited until its coordinator knew better: by then its producer may have
        begun anew, under the epoch that these markers would end. Where a partition has heard of a
        later transaction, somebody else wrote markers; as in Kafka, this one then stays as it is.
        """
        self._go_on(_Unwritten(intent, intent.partitions))

    def _go_on(self, unwritten: _Unwritten) -> None:
        intent = unwritten.intent
        shard = self._keeper(intent)
        if shard is None:
            return
        left = self._tell_some(unwritten, shard.partition)
        if left.partitions:
            self._outbox.carry_out_later(left, 0)
        elif left.refused:
            self._outbox.carry_out_later(left.next_round(), left.pause_ms)
        elif not left.is_overtaken:
            try:
                shard.write(lambda machine, now_ms: machine.markers_written(intent, now_ms))
            except KafkaError:
                self._outbox.carry_out_later(left.next_round(), left.pause_ms)

    def _tell_some(self, unwritten: _Unwritten, kept_on: int) -> _Unwritten:
        """Tell as many partitions as may be told at once, and return what is left then."""
        marker = self._marker(unwritten.intent, kept_on)
        refused = list(unwritten.refused)
        is_overtaken = unwritten.is_overtaken
        try:
            for topic, index in unwritten.partitions[:_AT_ONCE]:
                try:
                    is_overtaken |= not self._write_marker(topic, index, marker)
                except KafkaError:
                    refused.append((topic, index))
        finally:
            self._partitions.announce()
        return unwritten._replace(
            partitions=unwritten.partitions[_AT_ONCE:],
            refused=tuple(refused),
            is_overtaken=is_overtaken,
        )

    def _marker(self, intent: WriteMarkers, kept_on: int) -> TransactionMarker:
        led = self._metadata.image.partition(TRANSACTION_STATE_TOPIC, kept_on)
        return TransactionMarker(
            producer_id=intent.producer_id,
            producer_epoch=intent.producer_epoch,
            coordinator_epoch=0 if led is None else led.leader_epoch,
            is_commit=intent.is_commit,
            transaction_version=intent.transaction_version,
        )

    def _keeper(self, intent: WriteMarkers) -> ActiveShard[TransactionShard] | None:
        """Return the shard that still wants this done, None when there is none.

        It is not the one that the id falls on where the topic grew since.
        """
        decided = (
            TransactionState.PREPARE_COMMIT if intent.is_commit else TransactionState.PREPARE_ABORT
        )
        expected = (decided, intent.producer_id, intent.producer_epoch)
        transactional_id = intent.transactional_id
        for shard in self._shards(transactional_id):
            try:
                known = shard.machine.describe(transactional_id)
            except KafkaError:
                continue
            if (known.state, known.producer_id, known.producer_epoch) == expected:
                return shard
        return None

    def _shards(self, transactional_id: str) -> Iterator[ActiveShard[TransactionShard]]:
        """Yield every shard, the one that the id falls on before all others."""
        with suppress(KafkaError):
            yield self._transactions.shard_for(transactional_id)
        yield from self._transactions.shards()

    def _write_marker(self, topic: str, index: int, marker: TransactionMarker) -> bool:
        """Tell a partition, and return whether it took the marker or is no more."""
        hosted = self._partitions.topic(topic)
        partition = None if hosted is None else hosted.partition(index)
        if partition is None:
            return True
        try:
            if topic == OFFSETS_TOPIC:
                self._groups.end_transaction(index, marker)
            else:
                partition.append_marker(marker, self._clock.now_ms())
        except KafkaError as error:
            if error.code in _OVERTAKEN:
                return False
            raise
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, error.strerror) from error
        return True
