"""What transaction coordinators want done on partitions, and the news brought back to them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from kafkalite.metadata.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
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

_OVERTAKEN = frozenset((
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED,
))  # fmt: skip
"""What partitions say that have heard of a later transaction."""


class TransactionIntents:
    """Carries out the intents of transaction coordinators."""

    __slots__ = ("_clock", "_groups", "_metadata", "_partitions", "_transactions")

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
        outbox.assign(WriteMarkers, self.write_markers)

    def write_markers(self, intent: WriteMarkers) -> None:
        """Tell partitions how a transaction ended, then tell its coordinator that they know.

        KafkaError when one of them cannot be told now; then those before it are told once more,
        which they can bear. Partitions that are no more are passed over, and so is an intent that
        waited until its coordinator knew better: by then its producer may have begun anew, under
        the epoch that these markers would end. Where a partition has heard of a later transaction,
        somebody else wrote markers; as in Kafka, this one then stays as it is.
        """
        shard = self._keeper(intent)
        if shard is None:
            return
        led = self._metadata.image.partition(TRANSACTION_STATE_TOPIC, shard.partition)
        marker = TransactionMarker(
            producer_id=intent.producer_id,
            producer_epoch=intent.producer_epoch,
            coordinator_epoch=0 if led is None else led.leader_epoch,
            is_commit=intent.is_commit,
            transaction_version=intent.transaction_version,
        )
        is_overtaken = False
        try:
            for topic, index in intent.partitions:
                is_overtaken |= not self._write_marker(topic, index, marker)
        finally:
            self._partitions.announce()
        if not is_overtaken:
            shard.write(lambda machine, now_ms: machine.markers_written(intent, now_ms))

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
