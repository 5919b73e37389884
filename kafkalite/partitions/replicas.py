"""ReplicaView: a partition as one node knows it, while its replica or its metadata lag."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafkalite.metadata.image import BrokerImage
    from kafkalite.partitions.long_poll import Watcher
    from kafkalite.partitions.partition import AppendResult, BatchVerifier, EpochEnd, Partition
    from kafkalite.storage.aborted_transactions import AbortedTransaction
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.log import Log
    from kafkalite.storage.timestamps import TimestampAndOffset

NO_EPOCH = -1


class Leader(NamedTuple):
    """A partition's leader, its epoch and the replicas, as a node knows them."""

    node_id: int
    epoch: int
    replicas: tuple[int, ...]


class Led(Protocol):
    """A partition with a leader."""

    @property
    def leader(self) -> int:
        """The node that leads it."""

    @property
    def leader_epoch(self) -> int:
        """The epoch of the leader."""

    @property
    def replicas(self) -> tuple[int, ...]:
        """The nodes with replicas."""


def check_access(
    led: Led, node_id: int, current_leader_epoch: int = NO_EPOCH, *, leader_only: bool = True
) -> None:
    """Raise KafkaError unless `node_id` may answer for a partition (KIP-320).

    NOT_LEADER_OR_FOLLOWER if it has no replica, or is not the leader where only the leader may
    answer; FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH if the client's epoch differs.
    """
    is_leader = node_id == led.leader
    if not is_leader and node_id not in led.replicas:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if current_leader_epoch not in (led.leader_epoch, NO_EPOCH):
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH
            if current_leader_epoch < led.leader_epoch
            else ErrorCode.UNKNOWN_LEADER_EPOCH
        )
    if leader_only and not is_leader:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class ReplicaView:
    """A partition as one node knows it; reads end at the end of the node's replica.

    `replica_end` is the end offset of a replica that does not follow the log; None if it does.
    `replica_start` is then its start offset: DeleteRecords waits until the replica follows.
    `caught_up_ms` is when it last followed. `known_leader` is the leader in stale metadata; None if
    the node's metadata is current. `led_isr` is the ISR of a node that has led the partition, and
    does not know that the partition has no leader now: the node still leads. Otherwise it is None.
    """

    __slots__ = (
        "caught_up_ms",
        "known_leader",
        "led_isr",
        "partition",
        "replica_end",
        "replica_start",
    )

    def __init__(self, partition: Partition, replica_end: int | None = None) -> None:
        self.partition = partition
        self.replica_end = replica_end
        self.replica_start = partition.log_start_offset
        self.caught_up_ms = 0
        self.known_leader: Leader | None = None
        self.led_isr: tuple[int, ...] | None = None

    def __repr__(self) -> str:
        return f"{self.partition.name} as known up to offset {self.end_offset}"

    # --- leader --------------------------------------------------------------------------------

    @property
    def leader(self) -> int:
        """The leader that the node knows."""
        known = self.known_leader
        return self.partition.leader if known is None else known.node_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch that the node knows."""
        known = self.known_leader
        return self.partition.leader_epoch if known is None else known.epoch

    @property
    def replicas(self) -> tuple[int, ...]:
        """The replicas that the node knows."""
        known = self.known_leader
        return self.partition.replicas if known is None else known.replicas

    def check_access(
        self, node_id: int, current_leader_epoch: int = NO_EPOCH, *, leader_only: bool = True
    ) -> None:
        """Raise KafkaError unless the node may answer; see `check_access`."""
        check_access(self, node_id, current_leader_epoch, leader_only=leader_only)

    # --- writing; see the methods of Partition -------------------------------------------------

    @property
    def accepts_records(self) -> bool:
        """Whether the node appends records, because it is the leader as far as it knows."""
        return self.led_isr is not None

    @property
    def has_enough_replicas(self) -> bool:
        """Whether enough replicas are in sync for acks=all."""
        return self.partition.has_enough_replicas_in(self.led_isr)

    def is_in_transaction(self, batch: BatchView) -> bool:
        """Whether the producer of a batch has an open transaction; raises KafkaError if stale."""
        return self.partition.log.producers.is_in_transaction(batch)

    def append(
        self,
        batch: BatchView,
        now_ms: int,
        *,
        is_verified: bool = False,
        verifier: BatchVerifier | None = None,
    ) -> AppendResult:
        """Append the batch of a client, in the epoch that the node knows."""
        return self.partition.append(
            batch, now_ms, is_verified=is_verified, verifier=verifier, led=self
        )

    def delete_records(self, offset: int) -> int:
        """Delete the records below `offset`; raises NOT_LEADER_OR_FOLLOWER for a former leader."""
        if self.led_isr is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.partition.delete_records(offset)

    def low_watermark(self, brokers: Mapping[int, BrokerImage]) -> int:
        """Return the smallest start offset of all replicas on nodes that are not fenced."""
        return self.partition.low_watermark(brokers)

    # --- offsets -------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The end offset of the node's replica."""
        end_offset = self.partition.log.end_offset
        return end_offset if self.replica_end is None else min(self.replica_end, end_offset)

    @property
    def high_watermark(self) -> int:
        """The high watermark that the node knows."""
        return min(self.partition.high_watermark, self.end_offset)

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset that the node knows."""
        return min(self.partition.last_stable_offset, self.end_offset)

    @property
    def log_start_offset(self) -> int:
        """The offset of the oldest record."""
        return self.partition.log_start_offset

    def limit_offset(self, *, committed: bool) -> int:
        """Return the offset below which a reader with this isolation level may read."""
        return self.last_stable_offset if committed else self.high_watermark

    # --- reading; see the methods of Partition -------------------------------------------------

    @property
    def log(self) -> Log:
        """The log of the partition, which may be longer than the node's replica."""
        return self.partition.log

    @property
    def index(self) -> int:
        """The index of the partition."""
        return self.partition.index

    @property
    def name(self) -> str:
        """The topic and the index of the partition."""
        return self.partition.name

    @property
    def topic_name(self) -> str:
        """The topic of the partition."""
        return self.partition.topic_name

    @property
    def incarnation_epoch(self) -> int:
        """The partition epoch of KIP-232, which the partition has from its creation on."""
        return self.partition.incarnation_epoch

    def read(self, offset: int, *, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        """Return complete batches; raises OFFSET_OUT_OF_RANGE after the end of the replica."""
        if offset > self.end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return self.partition.read(
            offset, max_bytes=max_bytes, limit_offset=limit_offset, at_least_one=at_least_one
        )

    def report_read_failure(self, error: OSError, retry: Callable[[], object]) -> ErrorCode:
        """Report that the log could not be read, and return the error code for the client."""
        return self.partition.report_read_failure(error, retry)

    def readable_bytes(self, offset: int, limit_offset: int) -> int | None:
        """Return the number of bytes between two offsets; None if one read cannot cover them."""
        return self.partition.readable_bytes(offset, limit_offset)

    def aborted_in_read(self, offset: int, size: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records in the `size` bytes from `offset` on."""
        return self.partition.aborted_in_read(offset, size)

    def is_before_active_segment(self, offset: int) -> bool:
        """Whether `offset` is before the active segment."""
        return self.partition.is_before_active_segment(offset)

    def divergence(
        self, last_fetched_epoch: int, fetch_offset: int, *, is_leader: bool = True
    ) -> EpochEnd | None:
        """Return the epoch end where a client's log diverges from this replica, or None."""
        return self.partition.divergence(
            last_fetched_epoch, fetch_offset, view=self, is_leader=is_leader
        )

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        """Return the end of the largest epoch up to `leader_epoch` in the node's replica."""
        return self.partition.end_of_epoch(leader_epoch, view=self)

    def earliest_offset(self) -> TimestampAndOffset:
        """Return the oldest offset, with its leader epoch."""
        return self.partition.earliest_offset()

    def latest_offset(self, limit_offset: int) -> TimestampAndOffset:
        """Return the offset after the last readable record, with the epoch that the node knows."""
        return self.partition.latest_offset(limit_offset)._replace(leader_epoch=self.leader_epoch)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> TimestampAndOffset:
        """Return the first record at or after `timestamp`, if it is below `limit_offset`."""
        return self.partition.offset_for_timestamp(timestamp, limit_offset)

    def offset_of_max_timestamp(self, limit_offset: int) -> TimestampAndOffset:
        """Return the record with the largest timestamp, if it is below `limit_offset`."""
        return self.partition.offset_of_max_timestamp(limit_offset)

    def watch(self, watcher: Watcher) -> None:
        """Notify `watcher` of appends and changes, until `unwatch`."""
        self.partition.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Remove `watcher`; no effect if it is unknown."""
        self.partition.unwatch(watcher)
