"""Partition: its log, its leader, its replicas, and the fetches that wait for it.

All nodes of an emulated cluster share one log. The log of a replica is a prefix of it, so a replica
is an offset. Nearly always all replicas follow: then the high watermark is the end of the log, and
`views` is empty. A replica whose node is stopped, isolated or stale has a `ReplicaView`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from kafkalite.metadata.image import NO_LEADER
from kafkalite.partitions.replicas import NO_EPOCH, Led, ReplicaView, check_access
from kafkalite.ports import turns
from kafkalite.ports.named_tuples import NamedTuple
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
from kafkalite.storage.committed_reads import aborted_in_read, readable_bytes
from kafkalite.storage.disk_health import DamagedFileError, FileUse
from kafkalite.storage.record_format import MalformedRecordsError
from kafkalite.storage.timestamps import (
    TimestampAndOffset,
    offset_for_timestamp,
    offset_of_max_timestamp,
)
from kafkalite.storage.validation import validate_and_convert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.config.log_config import LogConfig
    from kafkalite.metadata.image import BrokerImage, PartitionImage
    from kafkalite.partitions.long_poll import Watcher
    from kafkalite.storage.aborted_transactions import AbortedTransaction
    from kafkalite.storage.log import Log
    from kafkalite.storage.transaction_marker import TransactionMarker

NO_OFFSET = -1
TO_HIGH_WATERMARK = -1
"""Offset for `delete_records` that means the high watermark."""


class AppendResult(NamedTuple):
    """Offsets of an appended batch; `append_time_ms` is -1 unless the log sets the time."""

    base_offset: int
    append_time_ms: int
    end_offset: int


class _TransactionEnd(NamedTuple):
    """A transaction that has ended: its first offset, and the end offset of its marker."""

    first_offset: int
    end_offset: int


class Uncommitted(NamedTuple):
    """The high watermark of a partition where it is not the end of the log."""

    high_watermark: int
    transaction_ends: tuple[tuple[int, int], ...]
    """The first offset, and the end offset of the marker, of transactions that ended above it."""


class EpochEnd(NamedTuple):
    """The end of the log of a leader epoch; both -1 when the epoch is unknown."""

    leader_epoch: int
    end_offset: int


@lru_cache(maxsize=8)  # the markers of one transaction differ only in their offsets
def _build_control_batch(marker: TransactionMarker, now_ms: int) -> bytes:
    kind = ControlKind.COMMIT if marker.is_commit else ControlKind.ABORT
    return build_control_batch(
        ControlMarker(kind, marker.coordinator_epoch),
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        now_ms=now_ms,
    )


class BatchVerifier(Protocol):
    """Verifies transactional batches."""

    def verify_again(self, partition: Partition, batch: BatchView) -> bool:
        """Return whether the batch is verified now; raises KafkaError if it may not be appended."""


NOT_FOUND = TimestampAndOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)


def deletion_offset(config: LogConfig, offset: int, high_watermark: int) -> int:
    """Return the offset below which DeleteRecords deletes.

    Raises KafkaError POLICY_VIOLATION for a topic that is only compacted, OFFSET_OUT_OF_RANGE for
    an offset above the high watermark.
    """
    if config.cleanup_policy == {"compact"}:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    if offset == TO_HIGH_WATERMARK:
        return high_watermark
    if not 0 <= offset <= high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return offset


class Partition:
    """A partition of a topic; a topic that is created again has new Partition objects."""

    __slots__ = (
        "_appended_partitions",
        "_replicated_end",
        "_unannounced_bytes",
        "_unreplicated_ends",
        "_watchers",
        "incarnation_epoch",
        "index",
        "is_internal",
        "isr",
        "leader",
        "leader_epoch",
        "log",
        "name",
        "replicas",
        "topic_id",
        "topic_name",
        "views",
    )  # fmt: skip

    def __init__(
        self,
        topic_name: str,
        topic_id: bytes,
        image: PartitionImage,
        log: Log,
        *,
        is_internal: bool = False,
        appended_partitions: list[Partition] | None = None,
    ) -> None:
        self.name = f"{topic_name}-{image.index}"
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.index = image.index
        self.incarnation_epoch = image.incarnation_epoch
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.replicas = image.replicas
        self.isr = image.isr
        self.is_internal = is_internal
        self.log = log
        self.views: dict[int, ReplicaView] = {}
        """Node → its replica or its view of the leader, where they differ from this partition."""
        self._replicated_end: int | None = None
        """The high watermark where it is not the end of the log; None if all replicas follow."""
        self._unreplicated_ends: list[_TransactionEnd] = []
        """Ended transactions whose markers may be above the high watermark."""
        if self.truncation_offset(image) is None:
            log.epochs.assign(image.leader_epoch, log.end_offset)
        self._watchers: dict[Watcher, None] = {}
        self._unannounced_bytes = 0
        self._appended_partitions: list[Partition] = (
            [] if appended_partitions is None else appended_partitions
        )

    def __repr__(self) -> str:
        return self.name

    # --- offsets -------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The offset up to which all in-sync replicas have the log."""
        end_offset = self.log.end_offset
        replicated_end = self._replicated_end
        return end_offset if replicated_end is None else min(replicated_end, end_offset)

    @property
    def end_offset(self) -> int:
        """One past the last record."""
        return self.log.end_offset

    @property
    def log_start_offset(self) -> int:
        """The offset of the oldest record."""
        return self.log.start_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended.

        A transaction has not ended until all in-sync replicas have its marker, as in Kafka.
        """
        log = self.log
        unstable = log.producers.first_unstable_offset
        if self._replicated_end is not None:
            high_watermark = self.high_watermark
            offsets = [end.first_offset for end in self._unreplicated_ends]
            if unstable is not None:
                offsets.append(unstable)
            return min(high_watermark, max(min(offsets, default=high_watermark), log.start_offset))
        return log.end_offset if unstable is None else max(unstable, log.start_offset)

    @property
    def size_bytes(self) -> int:
        """Size of all segments."""
        return self.log.size_bytes

    def limit_offset(self, *, committed: bool) -> int:
        """Return the offset below which a reader with this isolation level may read."""
        if committed:
            return self.last_stable_offset
        return self.log.end_offset if self._replicated_end is None else self.high_watermark

    # --- access --------------------------------------------------------------------------------

    def seen_by(self, node_id: int) -> Partition | ReplicaView:
        """Return the partition as a node knows it: this one, unless its replica or metadata lag."""
        views = self.views
        return self if not views else views.get(node_id, self)

    check_access = check_access

    @property
    def has_enough_replicas(self) -> bool:
        """Whether enough replicas are in sync for acks=all.

        As in Kafka, no more replicas are required than the partition has.
        """
        count = len(self.isr)
        return count >= self.log.config.min_insync_replicas or count >= len(self.replicas)

    def has_enough_replicas_in(self, isr: tuple[int, ...] | None) -> bool:
        """Whether enough replicas are in this ISR; None is the ISR of the partition."""
        count = len(self.isr if isr is None else isr)
        return count >= min(self.log.config.min_insync_replicas, len(self.replicas))

    @property
    def has_lagging_isr(self) -> bool:
        """Whether the high watermark does not follow the log, because a replica in sync lags."""
        return self._replicated_end is not None

    # --- writing -------------------------------------------------------------------------------

    def append(
        self,
        batch: BatchView,
        now_ms: int,
        *,
        is_verified: bool = False,
        verifier: BatchVerifier | None = None,
        led: Led | None = None,
    ) -> AppendResult:
        """Append the batch of a client, and return its offset.

        A duplicate, by producer id and sequence, is not appended again. Its offset is returned,
        with its own timestamp as append time, as in Kafka. `is_verified` means that the transaction
        coordinator has confirmed that a transaction may begin with the batch. Decoding the records
        may pause; `verifier` then verifies the batch again. `led` has the leader epoch if it is not
        that of the partition. Raises KafkaError for an invalid batch or producer state, and OSError
        when the disk fails.
        """
        log = self.log
        pauses = turns.pause_count
        batches = validate_and_convert((batch,), log.config, now_ms=now_ms, partition=self.name)
        if turns.pause_count != pauses and verifier is not None:
            is_verified = verifier.verify_again(self, batch)
        if batch.producer_id > NO_PRODUCER_ID:
            duplicate = log.producers.check(batch, is_verified=is_verified)
            if duplicate is not None:
                return AppendResult(
                    duplicate.first_offset, duplicate.timestamp, duplicate.last_offset + 1
                )
        leader_epoch = self.leader_epoch if led is None else led.leader_epoch
        info = log.append(batches, leader_epoch=leader_epoch, now_ms=now_ms)
        if self._watchers and self._replicated_end is None:
            self._unannounced_bytes += batches[0].size
            self._appended_partitions.append(self)
        return AppendResult(info.base_offset, info.append_time_ms, info.last_offset + 1)

    def append_internal(
        self, batch: BatchView, now_ms: int, *, are_offsets_assigned: bool = False
    ) -> int:
        """Append a batch of the broker itself, wake waiting fetches, and return the end offset.

        `are_offsets_assigned` means that the batch was built for the end of the log, with the
        current leader epoch.
        """
        log = self.log
        log.append(
            (batch,),
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            are_offsets_assigned=are_offsets_assigned,
        )
        if self._watchers and self._replicated_end is None:
            self._unannounced_bytes += batch.size
            self.announce()
        return log.end_offset

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction in this partition, and return the end offset.

        `PartitionTable.announce` wakes fetches of committed records, once for all partitions of the
        transaction. A marker without an open transaction is appended as well, because it may have a
        new epoch. Raises KafkaError INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a
        stale marker, and NOT_ENOUGH_REPLICAS if too few replicas are in sync. Raises OSError when
        the disk fails.
        """
        if not self.has_enough_replicas:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        log = self.log
        log.producers.check_marker(marker)
        batch = BatchView(_build_control_batch(marker, now_ms))
        if log.config.message_timestamp_type == "LogAppendTime":
            batch = batch.with_log_append_time(now_ms)
        ended = None if self._replicated_end is None else log.producers.get(marker.producer_id)
        first_offset = None if ended is None else ended.transaction_first_offset
        log.append((batch,), leader_epoch=self.leader_epoch, now_ms=now_ms)
        if first_offset is not None:
            self._unreplicated_ends.append(_TransactionEnd(first_offset, log.end_offset))
        if self._watchers and self._replicated_end is None:
            self._unannounced_bytes += batch.size
            self._appended_partitions.append(self)
        return log.end_offset

    def delete_records(self, offset: int) -> int:
        """Delete the records below `offset`, and return the new start offset.

        Raises KafkaError POLICY_VIOLATION for a topic that is only compacted, OFFSET_OUT_OF_RANGE
        for an offset above the high watermark.
        """
        offset = deletion_offset(self.log.config, offset, self.high_watermark)
        if offset > self.log.start_offset:
            self.log.delete_before(offset)
        return self.log.start_offset

    def low_watermark(self, brokers: Mapping[int, BrokerImage]) -> int:
        """Return the smallest start offset of all replicas on nodes that are not fenced.

        `brokers` are the nodes that the leader knows.
        """
        start_offsets = [
            view.replica_start
            for node_id, view in self.views.items()
            if view.replica_end is not None
            and node_id in self.replicas
            and (broker := brokers.get(node_id)) is not None
            and not broker.is_fenced
        ]
        return min([self.log.start_offset, *start_offsets])

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        """Return complete batches from `offset` on, below `limit_offset`.

        Raises KafkaError OFFSET_OUT_OF_RANGE if `offset` is outside of the log. Raises
        UNKNOWN_SERVER_ERROR if `max_bytes` is negative and there is data, as Kafka does.
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

    def report_read_failure(self, error: OSError, retry: Callable[[], object]) -> ErrorCode:
        """Report that the log could not be read, and return the error code for the client.

        `retry` repeats the read; when it succeeds, the failure has ended.
        """
        self.log.health.report_failure(self.log.directory, error, FileUse.READING, retry)
        if isinstance(error, DamagedFileError):
            return ErrorCode.CORRUPT_MESSAGE
        return ErrorCode.KAFKA_STORAGE_ERROR

    def readable_bytes(self, offset: int, limit_offset: int) -> int | None:
        """Return the number of bytes between two offsets; None if one read cannot cover them."""
        return readable_bytes(self.log, offset, limit_offset)

    def aborted_in_read(self, offset: int, size: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in the `size` bytes from `offset` on."""
        return aborted_in_read(self.log, offset, size) if size else []

    def is_before_active_segment(self, offset: int) -> bool:
        """Whether `offset` is before the active segment."""
        segments = self.log.segments
        return bool(segments) and offset < segments[-1].base_offset

    def divergence(
        self,
        last_fetched_epoch: int,
        fetch_offset: int,
        view: ReplicaView | None = None,
        *,
        is_leader: bool = True,
    ) -> EpochEnd | None:
        """Return the epoch end where a client's log diverges from this log, or None (KIP-320).

        With `view`, the log is the replica of that view. A node that is not the leader knows only
        epochs with records in its replica.

        Raises KafkaError OFFSET_OUT_OF_RANGE if the epoch is unknown, or the offset was deleted.
        """
        if not is_leader:
            end_offset = self.log.end_offset if view is None else view.end_offset
            if last_fetched_epoch > self.log.epochs.epoch_for(end_offset - 1):
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        epoch_end = self.end_of_epoch(last_fetched_epoch, view)
        if epoch_end.end_offset == NO_OFFSET or fetch_offset < self.log.start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch_end.leader_epoch < last_fetched_epoch or epoch_end.end_offset < fetch_offset:
            return epoch_end
        return None

    def end_of_epoch(self, leader_epoch: int, view: ReplicaView | None = None) -> EpochEnd:
        """Return the end of the largest epoch up to `leader_epoch` in the log, or in a replica."""
        log = self.log
        if view is None:
            return EpochEnd(*log.epochs.end_offset_for(leader_epoch, log.end_offset))
        if leader_epoch > view.leader_epoch:
            return EpochEnd(NO_EPOCH, NO_OFFSET)
        found, end_offset = log.epochs.end_offset_for(leader_epoch, log.end_offset)
        return EpochEnd(found, min(end_offset, view.end_offset))

    def earliest_offset(self) -> TimestampAndOffset:
        """Return the oldest offset, with its leader epoch."""
        start_offset = self.log.start_offset
        return TimestampAndOffset(
            NO_TIMESTAMP, start_offset, self.log.epochs.epoch_for(start_offset)
        )

    def latest_offset(self, limit_offset: int) -> TimestampAndOffset:
        """Return `limit_offset`, which is after the last readable record, with the leader epoch."""
        return TimestampAndOffset(NO_TIMESTAMP, limit_offset, self.leader_epoch)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> TimestampAndOffset:
        """Return the first record at or after `timestamp`, if it is below `limit_offset`.

        Raises KafkaError INVALID_RECORD if it would be in a batch that cannot be decoded.
        """
        try:
            found = offset_for_timestamp(self.log, timestamp)
        except MalformedRecordsError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD) from error
        return NOT_FOUND if found is None or found.offset >= limit_offset else found

    def offset_of_max_timestamp(self, limit_offset: int) -> TimestampAndOffset:
        """Return the record with the largest timestamp, if it is below `limit_offset`.

        Raises KafkaError INVALID_RECORD if it is in a batch that cannot be decoded.
        """
        try:
            found = offset_of_max_timestamp(self.log)
        except MalformedRecordsError as error:
            raise KafkaError(ErrorCode.INVALID_RECORD) from error
        return NOT_FOUND if found is None or found.offset >= limit_offset else found

    # --- waiting -------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> None:
        """Notify `watcher` of appends and changes, until `unwatch`."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Remove `watcher`; no effect if it is unknown."""
        self._watchers.pop(watcher, None)

    def announce(self) -> None:
        """Notify waiting fetches of the bytes appended since the last call."""
        appended_bytes, self._unannounced_bytes = self._unannounced_bytes, 0
        if appended_bytes:
            for watcher in tuple(self._watchers):
                watcher.on_append(appended_bytes)

    def notify_change(self) -> None:
        """End every wait, because the partition has changed."""
        for watcher in tuple(self._watchers):
            watcher.on_change()

    def apply_image(self, image: PartitionImage) -> None:
        """Apply leader, epoch and replicas of a metadata image; the caller notifies the watchers.

        Records that a new leader does not have are removed. Raises OSError if the disk refuses
        that, or has failed before: then readers do not see these records, the log accepts no
        others, and the next start repeats the truncation. A replica that is added has no records
        until it follows, see `cluster.replication`.
        """
        has_new_leader = (self.leader, self.leader_epoch) != (image.leader, image.leader_epoch)
        has_new_replicas = (self.isr, self.replicas) != (image.isr, image.replicas)
        failure = None
        truncation_offset = self.truncation_offset(image)
        if truncation_offset is not None:
            try:
                self.log.truncate_to(truncation_offset)
            except OSError as error:
                failure = error
        if image.leader != NO_LEADER:
            # Without a leader, the last one may not know of that, and append in its epoch.
            self.log.epochs.assign(image.leader_epoch, self.log.end_offset)
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        if has_new_replicas:
            self._add_empty_replicas(image)
        self.replicas = image.replicas
        self.isr = image.isr
        if has_new_replicas or has_new_leader:
            self._set_high_watermark()
        if failure is not None:
            raise failure

    def _add_empty_replicas(self, image: PartitionImage) -> None:
        for node_id in image.replicas:
            is_known = node_id in self.replicas or node_id in self.views
            if not is_known and node_id != image.leader:
                self.views[node_id] = ReplicaView(self, self.log.start_offset)

    def truncation_offset(self, image: PartitionImage) -> int | None:
        """Return where a new leader still has to truncate the log, or None if it does not.

        This is the case until the log has no batch of an earlier epoch after that offset, also
        after a crash. Batches contain their epochs, so lost checkpoints make no difference.
        """
        offset, log = image.epoch_start_offset, self.log
        if not 0 <= offset < log.end_offset:
            return None
        try:
            epoch = log.leader_epoch_at(offset)
        except OSError:
            epoch = log.epochs.epoch_for(offset)
        return offset if epoch < image.truncation_epoch else None

    # --- replicas ------------------------------------------------------------------------------

    def end_offset_of(self, node_id: int) -> int:
        """Return the end offset of a node's replica."""
        view, end_offset = self.views.get(node_id), self.log.end_offset
        if view is None or view.replica_end is None:
            return end_offset
        return min(view.replica_end, end_offset)

    def uncommitted(self) -> Uncommitted | None:
        """Return the high watermark, for `restore_uncommitted`; None at the end of the log."""
        if self._replicated_end is None:
            return None
        return Uncommitted(self.high_watermark, tuple(map(tuple, self._unreplicated_ends)))  # type: ignore[arg-type]  # pairs

    def restore_uncommitted(self, uncommitted: Uncommitted) -> None:
        """Have a high watermark again: too few replicas may be in sync to compute it."""
        self._replicated_end = uncommitted.high_watermark
        self._unreplicated_ends = [_TransactionEnd(*each) for each in uncommitted.transaction_ends]

    def update_high_watermark(self) -> None:
        """Compute the high watermark from the in-sync replicas; wake all waits if it increases."""
        before = self.high_watermark
        self._set_high_watermark()
        if self.high_watermark > before:
            self.notify_change()

    def _set_high_watermark(self) -> None:
        """Compute the high watermark from the in-sync replicas.

        While the ISR is smaller than its minimum, the high watermark does not increase (KIP-966).
        The last leader may not know that the partition has no leader; then its ISR counts.
        """
        led_isrs = (view.led_isr for view in self.views.values() if view.led_isr is not None)
        ends = [
            view.replica_end
            for node_id, view in self.views.items()
            if view.replica_end is not None and node_id in self.isr and node_id != self.leader
        ]
        if not self.has_enough_replicas_in(next(led_isrs, None)):
            ends.append(self.high_watermark)
        self._replicated_end = min(ends, default=None)
        if self._unreplicated_ends:
            # The marker of an offset after the end of the log was truncated.
            high_watermark, end_offset = self.high_watermark, self.end_offset
            self._unreplicated_ends = [
                end
                for end in self._unreplicated_ends
                if high_watermark < end.end_offset <= end_offset
            ]
