"""Records of share coordinators in `__share_group_state`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol._generated.records.share_snapshot import (
    ShareSnapshotKey,
    ShareSnapshotValue,
)
from kafkalite.protocol._generated.records.share_update import ShareUpdateKey, ShareUpdateValue
from kafkalite.shares.state import ShareKey, ShareState, StateBatch

if TYPE_CHECKING:
    from collections.abc import Iterable

Record = CoordinatorRecord[object, object]


def written_version(value: object) -> int:  # noqa: ARG001 - there is only one version so far
    """Return the version in which Kafka 4.4 writes a value of `__share_group_state`."""
    return 0


def share_snapshot_record(key: ShareKey, state: ShareState) -> Record:
    """Return the record with the complete state of a share partition."""
    return CoordinatorRecord(
        _snapshot_key(key),
        ShareSnapshotValue(
            snapshot_epoch=state.snapshot_epoch,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
            create_timestamp=state.create_timestamp,
            write_timestamp=state.write_timestamp,
            state_batches=[
                ShareSnapshotValue.StateBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in state.batches
            ],
        ),
    )


def share_snapshot_tombstone(key: ShareKey) -> Record:
    """Return the record that removes the state of a share partition."""
    return CoordinatorRecord(_snapshot_key(key), None)


def share_update_record(  # noqa: PLR0917 - the fields of the record
    key: ShareKey,
    snapshot_epoch: int,
    leader_epoch: int,
    start_offset: int,
    delivery_complete_count: int,
    batches: Iterable[StateBatch],
) -> Record:
    """Return the record with the changes since the last snapshot or update."""
    return CoordinatorRecord(
        ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition),
        ShareUpdateValue(
            snapshot_epoch=snapshot_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=delivery_complete_count,
            state_batches=[
                ShareUpdateValue.StateBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in batches
            ],
        ),
    )


def state_of_snapshot(value: ShareSnapshotValue) -> ShareState:
    """Return the state in a snapshot."""
    return ShareState(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        batches=_batches_of(value.state_batches),
        create_timestamp=value.create_timestamp,
        write_timestamp=value.write_timestamp,
    )


def batches_of_update(value: ShareUpdateValue) -> tuple[StateBatch, ...]:
    """Return the batches in an update."""
    return _batches_of(value.state_batches)


def _batches_of(
    batches: Iterable[ShareSnapshotValue.StateBatch | ShareUpdateValue.StateBatch],
) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
        )
        for batch in batches
    )


def _snapshot_key(key: ShareKey) -> ShareSnapshotKey:
    return ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
