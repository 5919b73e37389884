"""One partition: its log, who leads it, and who waits for it.

All nodes of an emulated cluster share the one log, so every replica is always in sync: the high
watermark is the log's end, and a change of leader moves no data.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BatchView,
    ControlKind,
    ControlMarker,
    build_control_batch,
)
from kafkalite.storage.committed import aborted_in_read, readable_bytes
from kafkalite.storage.records import MalformedRecordsError
from kafkalite.storage.timestamps import (
    FoundOffset,
    offset_for_timestamp,
    offset_of_max_timestamp,
)
from kafkalite.storage.validation import prepare

if TYPE_CHECKING:
    from kafkalite.metadata.image import PartitionImage
    from kafkalite.partitions.long_poll import Watcher
    from kafkalite.storage.aborted import AbortedTransaction
    from kafkalite.storage.log import Log
    from kafkalite.storage.marker import TransactionMarker

NO_EPOCH = -1
NO_OFFSET = -1
TO_HIGH_WATERMARK = -1
"""Asks `delete_records` to delete all there is."""


class Appended(NamedTuple):
    """Where a batch is in the log; `append_time_ms` is -1 where records keep their own time."""

    base_offset: int
    append_time_ms: int


class EpochEnd(NamedTuple):
    """Where the log of a leader epoch ends; both -1 when the epoch is not known."""

    leader_epoch: int
    end_offset: int


@lru_cache(maxsize=8)  # what one transaction leaves in each partition differs by its offset alone
def _control_batch(marker: TransactionMarker, now_ms: int) -> bytes:
    kind = ControlKind.COMMIT if marker.is_commit else ControlKind.ABORT
    return build_control_batch(
        ControlMarker(kind, marker.coordinator_epoch),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        now_ms=now_ms,
    )


NOT_FOUND = FoundOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)


class Partition:
    """A partition as its topic's current incarnation has it."""

    __slots__ = (
        "_arrived", "_touched", "_watches", "index", "is_internal", "isr",
        "leader", "leader_epoch", "log", "name", "replicas", "topic_id", "topic_name",
    )  # fmt: skip

    def __init__(
        self,
        topic_name: str,
        topic_id: bytes,
        image: PartitionImage,
        log: Log,
        *,
        is_internal: bool = False,
        touched: list[Partition] | None = None,
    ) -> None:
        self.name = f"{topic_name}-{image.index}"
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.index = image.index
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        self.is_internal = is_internal
        self.log = log
        log.epochs.assign(image.leader_epoch, log.end_offset)
        self._watches: dict[Watcher, None] = {}
        self._arrived = 0
        self._touched: list[Partition] = [] if touched is None else touched

    def __repr__(self) -> str:
        return self.name

    # --- what a reader may see -----------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The offset below which records are safe: the end of the one log there is."""
        return self.log.end_offset

    @property
    def end_offset(self) -> int:
        """One past the last record."""
        return self.log.end_offset

    @property
    def log_start_offset(self) -> int:
        """The offset of the oldest record still kept."""
        return self.log.start_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended."""
        log = self.log
        unstable = log.producers.first_unstable_offset
        return log.end_offset if unstable is None else max(unstable, log.start_offset)

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return self.log.size_bytes

    def limit_offset(self, *, committed: bool) -> int:
        """Return the offset below which a reader of that isolation may read."""
        return self.last_stable_offset if committed else self.log.end_offset

    # --- who may ask ---------------------------------------------------------------------------

    def admit(
        self, node_id: int, current_leader_epoch: int = NO_EPOCH, *, leader_only: bool = True
    ) -> None:
        """Raise KafkaError unless `node_id` may answer for this partition (KIP-320).

        NOT_LEADER_OR_FOLLOWER when it has no copy, or does not lead where only the leader will
        do; FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH when the asker's epoch is not ours.
        """
        leads = node_id == self.leader
        if not leads and node_id not in self.replicas:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch not in (self.leader_epoch, NO_EPOCH):
            raise KafkaError(
                ErrorCode.FENCED_LEADER_EPOCH
                if current_leader_epoch < self.leader_epoch
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if leader_only and not leads:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    @property
    def has_enough_replicas(self) -> bool:
        """Whether as many replicas are in sync as acks=all wants; never more than there are."""
        count = len(self.isr)
        return count >= self.log.config.min_insync_replicas or count >= len(self.replicas)

    # --- writing -------------------------------------------------------------------------------

    def append(self, batch: BatchView, now_ms: int, *, is_verified: bool = False) -> Appended:
        """Append the batch of a client, and return where it is.

        A batch that is in the log already, by its producer id and sequence, is not appended again:
        its old place is returned, with its own timestamp as the time of appending, as Kafka does.
        `is_verified` when the transaction coordinator knows that a transaction may begin with it.
        KafkaError as the topic and the producer's state demand; OSError when the disk fails.
        """
        log = self.log
        batches = prepare((batch,), log.config, now_ms=now_ms, partition=self.name)
        if batch.producer_id > NO_PRODUCER_ID:
            duplicate = log.producers.check(batch, is_verified=is_verified)
            if duplicate is not None:
                return Appended(duplicate.first_offset, duplicate.timestamp)
        info = log.append(batches, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if self._watches:
            self._arrived += batches[0].size
            self._touched.append(self)
        return Appended(info.base_offset, info.append_time_ms)

    def append_own(self, batch: BatchView, now_ms: int, *, is_placed: bool = False) -> int:
        """Append a batch of the broker's own, tell who waits, and return the end offset.

        `is_placed` when it was built for the end of the log, in this leader epoch.
        """
        log = self.log
        log.append((batch,), leader_epoch=self.leader_epoch, now_ms=now_ms, are_placed=is_placed)
        if self._watches:
            self._arrived += batch.size
            self.announce()
        return log.end_offset

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction here, and return the end offset.

        Whoever waits for committed records is told by `PartitionTable.announce`, once all
        partitions of the transaction are done. A marker without an open transaction is appended
        as well, since it may tell of a new epoch. KafkaError INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED for one that comes too late, NOT_ENOUGH_REPLICAS while too
        few are in sync, on which coordinators do not insist for their own logs; OSError when the
        disk fails.
        """
        if not (self.is_internal or self.has_enough_replicas):
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        log = self.log
        log.producers.check_marker(marker)
        batch = BatchView(_control_batch(marker, now_ms))
        if log.config.message_timestamp_type == "LogAppendTime":
            batch = batch.with_log_append_time(now_ms)
        log.append((batch,), leader_epoch=self.leader_epoch, now_ms=now_ms)
        if self._watches:
            self._arrived += batch.size
            self._touched.append(self)
        return log.end_offset

    def delete_records(self, offset: int) -> int:
        """Delete the records below `offset`, and return the oldest offset that is left.

        KafkaError POLICY_VIOLATION for a topic that is only compacted, OFFSET_OUT_OF_RANGE for an
        offset above the high watermark.
        """
        if self.log.config.cleanup_policy == {"compact"}:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        if offset == TO_HIGH_WATERMARK:
            offset = self.high_watermark
        if not 0 <= offset <= self.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset > self.log.start_offset:
            self.log.delete_before(offset)
        return self.log.start_offset

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        """Return whole batches from `offset` on, below `limit_offset`.

        KafkaError OFFSET_OUT_OF_RANGE when the log does not reach to `offset`, and
        UNKNOWN_SERVER_ERROR for a negative size of what is there, over which Kafka stumbles.
        """
        log = self.log
        if not log.start_offset <= offset <= log.end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset >= limit_offset:
            return b""
        if max_bytes <= 0:
            if max_bytes < 0:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            if not at_least_one:
                return b""
        return log.read(
            offset, max_bytes=max_bytes, limit_offset=limit_offset, at_least_one=at_least_one
        )

    def readable_bytes(self, offset: int, limit_offset: int) -> int | None:
        """Return how much lies between two offsets, None where one read does not reach so far."""
        return readable_bytes(self.log, offset, limit_offset)

    def aborted_in_read(self, offset: int, size: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in the `size` bytes from `offset` on."""
        return aborted_in_read(self.log, offset, size) if size else []

    def is_behind(self, offset: int) -> bool:
        """Whether `offset` lies before the segment that is appended to."""
        segments = self.log.segments
        return bool(segments) and offset < segments[-1].base_offset

    def divergence(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
        """Return where a reader's log parts from ours, or None while it does not (KIP-320).

        KafkaError OFFSET_OUT_OF_RANGE when that epoch is not known, or the offset is gone.
        """
        epoch_end = self.end_of_epoch(last_fetched_epoch)
        if epoch_end.end_offset == NO_OFFSET or fetch_offset < self.log.start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch_end.leader_epoch < last_fetched_epoch or epoch_end.end_offset < fetch_offset:
            return epoch_end
        return None

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        """Return the end of the largest epoch up to `leader_epoch` that the log knows."""
        return EpochEnd(*self.log.epochs.end_offset_for(leader_epoch, self.log.end_offset))

    def earliest_offset(self) -> FoundOffset:
        """Return the oldest offset, with the epoch it was written in."""
        start_offset = self.log.start_offset
        return FoundOffset(NO_TIMESTAMP, start_offset, self.log.epochs.epoch_for(start_offset))

    def latest_offset(self, limit_offset: int) -> FoundOffset:
        """Return the offset that the next record to be read will have."""
        return FoundOffset(NO_TIMESTAMP, limit_offset, self.leader_epoch)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> FoundOffset:
        """Return the first record at or after `timestamp`, if it is below `limit_offset`.

        KafkaError INVALID_RECORD when it would be in a batch that cannot be read.
        """
        try:
            found = offset_for_timestamp(self.log, timestamp)
        except MalformedRecordsError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD) from error
        return NOT_FOUND if found is None or found.offset >= limit_offset else found

    def offset_of_max_timestamp(self, limit_offset: int) -> FoundOffset:
        """Return the record with the largest timestamp, if it is below `limit_offset`.

        KafkaError INVALID_RECORD when it is in a batch that cannot be read.
        """
        try:
            found = offset_of_max_timestamp(self.log)
        except MalformedRecordsError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD) from error
        return NOT_FOUND if found is None or found.offset >= limit_offset else found

    # --- waiting -------------------------------------------------------------------------------

    def watch(self, watch: Watcher) -> None:
        """Tell `watch` what arrives, until `unwatch`."""
        self._watches[watch] = None

    def unwatch(self, watch: Watcher) -> None:
        """Forget `watch`; harmless when it is unknown."""
        self._watches.pop(watch, None)

    def announce(self) -> None:
        """Tell who waits how much arrived since they were told last."""
        arrived, self._arrived = self._arrived, 0
        if arrived:
            for watch in tuple(self._watches):
                watch.on_append(arrived)

    def disturb(self) -> None:
        """End every wait: what they wait for is not what it was."""
        for watch in tuple(self._watches):
            watch.on_change()

    def follow(self, image: PartitionImage) -> None:
        """Take over leader, epoch and replicas as the metadata has them now."""
        moved = (self.leader, self.leader_epoch) != (image.leader, image.leader_epoch)
        self.log.epochs.assign(image.leader_epoch, self.log.end_offset)
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        if moved:
            self.disturb()
