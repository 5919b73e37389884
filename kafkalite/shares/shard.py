"""ShareShard: the stored states of share partitions in one partition of the log (KIP-932).

The leader of a share partition reads its state first, and stores changes before it answers an
acknowledgement. Leader epoch fencing refuses a previous leader. State epoch fencing refuses a
leader that does not know that the start offset was reset. Most changes are written as updates.
After a number of updates, a snapshot is written. It supersedes all earlier records of its state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorResult, SetTimer
from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol._generated.records.share_snapshot import (
    ShareSnapshotKey,
    ShareSnapshotValue,
)
from kafkalite.protocol._generated.records.share_update import ShareUpdateKey, ShareUpdateValue
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.share_state_records import (
    batches_of_update,
    share_snapshot_record,
    share_snapshot_tombstone,
    share_update_record,
    state_of_snapshot,
)
from kafkalite.shares.snapshot_batches import snapshot_batches
from kafkalite.shares.state import (
    NO_EPOCH,
    NO_START_OFFSET,
    NOT_COUNTED,
    ShareKey,
    ShareState,
    ShareSummary,
    StateChange,
)
from kafkalite.shares.state_batches import combine_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.shares.share_state_records import Record

MAX_BATCHES = 40_000
"""Maximum batches per share partition. A leader never has more than 10 000 records in flight."""

_UPDATES_PER_SNAPSHOT_CONFIG = "share.coordinator.snapshot.update.records.per.snapshot"
_COLD_INTERVAL_CONFIG = "share.coordinator.cold.partition.snapshot.interval.ms"


class SnapshotColdPartitions(NamedTuple):
    """Timer event: write snapshots of partitions that had none for the configured interval."""

    before_ms: int | None = None
    """Partitions without a snapshot since this time get one in this round; None begins a round."""


class RemoveDeletedTopics(NamedTuple):
    """Timer event: continue to remove the states of deleted topics."""


_SNAPSHOT_COLD_PARTITIONS = SnapshotColdPartitions()
_REMOVE_DELETED_TOPICS = RemoveDeletedTopics()

_PAUSE_MS = 10
"""Pause between two steps of a round, so that other work comes first."""


class ShareShard:
    """The stored states of one partition of `__share_group_state`, as a state machine."""

    def __init__(self, *, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self.image = image
        self._states: dict[ShareKey, ShareState] = {}
        self._update_counts: dict[ShareKey, int] = {}
        # The largest epochs ever used; a reset state begins with leader epoch 0 again.
        self._leader_epochs: dict[ShareKey, int] = {}
        self._state_epochs: dict[ShareKey, int] = {}

    # The contract with the runtime

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Apply one record of the log to the state; unknown types are skipped."""
        if isinstance(record.key, ShareSnapshotKey):
            assert record.value is None or isinstance(record.value, ShareSnapshotValue)
            self.replay_share_snapshot(record.key, record.value)
        elif isinstance(record.key, ShareUpdateKey) and isinstance(record.value, ShareUpdateValue):
            self.replay_share_update(record.key, record.value)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Start the timer for snapshots, if there are states."""
        timers = [self._cold_timer(now_ms)] if self._states else []
        return CoordinatorResult(response=None, timers=timers)

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Continue the work of a timer."""
        if isinstance(event, RemoveDeletedTopics):
            return self._remove_deleted_topics(now_ms)
        assert isinstance(event, SnapshotColdPartitions)
        return self._snapshot_cold_partitions(event.before_ms, now_ms)

    def _snapshot_cold_partitions(
        self, before_ms: int | None, now_ms: int
    ) -> CoordinatorResult[None]:
        """Write snapshots of the partitions that had none for the configured interval."""
        states = self._states
        if not states:
            return CoordinatorResult(response=None)
        # As in Kafka, a round begins only if a state had no snapshot since it was created.
        if before_ms is None and any(
            state.create_timestamp == state.write_timestamp for state in states.values()
        ):
            before_ms = now_ms - self._config.int(_COLD_INTERVAL_CONFIG)
        cold = [
            (key, state)
            for key, state in states.items()
            if before_ms is not None and state.write_timestamp <= before_ms
        ]
        selected_keys = next(snapshot_batches(cold), [])
        timer = self._cold_timer(now_ms)
        if len(selected_keys) < len(cold):
            timer = SetTimer(
                _SNAPSHOT_COLD_PARTITIONS, now_ms + _PAUSE_MS, SnapshotColdPartitions(before_ms)
            )
        records = [self._snapshot_record(key, states[key], now_ms) for key in selected_keys]
        return CoordinatorResult(response=None, records=records, timers=[timer])

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Do nothing: there is no soft state."""
        del records, error, now_ms
        return CoordinatorResult(response=None)

    def on_image(
        self, image: MetadataImage, delta: MetadataDelta, now_ms: int
    ) -> CoordinatorResult[None]:
        """Apply the topics of a new image, and remove the states of deleted ones."""
        self.image = image
        return (
            self._remove_deleted_topics(now_ms)
            if delta.deleted
            else CoordinatorResult(response=None)
        )

    def _remove_deleted_topics(self, now_ms: int) -> CoordinatorResult[None]:
        """Remove the states of deleted topics, including those that could not be removed before."""
        topics = self.image.topics_by_id
        deleted = [each for each in self._states.items() if each[0].topic_id not in topics]
        selected_keys = next(snapshot_batches(deleted), [])
        timers = [SetTimer(_REMOVE_DELETED_TOPICS, now_ms + _PAUSE_MS, _REMOVE_DELETED_TOPICS)]
        return CoordinatorResult(
            response=None,
            records=[share_snapshot_tombstone(key) for key in selected_keys],
            timers=timers if len(selected_keys) < len(deleted) else [],
        )

    # Deciders

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> CoordinatorResult[None]:
        """Create a state, or reset it with a larger epoch.

        Raises KafkaError INVALID_REQUEST, FENCED_STATE_EPOCH or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition_index(key)
        self._check_not_negative(state_epoch=state_epoch)
        self._check_state_epoch(key, state_epoch)
        self._check_topic(key)
        stored = self._states.get(key)
        state = ShareState(
            snapshot_epoch=0 if stored is None else stored.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=0,
            start_offset=start_offset,
            delivery_complete_count=NOT_COUNTED if start_offset == NO_START_OFFSET else 0,
            batches=(),
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )
        return CoordinatorResult(
            response=None,
            records=[share_snapshot_record(key, state)],
            timers=[] if self._states else [self._cold_timer(now_ms)],
        )

    def read(self, key: ShareKey, leader_epoch: int, now_ms: int) -> CoordinatorResult[ShareState]:
        """Return the initial state of a leader; leaders with an older epoch are fenced from now on.

        Raises KafkaError INVALID_REQUEST, FENCED_LEADER_EPOCH or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition_index(key)
        self._check_not_negative(leader_epoch=leader_epoch)
        state = self._states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The share partition has no state to read.")
        self._check_leader_epoch(key, leader_epoch)
        self._check_topic(key)
        if leader_epoch in (NO_EPOCH, self._leader_epochs[key]):
            return CoordinatorResult(response=state)
        change = StateChange(
            state.state_epoch, leader_epoch, state.start_offset, state.delivery_complete_count, ()
        )
        return CoordinatorResult(
            response=state, records=[self._change_record(key, change, leader_epoch, now_ms)]
        )

    def write(self, key: ShareKey, change: StateChange, now_ms: int) -> CoordinatorResult[None]:
        """Store a change that the leader decided.

        Raises KafkaError INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH or
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition_index(key)
        self._check_not_negative(change.leader_epoch, change.state_epoch)
        state = self._states.get(key)
        if state is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "The share partition has no state to write to."
            )
        self._check_leader_epoch(key, change.leader_epoch)
        self._check_state_epoch(key, change.state_epoch)
        self._check_topic(key)
        _check_batches(state, change)
        record = self._change_record(key, change, state.leader_epoch, now_ms)
        return CoordinatorResult(response=None, records=[record])

    def snapshot(self, keys: Sequence[ShareKey], now_ms: int) -> CoordinatorResult[None]:
        """Write snapshots of states, which supersede their earlier records."""
        return CoordinatorResult(
            response=None,
            records=[
                self._snapshot_record(key, self._states[key], now_ms)
                for key in keys
                if key in self._states
            ],
        )

    def delete(self, key: ShareKey) -> CoordinatorResult[None]:
        """Delete a state; no effect if it does not exist.

        Raises KafkaError INVALID_REQUEST or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition_index(key)
        self._check_topic(key)
        if key not in self._states:
            return CoordinatorResult(response=None)
        return CoordinatorResult(response=None, records=[share_snapshot_tombstone(key)])

    # Queries

    def summary(self, key: ShareKey) -> ShareSummary:
        """Return start offset and epochs of a share partition; -1 if it has no state.

        Raises KafkaError INVALID_REQUEST or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_partition_index(key)
        self._check_topic(key)
        state = self._states.get(key)
        if state is None:
            return ShareSummary()
        return ShareSummary(
            state.state_epoch,
            state.leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
        )

    def state(self, key: ShareKey) -> ShareState | None:
        """Return the state of a share partition, or None."""
        return self._states.get(key)

    def states(self) -> dict[ShareKey, ShareState]:
        """Return all states."""
        return dict(self._states)

    # Replayers

    def replay_share_snapshot(
        self, key: ShareSnapshotKey, value: ShareSnapshotValue | None
    ) -> None:
        """Apply one ShareSnapshot record; a null value is a tombstone."""
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        self._update_counts.pop(share_key, None)
        if value is None:
            self._states.pop(share_key, None)
            self._leader_epochs.pop(share_key, None)
            self._state_epochs.pop(share_key, None)
            return
        self._states[share_key] = state_of_snapshot(value)
        _increase_epoch(self._leader_epochs, share_key, value.leader_epoch)
        _increase_epoch(self._state_epochs, share_key, value.state_epoch)

    def replay_share_update(self, key: ShareUpdateKey, value: ShareUpdateValue) -> None:
        """Apply one ShareUpdate record."""
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        state = self._states.get(share_key)
        if state is None:
            # The snapshot is missing, because records of the log were deleted.
            state = ShareState(value.snapshot_epoch, 0, 0, NO_START_OFFSET, NOT_COUNTED, (), 0, 0)
        start_offset = (
            state.start_offset if value.start_offset == NO_START_OFFSET else value.start_offset
        )
        self._states[share_key] = state._replace(
            start_offset=start_offset,
            leader_epoch=(
                state.leader_epoch if value.leader_epoch == NO_EPOCH else value.leader_epoch
            ),
            delivery_complete_count=value.delivery_complete_count,
            batches=combine_batches(state.batches, batches_of_update(value), start_offset),
        )
        self._update_counts[share_key] = self._update_counts.get(share_key, 0) + 1
        _increase_epoch(self._leader_epochs, share_key, value.leader_epoch)

    # Parts of decisions

    def _change_record(
        self, key: ShareKey, change: StateChange, leader_epoch: int, now_ms: int
    ) -> Record:
        """Return the record of a change: an update, or a snapshot if one is due."""
        state = self._states[key]
        if self._config.release.rules.retains_start_of_share_state:
            change = _without_decrease(change, state)
        if self._update_counts.get(key, 0) < self._config.int(_UPDATES_PER_SNAPSHOT_CONFIG):
            return share_update_record(
                key,
                state.snapshot_epoch,
                leader_epoch,
                change.start_offset,
                change.delivery_complete_count,
                combine_batches((), change.batches, change.start_offset),
            )
        start_offset = (
            state.start_offset if change.start_offset == NO_START_OFFSET else change.start_offset
        )
        changed = ShareState(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=change.delivery_complete_count,
            batches=combine_batches(state.batches, change.batches, start_offset),
            create_timestamp=now_ms,
            write_timestamp=now_ms,
        )
        return share_snapshot_record(key, changed)

    @staticmethod
    def _snapshot_record(key: ShareKey, state: ShareState, now_ms: int) -> Record:
        return share_snapshot_record(
            key, state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_timestamp=now_ms)
        )

    def _cold_timer(self, now_ms: int) -> SetTimer:
        return SetTimer(
            _SNAPSHOT_COLD_PARTITIONS,
            now_ms + self._config.int(_COLD_INTERVAL_CONFIG),
            _SNAPSHOT_COLD_PARTITIONS,
            is_periodic=True,
        )

    def _check_not_negative(self, leader_epoch: int = 0, state_epoch: int = 0) -> None:
        """Raise KafkaError INVALID_REQUEST for negative epochs, if the release refuses them."""
        if (
            min(leader_epoch, state_epoch) < 0
            and self._config.release.rules.refuses_negative_epochs
        ):
            name = "leader" if leader_epoch < 0 else "state"
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The {name} epoch is negative.")

    def _check_leader_epoch(self, key: ShareKey, leader_epoch: int) -> None:
        if leader_epoch != NO_EPOCH and self._leader_epochs.get(key, leader_epoch) > leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)

    def _check_state_epoch(self, key: ShareKey, state_epoch: int) -> None:
        if state_epoch != NO_EPOCH and self._state_epochs.get(key, state_epoch) > state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)

    def _check_topic(self, key: ShareKey) -> None:
        topic = self.image.topics_by_id.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _check_partition_index(key: ShareKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Partition index {key.partition} is negative.")


def _without_decrease(change: StateChange, state: ShareState) -> StateChange:
    """Return a change that moves neither the start offset nor its count backwards."""
    count = change.delivery_complete_count
    if change.start_offset == state.start_offset:
        count = max(count, state.delivery_complete_count)
    elif change.start_offset < state.start_offset:
        count = state.delivery_complete_count
    return change._replace(
        start_offset=max(change.start_offset, state.start_offset), delivery_complete_count=count
    )


def _check_batches(state: ShareState, change: StateChange) -> None:
    """Raise KafkaError for invalid batches, and for more batches than a leader can have.

    Kafka accepts both; the first kind causes an endless loop there, the second fills the memory.
    """
    for batch in change.batches:
        if batch.last_offset < batch.first_offset:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Last offset {batch.last_offset} of a batch is before its first offset "
                f"{batch.first_offset}.",
            )
    if len(state.batches) + len(change.batches) <= MAX_BATCHES:
        return
    start_offset = max(state.start_offset, change.start_offset)
    if len(combine_batches(state.batches, change.batches, start_offset)) > MAX_BATCHES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"The state would have more than the maximum of {MAX_BATCHES} batches.",
        )


def _increase_epoch(epochs: dict[ShareKey, int], key: ShareKey, epoch: int) -> None:
    epochs[key] = max(epochs.get(key, epoch), epoch)
