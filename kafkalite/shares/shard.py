"""ShareShard: what is kept of the share partitions that fall on one partition of its log (KIP-932).

A share partition's leader reads its state when it begins, and adds to it before it answers an
acknowledgement. Two epochs fence: a leader that was replaced, and a leader that has not heard that
an administrator set the start anew. Most changes are written as updates; after so many of them
comes a snapshot, which makes everything before it superfluous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.coordinator.contract import CoordinatorResult, SetTimer
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.records.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kafkalite.protocol.records.share_update import ShareUpdateKey, ShareUpdateValue
from kafkalite.shares.batches import combine_batches
from kafkalite.shares.portions import portions
from kafkalite.shares.records import (
    batches_of_update,
    share_snapshot_record,
    share_snapshot_tombstone,
    share_update_record,
    state_of_snapshot,
)
from kafkalite.shares.state import (
    NO_EPOCH,
    NO_START_OFFSET,
    NOT_COUNTED,
    ShareKey,
    ShareState,
    ShareSummary,
    StateChange,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.coordinator.contract import CoordinatorRecord
    from kafkalite.metadata.image import MetadataDelta, MetadataImage
    from kafkalite.shares.records import Record

MOST_BATCHES = 40_000
"""Batches kept of one share partition. A leader has no more records out than 10 000 at once."""

_UPDATES_KEY = "share.coordinator.snapshot.update.records.per.snapshot"
_COLD_KEY = "share.coordinator.cold.partition.snapshot.interval.ms"


class SnapshotColdPartitions(NamedTuple):
    """A timer: write whole what was not for a while."""

    old_ms: int | None = None
    """What was not since then, in a round that is under way; None to begin a round."""


class ForgetDeletedTopics(NamedTuple):
    """A timer: go on to forget the states of topics that are no more."""


_COLD = SnapshotColdPartitions()
_DELETED = ForgetDeletedTopics()

_PAUSE_MS = 10
"""What lies between two portions of one round, so that others come first."""


class ShareShard:
    """The kept states of one partition of `__share_group_state`, as a machine on the runtime."""

    def __init__(self, *, config: BrokerConfig, image: MetadataImage) -> None:
        self._config = config
        self.image = image
        self._states: dict[ShareKey, ShareState] = {}
        self._updates: dict[ShareKey, int] = {}
        # The largest ever seen; a state that is initialised anew begins with leader epoch 0.
        self._leader_epochs: dict[ShareKey, int] = {}
        self._state_epochs: dict[ShareKey, int] = {}

    # The contract with the runtime

    def replay(self, record: CoordinatorRecord[object, object]) -> None:
        """Make one record of the log true; kinds that are not ours are passed over."""
        if isinstance(record.key, ShareSnapshotKey):
            assert record.value is None or isinstance(record.value, ShareSnapshotValue)
            self.replay_share_snapshot(record.key, record.value)
        elif isinstance(record.key, ShareUpdateKey) and isinstance(record.value, ShareUpdateValue):
            self.replay_share_update(record.key, record.value)

    def on_loaded(self, now_ms: int) -> CoordinatorResult[None]:
        """Begin to write cold partitions whole, if there are any partitions."""
        timers = [self._cold_timer(now_ms)] if self._states else []
        return CoordinatorResult(response=None, timers=timers)

    def on_timer(self, event: object, now_ms: int) -> CoordinatorResult[None]:
        """Go on with what is done a portion at a time."""
        if isinstance(event, ForgetDeletedTopics):
            return self._forget_deleted(now_ms)
        assert isinstance(event, SnapshotColdPartitions)
        return self._snapshot_cold(event.old_ms, now_ms)

    def _snapshot_cold(self, old_ms: int | None, now_ms: int) -> CoordinatorResult[None]:
        """Write whole the partitions that were not for the configured interval."""
        states = self._states
        if not states:
            return CoordinatorResult(response=None)
        # As Kafka decides it: once all were written whole since they were made, nothing is done.
        if old_ms is None and any(
            state.create_timestamp == state.write_timestamp for state in states.values()
        ):
            old_ms = now_ms - self._config.int(_COLD_KEY)
        cold = [
            (key, state)
            for key, state in states.items()
            if old_ms is not None and state.write_timestamp <= old_ms
        ]
        portion = next(portions(cold), [])
        timer = self._cold_timer(now_ms)
        if len(portion) < len(cold):
            timer = SetTimer(_COLD, now_ms + _PAUSE_MS, SnapshotColdPartitions(old_ms))
        records = [self._whole(key, states[key], now_ms) for key in portion]
        return CoordinatorResult(response=None, records=records, timers=[timer])

    def on_append_failed(
        self, records: Sequence[CoordinatorRecord[object, object]], error: KafkaError, now_ms: int
    ) -> CoordinatorResult[None]:
        """Do nothing: there is no soft state that could have foreseen these records."""
        del records, error, now_ms
        return CoordinatorResult(response=None)

    def on_image(
        self, image: MetadataImage, delta: MetadataDelta, now_ms: int
    ) -> CoordinatorResult[None]:
        """Look at the topics as they are now, and forget the states of deleted ones."""
        self.image = image
        return self._forget_deleted(now_ms) if delta.deleted else CoordinatorResult(response=None)

    def _forget_deleted(self, now_ms: int) -> CoordinatorResult[None]:
        """Forget states without a topic, also those that could not be when it was deleted."""
        topics = self.image.topics_by_id
        gone = [each for each in self._states.items() if each[0].topic_id not in topics]
        portion = next(portions(gone), [])
        again = [SetTimer(_DELETED, now_ms + _PAUSE_MS, _DELETED)]
        return CoordinatorResult(
            response=None,
            records=[share_snapshot_tombstone(key) for key in portion],
            timers=again if len(portion) < len(gone) else [],
        )

    # Deciders

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, now_ms: int
    ) -> CoordinatorResult[None]:
        """Begin a state, or begin it anew with a larger epoch.

        KafkaError INVALID_REQUEST, FENCED_STATE_EPOCH or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_index(key)
        self._check_state_epoch(key, state_epoch)
        self._check_topic(key)
        known = self._states.get(key)
        state = ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
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
        """Give a leader the state it begins with; a leader of an older epoch is fenced from now on.

        KafkaError INVALID_REQUEST, FENCED_LEADER_EPOCH or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_index(key)
        state = self._states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "There is no state of it to read.")
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
        """Add to a state what its leader decided.

        KafkaError INVALID_REQUEST, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH or
        UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_index(key)
        state = self._states.get(key)
        if state is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "There is no state of it to write to.")
        self._check_leader_epoch(key, change.leader_epoch)
        self._check_state_epoch(key, change.state_epoch)
        self._check_topic(key)
        _check_batches(state, change)
        record = self._change_record(key, change, state.leader_epoch, now_ms)
        return CoordinatorResult(response=None, records=[record])

    def snapshot(self, keys: Sequence[ShareKey], now_ms: int) -> CoordinatorResult[None]:
        """Write states whole, so that what was written of them before is superfluous."""
        return CoordinatorResult(
            response=None,
            records=[
                self._whole(key, self._states[key], now_ms) for key in keys if key in self._states
            ],
        )

    def delete(self, key: ShareKey) -> CoordinatorResult[None]:
        """Forget a state; one that is not there is forgotten already.

        KafkaError INVALID_REQUEST or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_index(key)
        self._check_topic(key)
        if key not in self._states:
            return CoordinatorResult(response=None)
        return CoordinatorResult(response=None, records=[share_snapshot_tombstone(key)])

    # Queries

    def summary(self, key: ShareKey) -> ShareSummary:
        """Say where a share partition stands; nowhere, when there is no state of it.

        KafkaError INVALID_REQUEST or UNKNOWN_TOPIC_OR_PARTITION.
        """
        _check_index(key)
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
        """Return what is kept of a share partition, None when that is nothing."""
        return self._states.get(key)

    def states(self) -> dict[ShareKey, ShareState]:
        """Return everything that is kept."""
        return dict(self._states)

    # Replayers

    def replay_share_snapshot(
        self, key: ShareSnapshotKey, value: ShareSnapshotValue | None
    ) -> None:
        """Make one ShareSnapshot record true; a null value is a tombstone."""
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        self._updates.pop(share_key, None)
        if value is None:
            self._states.pop(share_key, None)
            self._leader_epochs.pop(share_key, None)
            self._state_epochs.pop(share_key, None)
            return
        self._states[share_key] = state_of_snapshot(value)
        _raise_to(self._leader_epochs, share_key, value.leader_epoch)
        _raise_to(self._state_epochs, share_key, value.state_epoch)

    def replay_share_update(self, key: ShareUpdateKey, value: ShareUpdateValue) -> None:
        """Make one ShareUpdate record true."""
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        state = self._states.get(share_key)
        if state is None:
            # Its snapshot was deleted with old records of the log, which nobody should do.
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
        self._updates[share_key] = self._updates.get(share_key, 0) + 1
        _raise_to(self._leader_epochs, share_key, value.leader_epoch)

    # Parts of decisions

    def _change_record(
        self, key: ShareKey, change: StateChange, leader_epoch: int, now_ms: int
    ) -> Record:
        """Return the record of a change: an update, or a snapshot when it is time for one."""
        state = self._states[key]
        if self._updates.get(key, 0) < self._config.int(_UPDATES_KEY):
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
    def _whole(key: ShareKey, state: ShareState, now_ms: int) -> Record:
        return share_snapshot_record(
            key, state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_timestamp=now_ms)
        )

    def _cold_timer(self, now_ms: int) -> SetTimer:
        return SetTimer(_COLD, now_ms + self._config.int(_COLD_KEY), _COLD, is_tick=True)

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


def _check_index(key: ShareKey) -> None:
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A partition's index cannot be negative.")


def _check_batches(state: ShareState, change: StateChange) -> None:
    """Raise KafkaError for batches that are none, or are more than a leader can mean.

    Kafka takes them all; it would go round in circles over the first and fill up by the second.
    """
    if any(batch.last_offset < batch.first_offset for batch in change.batches):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A batch ends before it begins.")
    if len(state.batches) + len(change.batches) <= MOST_BATCHES:
        return
    start_offset = max(state.start_offset, change.start_offset)
    if len(combine_batches(state.batches, change.batches, start_offset)) > MOST_BATCHES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"No more than {MOST_BATCHES} batches are kept."
        )


def _raise_to(epochs: dict[ShareKey, int], key: ShareKey, epoch: int) -> None:
    epochs[key] = max(epochs.get(key, epoch), epoch)
