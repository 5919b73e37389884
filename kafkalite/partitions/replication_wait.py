"""ReplicationWait: a request that waits for the replicas of its partitions.

A Produce with acks=all waits for the in-sync replicas, and DeleteRecords for all replicas on nodes
that are not fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.replicas import Led
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.ports.clock import Clock, Timer


class Awaited(Protocol):
    """A change of one partition that the replicas must follow."""

    @property
    def partition(self) -> Partition:
        """The changed partition."""

    def is_done(self, table: PartitionTable) -> bool:
        """Return whether the replicas have followed or the change is lost; report an error."""

    def time_out(self) -> None:
        """Report REQUEST_TIMED_OUT."""


class AppendedBatch(NamedTuple):
    """A batch that was appended and is not yet on all in-sync replicas.

    The errors are those of Kafka's DelayedProduce: NOT_LEADER_OR_FOLLOWER when the node learns of
    another leader, NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR has shrunk below its minimum,
    REQUEST_TIMED_OUT at the deadline.
    """

    partition: Partition
    node_id: int
    """The node that appended the batch as the leader."""
    end_offset: int
    leader_epoch: int
    set_error: Callable[[ErrorCode], None]
    """Called if the batch is not acknowledged."""

    def is_done(self, table: PartitionTable) -> bool:
        """Return whether the batch is replicated or lost."""
        seen = self.partition.seen_by(self.node_id)
        error = _error_of(table, self.partition, seen, self.leader_epoch)
        if error is ErrorCode.NONE and seen.high_watermark < self.end_offset:
            return False
        if error is ErrorCode.NONE and not seen.has_enough_replicas:
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if error is not ErrorCode.NONE:
            self.set_error(error)
        return True

    def time_out(self) -> None:
        """Report REQUEST_TIMED_OUT."""
        self.set_error(ErrorCode.REQUEST_TIMED_OUT)


class DeletedRecords(NamedTuple):
    """Deleted records of a partition that some replicas still have.

    The errors are those of Kafka's DelayedDeleteRecords: NOT_LEADER_OR_FOLLOWER when the node
    learns of another leader, REQUEST_TIMED_OUT at the deadline.
    """

    partition: Partition
    node_id: int
    """The node that deleted the records as the leader."""
    offset: int
    leader_epoch: int
    low_watermark: Callable[[], int]
    """Returns the smallest start offset of the replicas."""
    set_result: Callable[[ErrorCode, int | None], None]
    """Called with the final error and low watermark; None leaves the low watermark unchanged."""

    def is_done(self, table: PartitionTable) -> bool:
        """Return whether the replicas have deleted the records, or the leader has changed."""
        seen = self.partition.seen_by(self.node_id)
        error = _error_of(table, self.partition, seen, self.leader_epoch)
        if error is not ErrorCode.NONE:
            self.set_result(error, _NO_WATERMARK)
            return True
        low_watermark = self.low_watermark()
        if low_watermark < self.offset:
            return False
        self.set_result(ErrorCode.NONE, low_watermark)
        return True

    def time_out(self) -> None:
        """Report REQUEST_TIMED_OUT."""
        self.set_result(ErrorCode.REQUEST_TIMED_OUT, None)


_NO_WATERMARK = -1


def _error_of(
    table: PartitionTable, partition: Partition, seen: Led, leader_epoch: int
) -> ErrorCode:
    """Return why a change by the leader of an epoch is lost, NONE if it is not.

    `seen` is the partition as the node knows it that made the change.
    """
    try:
        hosted = table.get(partition.topic_id, partition.index)
    except KafkaError as error:
        return error.code
    if hosted is not partition:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if seen.leader_epoch != leader_epoch or table.is_stopping:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


class _Watch:
    """Watches one partition, so that its change leads to no check of the others."""

    __slots__ = ("_wait", "awaited")

    def __init__(self, wait: ReplicationWait, awaited: Awaited) -> None:
        self._wait = wait
        self.awaited = awaited

    def on_append(self, size: int) -> None:
        """Ignore appended bytes."""

    def on_change(self) -> None:
        """Check the change: the replicas or the leader of its partition have changed."""
        self._wait.check(self)


class ReplicationWait:
    """Waits until the replicas have followed each change, or it is lost; then calls `on_end` once.

    When the broker stops, the wait ends with NOT_LEADER_OR_FOLLOWER, because a broker of Kafka
    gives its leaderships up before it stops.
    """

    __slots__ = ("_on_end", "_pending", "_table", "_timer")

    def __init__(
        self, table: PartitionTable, awaited: Sequence[Awaited], on_end: Callable[[], None]
    ) -> None:
        self._table = table
        self._pending = {_Watch(self, each) for each in awaited}
        self._on_end = on_end
        self._timer: Timer | None = None

    def start(self, clock: Clock, deadline_ms: int) -> None:
        """Begin to wait; `on_end` is called from here if nothing must wait."""
        self._timer = clock.call_at(deadline_ms, self._time_out)
        for watch in tuple(self._pending):
            watch.awaited.partition.watch(watch)
            self.check(watch)

    def check(self, watch: _Watch) -> None:
        """End the wait for a change that the replicas have followed, or that is lost."""
        if watch in self._pending and watch.awaited.is_done(self._table):
            self._pending.remove(watch)
            watch.awaited.partition.unwatch(watch)
            if not self._pending:
                self._stop()
                self._on_end()

    def abandon(self) -> None:
        """End the wait without calling `on_end`, because the client has disconnected."""
        self._stop()

    def _time_out(self) -> None:
        for watch in self._pending:
            watch.awaited.time_out()
        self._stop()
        self._on_end()

    def _stop(self) -> None:
        pending, self._pending = self._pending, set()
        for watch in pending:
            watch.awaited.partition.unwatch(watch)
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
