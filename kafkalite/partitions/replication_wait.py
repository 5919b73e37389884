"""ReplicationWait: a Produce request with acks=all that waits for the in-sync replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kafkalite.partitions.partition import Partition
    from kafkalite.partitions.table import PartitionTable
    from kafkalite.ports.clock import Clock, Timer


class AppendedBatch(NamedTuple):
    """A batch that was appended and is not yet on all in-sync replicas."""

    partition: Partition
    end_offset: int
    leader_epoch: int
    set_error: Callable[[ErrorCode], None]
    """Called if the batch is not acknowledged."""


class _BatchWatch:
    """Watches the partition of one batch, so that its change leads to no check of the others."""

    __slots__ = ("_wait", "batch")

    def __init__(self, wait: ReplicationWait, batch: AppendedBatch) -> None:
        self._wait = wait
        self.batch = batch

    def on_append(self, size: int) -> None:
        """Ignore appended bytes."""

    def on_change(self) -> None:
        """Check the batch: the high watermark or the leader of its partition has changed."""
        self._wait.check(self)


class ReplicationWait:
    """Waits until each batch is replicated or lost; then calls `on_end` once.

    The errors are those of Kafka's DelayedProduce: NOT_LEADER_OR_FOLLOWER after a change of the
    leader, NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR has shrunk below its minimum,
    REQUEST_TIMED_OUT at the deadline.
    """

    __slots__ = ("_on_end", "_pending", "_table", "_timer")

    def __init__(
        self, table: PartitionTable, batches: Sequence[AppendedBatch], on_end: Callable[[], None]
    ) -> None:
        self._table = table
        self._pending = {_BatchWatch(self, batch) for batch in batches}
        self._on_end = on_end
        self._timer: Timer | None = None

    def start(self, clock: Clock, deadline_ms: int) -> None:
        """Begin to wait; `on_end` is called from here if no batch must wait."""
        self._timer = clock.call_at(deadline_ms, self._time_out)
        for watch in tuple(self._pending):
            watch.batch.partition.watch(watch)
            self.check(watch)

    def check(self, watch: _BatchWatch) -> None:
        """End the wait for a batch that is replicated or lost."""
        if watch in self._pending and self._is_done(watch.batch):
            self._pending.remove(watch)
            watch.batch.partition.unwatch(watch)
            if not self._pending:
                self._stop()
                self._on_end()

    def abandon(self) -> None:
        """End the wait without calling `on_end`, because the client has disconnected."""
        self._stop()

    def _is_done(self, batch: AppendedBatch) -> bool:
        partition = batch.partition
        error = self._error_of(batch)
        if error is ErrorCode.NONE and partition.high_watermark < batch.end_offset:
            return False
        if error is ErrorCode.NONE and not partition.has_enough_replicas:
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if error is not ErrorCode.NONE:
            batch.set_error(error)
        return True

    def _error_of(self, batch: AppendedBatch) -> ErrorCode:
        partition = batch.partition
        try:
            hosted = self._table.get(partition.topic_id, partition.index)
        except KafkaError as error:
            return error.code
        if hosted is not partition:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader_epoch != batch.leader_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _time_out(self) -> None:
        for watch in self._pending:
            watch.batch.set_error(ErrorCode.REQUEST_TIMED_OUT)
        self._stop()
        self._on_end()

    def _stop(self) -> None:
        pending, self._pending = self._pending, set()
        for watch in pending:
            watch.batch.partition.unwatch(watch)
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
