"""Records of share coordinators represent a state, and are read back as it."""

from __future__ import annotations

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.protocol._generated.records.share_snapshot import ShareSnapshotValue
from kafkalite.protocol._generated.records.share_update import ShareUpdateValue
from kafkalite.shares.share_state_records import (
    batches_of_update,
    share_snapshot_record,
    share_snapshot_tombstone,
    share_update_record,
    state_of_snapshot,
    written_version,
)
from kafkalite.shares.state import ShareKey, ShareState, StateBatch

KEY = ShareKey("g", bytes(range(16)), 2)
BATCHES = (StateBatch(5, 9, 2, 1), StateBatch(10, 10, 0, 3))
SERDE = CoordinatorSerde(written_version, "share")


def test_snapshot_is_read_back_as_the_state() -> None:
    state = ShareState(1, 2, 3, 5, 4, BATCHES, 100, 200)
    read = SERDE.decode(*SERDE.encode(share_snapshot_record(KEY, state)))
    assert read is not None
    assert isinstance(read.value, ShareSnapshotValue)
    assert state_of_snapshot(read.value) == state


def test_update_is_read_back_as_the_change() -> None:
    read = SERDE.decode(*SERDE.encode(share_update_record(KEY, 1, 3, -1, 4, BATCHES)))
    assert read is not None
    assert isinstance(read.value, ShareUpdateValue)
    assert batches_of_update(read.value) == BATCHES
    assert (read.value.snapshot_epoch, read.value.leader_epoch) == (1, 3)
    assert (read.value.start_offset, read.value.delivery_complete_count) == (-1, 4)


def test_tombstone_has_a_snapshot_key_and_no_value() -> None:
    key, value = SERDE.encode(share_snapshot_tombstone(KEY))
    assert key == SERDE.encode(share_snapshot_record(KEY, ShareState(0, 0, 0, 0, 0, (), 0, 0)))[0]
    assert value is None
