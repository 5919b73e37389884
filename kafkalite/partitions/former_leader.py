"""FormerLeader: a partition as its former leader knows it while it does not know the next leader.

As in Kafka, such a leader appends records, and loses them when it learns of the next leader. Its
high watermark does not increase, because no other replica follows it. So no client can read these
records: only their offsets and their producers are stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.partitions.partition import (
    AppendResult,
    BatchVerifier,
    EpochEnd,
    deletion_offset,
)
from kafkalite.partitions.replicas import ReplicaView
from kafkalite.ports import turns
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP
from kafkalite.storage.timestamps import TimestampAndOffset
from kafkalite.storage.validation import validate_and_convert

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.metadata.image import BrokerImage
    from kafkalite.partitions.partition import Partition
    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.producer_state import ProducerStateTable

NO_OFFSET = -1


class FormerLeaderState(NamedTuple):
    """What a former leader knows, apart from what every view has."""

    leader: int
    """The node itself."""
    first_lost_offset: int
    end_offset: int
    start_offset: int
    high_watermark: int
    last_stable_offset: int
    low_watermark: int
    has_enough_replicas: bool
    producers: ProducerStateTable
    """The producers; nothing changes it."""


class FormerLeader(ReplicaView):
    """A partition as a former leader knows it; created before the change of the leader.

    `brokers` are the nodes that the former leader knows.
    """

    __slots__ = (
        "_config",
        "_end_offset",
        "_first_lost_offset",
        "_has_enough_replicas",
        "_high_watermark",
        "_last_stable_offset",
        "_low_watermark",
        "_node_id",
        "_producers",
        "_start_offset",
    )

    def __init__(self, partition: Partition, brokers: Mapping[int, BrokerImage]) -> None:
        super().__init__(partition, partition.end_offset)
        self._node_id = partition.leader
        self._config = partition.log.config
        self._first_lost_offset = self._end_offset = partition.end_offset
        self._start_offset = partition.log_start_offset
        self._high_watermark = partition.high_watermark
        self._last_stable_offset = partition.last_stable_offset
        self._low_watermark = partition.low_watermark(brokers)
        self._has_enough_replicas = partition.has_enough_replicas
        self._producers = partition.log.producers.copy()

    def state(self) -> FormerLeaderState:
        """Return what it knows, for `of`."""
        return FormerLeaderState(
            self._node_id,
            self._first_lost_offset,
            self._end_offset,
            self._start_offset,
            self._high_watermark,
            self._last_stable_offset,
            self._low_watermark,
            self._has_enough_replicas,
            self._producers.copy(),
        )

    @classmethod
    def of(cls, partition: Partition, state: FormerLeaderState) -> FormerLeader:
        """Return a former leader of a partition that continues from a state."""
        view = cls(partition, {})
        view._node_id = state.leader
        view._first_lost_offset, view._end_offset = state.first_lost_offset, state.end_offset
        view._start_offset = state.start_offset
        view._high_watermark = state.high_watermark
        view._last_stable_offset = state.last_stable_offset
        view._low_watermark = state.low_watermark
        view._has_enough_replicas = state.has_enough_replicas
        view._producers = state.producers.copy()
        return view

    @property
    def accepts_records(self) -> bool:
        """Whether the node appends records: as long as it does not know the next leader."""
        return self.leader == self._node_id

    @property
    def has_enough_replicas(self) -> bool:
        """Whether enough replicas are in sync for acks=all, as far as the node knows."""
        return self._has_enough_replicas

    def as_follower(self) -> ReplicaView:
        """Return the view of the node when it knows the next leader, and does not follow it yet."""
        view = ReplicaView(self.partition, self.replica_end)
        view.replica_start = self.replica_start
        view.caught_up_ms = self.caught_up_ms
        view.known_leader = self.known_leader
        return view

    # --- offsets -------------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The end offset with the records that will be lost."""
        return self._end_offset

    @property
    def lost_offsets(self) -> range:
        """The offsets of the records that it has appended."""
        return range(self._first_lost_offset, self._end_offset)

    @property
    def high_watermark(self) -> int:
        """The high watermark at the change of the leader.

        A later unclean election may have removed records from the log.
        """
        common_end = self.partition.end_offset if self.replica_end is None else self.replica_end
        return min(self._high_watermark, common_end)

    @property
    def last_stable_offset(self) -> int:
        """The last stable offset at the change of the leader."""
        return min(self._last_stable_offset, self.high_watermark)

    @property
    def log_start_offset(self) -> int:
        """The offset of the oldest record that is in this replica and in the log."""
        return max(self._start_offset, self.partition.log_start_offset)

    # --- writing -------------------------------------------------------------------------------

    def is_in_transaction(self, batch: BatchView) -> bool:
        """Whether the producer of a batch has an open transaction here; see `ReplicaView`."""
        return self._producers.is_in_transaction(batch)

    def append(
        self,
        batch: BatchView,
        now_ms: int,
        *,
        is_verified: bool = False,
        verifier: BatchVerifier | None = None,
    ) -> AppendResult:
        """Give the batch of a client its offsets; see `Partition.append`."""
        partition, config = self.partition, self._config
        pauses = turns.pause_count
        batches = validate_and_convert((batch,), config, now_ms=now_ms, partition=partition.name)
        if turns.pause_count != pauses and verifier is not None:
            is_verified = verifier.verify_again(partition, batch)
        if batch.producer_id > NO_PRODUCER_ID:
            duplicate = self._producers.check(batch, is_verified=is_verified)
            if duplicate is not None:
                return AppendResult(
                    duplicate.first_offset, duplicate.timestamp, duplicate.last_offset + 1
                )
        base_offset = self._end_offset
        for appended in batches:
            appended.base_offset = self._end_offset
            self._end_offset += appended.last_offset_delta + 1
            self._producers.update(appended)
        last = batches[-1]
        append_time_ms = last.max_timestamp if last.attributes & LOG_APPEND_TIME else NO_TIMESTAMP
        return AppendResult(base_offset, append_time_ms, self._end_offset)

    def delete_records(self, offset: int) -> int:
        """Delete the records of this replica below `offset`; see `Partition.delete_records`."""
        offset = deletion_offset(self._config, offset, self._high_watermark)
        self._start_offset = max(self._start_offset, offset)
        return self.log_start_offset

    def low_watermark(self, brokers: Mapping[int, BrokerImage]) -> int:
        """Return the smallest start offset of the replicas, as far as the node knows it."""
        del brokers
        return min(self._low_watermark, self.log_start_offset)

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, *, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        """Return complete batches; raises OFFSET_OUT_OF_RANGE outside of this replica."""
        if not self.log_start_offset <= offset <= self._end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset >= limit_offset:
            return b""
        return self.partition.read(
            offset, max_bytes=max_bytes, limit_offset=limit_offset, at_least_one=at_least_one
        )

    def earliest_offset(self) -> TimestampAndOffset:
        """Return the oldest offset, with its leader epoch."""
        start_offset = self.log_start_offset
        epoch = self.partition.log.epochs.epoch_for(start_offset)
        return TimestampAndOffset(NO_TIMESTAMP, start_offset, min(epoch, self.leader_epoch))

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        """Return the end of the largest epoch up to `leader_epoch` in this replica."""
        if leader_epoch == self.leader_epoch:
            return EpochEnd(leader_epoch, self._end_offset)
        return super().end_of_epoch(leader_epoch)

    def divergence(
        self, last_fetched_epoch: int, fetch_offset: int, *, is_leader: bool = True
    ) -> EpochEnd | None:
        """Return the epoch end where a client's log diverges from this replica, or None."""
        del is_leader
        end = self.end_of_epoch(last_fetched_epoch)
        if end.end_offset == NO_OFFSET or fetch_offset < self.log_start_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        is_diverging = end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset
        return end if is_diverging else None
