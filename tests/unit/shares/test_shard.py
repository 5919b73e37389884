"""The share coordinator's state machine: stored states, fencing, snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol._generated.records.share_snapshot import (
    ShareSnapshotKey,
    ShareSnapshotValue,
)
from kafkalite.protocol._generated.records.share_update import ShareUpdateKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares import shard
from kafkalite.shares.state import ShareKey, StateBatch
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.unit.shares.share_coordinator import KEY, ManualShareCoordinator, change, topic_image

if TYPE_CHECKING:
    from collections.abc import Sequence

COLD_MS = 300_000


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def kinds(coordinator: ManualShareCoordinator) -> str:
    """Return the log as letters: S for a snapshot, U for an update, T for a tombstone."""
    return "".join(
        "U" if isinstance(record.key, ShareUpdateKey) else "T" if record.value is None else "S"
        for record in coordinator.records()
    )


def test_state_is_initialized_read_and_changed() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize(state_epoch=3, start_offset=10)
    coordinator.coordinator.write_state(
        KEY, change((10, 19, 2, 1), start=10, state_epoch=3, complete=10)
    )
    coordinator.coordinator.write_state(KEY, change((20, 24, 0, 1), start=20, state_epoch=3))
    state = coordinator.coordinator.read_state(KEY, 0)
    assert (state.state_epoch, state.start_offset, state.delivery_complete_count) == (3, 20, 0)
    assert state.batches == (StateBatch(20, 24, 0, 1),)
    assert kinds(coordinator) == "SUU"
    assert coordinator.coordinator.summary(*KEY) == (3, 0, 20, 0)


def test_start_offset_of_minus_one_changes_nothing() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize(start_offset=-1)
    assert coordinator.coordinator.summary(*KEY) == (0, 0, -1, -1)
    coordinator.initialize(start_offset=7)
    coordinator.coordinator.write_state(KEY, change((8, 9, 4, 5)))
    assert coordinator.coordinator.read_state(KEY, 0).start_offset == 7


def test_snapshot_follows_a_number_of_updates() -> None:
    coordinator = ManualShareCoordinator(
        {"share.coordinator.snapshot.update.records.per.snapshot": "2"}
    )
    coordinator.initialize()
    for offset in range(5):
        coordinator.coordinator.write_state(
            KEY, change((offset, offset, 2, 1), complete=offset + 1)
        )
    assert kinds(coordinator) == "SUUSUU"
    snapshot = coordinator.records()[3].value
    assert isinstance(snapshot, ShareSnapshotValue)
    assert (snapshot.snapshot_epoch, len(snapshot.state_batches)) == (1, 1)
    assert coordinator.coordinator.read_state(KEY, 0).batches == (StateBatch(0, 4, 2, 1),)


def test_previous_leader_is_fenced() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    coordinator.coordinator.read_state(KEY, 5)
    assert kinds(coordinator) == "SU"
    coordinator.coordinator.read_state(KEY, 5)
    assert kinds(coordinator) == "SU"
    assert coordinator.coordinator.summary(*KEY).leader_epoch == 5
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        coordinator.coordinator.write_state(KEY, change((0, 0, 2, 1), leader_epoch=4))
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        coordinator.coordinator.read_state(KEY, 4)
    # A reset does not admit the previous leader again.
    coordinator.initialize(state_epoch=1)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        coordinator.coordinator.read_state(KEY, 4)


def test_leader_with_a_stale_state_epoch_is_fenced() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize(state_epoch=2)
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        coordinator.coordinator.write_state(KEY, change((0, 0, 2, 1), state_epoch=1))
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        coordinator.initialize(state_epoch=1)
    coordinator.initialize(state_epoch=2, start_offset=9)
    assert coordinator.coordinator.summary(*KEY).start_offset == 9


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (KEY._replace(partition=-1), ErrorCode.INVALID_REQUEST),
        (KEY._replace(partition=4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(topic_id=bytes(16)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_unknown_partition_is_refused(key: ShareKey, code: ErrorCode) -> None:
    coordinator = ManualShareCoordinator()
    with refused(code):
        coordinator.initialize(key)
    with refused(code):
        coordinator.coordinator.delete_state(*key)
    with refused(code):
        coordinator.coordinator.summary(*key)
    assert coordinator.log.entries == []


def test_uninitialized_state_is_neither_read_nor_written() -> None:
    coordinator = ManualShareCoordinator()
    with refused(ErrorCode.INVALID_REQUEST):
        coordinator.coordinator.read_state(KEY, 0)
    with refused(ErrorCode.INVALID_REQUEST):
        coordinator.coordinator.write_state(KEY, change((0, 0, 2, 1)))
    assert coordinator.coordinator.summary(*KEY) == (0, 0, -1, -1)


def test_deleted_state_loses_its_epochs() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize(state_epoch=9)
    coordinator.coordinator.delete_state(*KEY)
    coordinator.coordinator.delete_state(*KEY)
    assert kinds(coordinator) == "ST"
    coordinator.initialize(state_epoch=1)
    assert coordinator.coordinator.summary(*KEY).state_epoch == 1


def test_states_are_deleted_with_their_topic() -> None:
    coordinator = ManualShareCoordinator(topics=[topic_image("t"), topic_image("u")])
    coordinator.initialize()
    other = KEY._replace(topic_id=topic_image("u").topic_id)
    coordinator.initialize(other)
    coordinator.apply_topics(MetadataDelta(deleted=(coordinator.topics.pop("t"),)))
    assert list(coordinator.machine.states()) == [other]


def test_failed_deletion_of_states_is_repeated_with_the_next_topic() -> None:
    coordinator = ManualShareCoordinator(topics=[topic_image("t"), topic_image("u")])
    coordinator.initialize()
    coordinator.log.next_error = OSError(28, "no space left on device")
    coordinator.apply_topics(MetadataDelta(deleted=(coordinator.topics.pop("t"),)))
    assert list(coordinator.machine.states()) == [KEY]
    coordinator.apply_topics(MetadataDelta(deleted=(coordinator.topics.pop("u"),)))
    assert coordinator.machine.states() == {}


class LimitedLog(MemoryCoordinatorLog):
    """Refuses batches larger than the default `max.message.bytes`."""

    def append(self, records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        if sum(len(key or b"") + len(value or b"") for key, value in records) > 1_000_000:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return super().append(records, now_ms)


def many_states() -> ManualShareCoordinator:
    """Return a coordinator with more states than fit into one batch."""
    coordinator = ManualShareCoordinator(log=LimitedLog(), topics=[topic_image("t", 60)])
    for index in range(60):
        coordinator.initialize(KEY._replace(group_id="g" * 32_000, partition=index))
    return coordinator


def test_states_exceeding_one_batch_are_deleted_with_their_topic() -> None:
    coordinator = many_states()
    coordinator.apply_topics(MetadataDelta(deleted=(coordinator.topics.pop("t"),)))
    assert len(coordinator.machine.states()) == 48
    coordinator.clock.advance(1_000)
    assert coordinator.machine.states() == {}


def test_cold_partitions_exceeding_one_batch_get_snapshots() -> None:
    coordinator = many_states()
    coordinator.clock.advance(COLD_MS + 1_000)
    assert kinds(coordinator) == "S" * 120
    epochs = {state.snapshot_epoch for state in coordinator.machine.states().values()}
    assert epochs == {1}


def test_cold_partitions_get_one_snapshot() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    coordinator.coordinator.write_state(KEY, change((0, 4, 2, 1)))
    coordinator.clock.advance(COLD_MS - 1)
    assert kinds(coordinator) == "SU"
    coordinator.clock.advance(1)
    assert kinds(coordinator) == "SUS"
    coordinator.clock.advance(3 * COLD_MS)
    assert kinds(coordinator) == "SUS"
    last = coordinator.records()[-1].value
    assert isinstance(last, ShareSnapshotValue)
    assert last.write_timestamp == last.create_timestamp + COLD_MS
    coordinator.coordinator.delete_state(*KEY)
    coordinator.clock.advance(10 * COLD_MS)
    assert kinds(coordinator) == "SUST"


def test_cold_partitions_are_found_after_a_restart() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    again = coordinator.restart()
    again.clock.advance(COLD_MS)
    assert kinds(again) == "SS"


@pytest.mark.parametrize("entries_from", [0, 3])
def test_restart_from_any_snapshot_gives_the_same_state(entries_from: int) -> None:
    coordinator = ManualShareCoordinator(
        {"share.coordinator.snapshot.update.records.per.snapshot": "2"}
    )
    coordinator.initialize()
    for offset in range(4):
        coordinator.coordinator.write_state(
            KEY, change((offset, offset, 2, 1), complete=offset + 1)
        )
    assert kinds(coordinator) == "SUUSU"
    assert coordinator.restart(entries_from).machine.states() == coordinator.machine.states()


def test_loading_applies_every_update() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    for offset in (4, 8):
        coordinator.coordinator.write_state(KEY, change((offset, offset, 2, 1), complete=1))
    again = coordinator.restart()
    assert len(again.coordinator.read_state(KEY, 0).batches) == 2


def test_update_without_a_snapshot_is_applied() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize(start_offset=5)
    coordinator.coordinator.write_state(KEY, change((5, 9, 2, 1), start=5, complete=5))
    (state,) = coordinator.restart(1).machine.states().values()
    assert (state.start_offset, state.batches) == (5, (StateBatch(5, 9, 2, 1),))


def test_invalid_or_too_many_batches_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard, "MAX_BATCHES", 3)
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    with refused(ErrorCode.INVALID_REQUEST):
        coordinator.coordinator.write_state(KEY, change((5, 3, 2, 1)))
    several = [(offset, offset, 2, 1) for offset in (0, 2, 4, 6)]
    with refused(ErrorCode.INVALID_REQUEST):
        coordinator.coordinator.write_state(KEY, change(*several))
    coordinator.coordinator.write_state(KEY, change(*several[:3]))
    # Changes that join existing batches take no more space.
    coordinator.coordinator.write_state(KEY, change((1, 1, 2, 1)))
    assert len(coordinator.coordinator.read_state(KEY, 0).batches) == 2


def test_a_failed_append_changes_nothing() -> None:
    coordinator = ManualShareCoordinator()
    coordinator.initialize()
    before = coordinator.machine.states()
    coordinator.log.next_error = OSError(5, "input/output error")
    with refused(ErrorCode.NOT_COORDINATOR):
        coordinator.coordinator.write_state(KEY, change((0, 4, 2, 1)))
    assert coordinator.machine.states() == before


def test_records_of_other_types_are_skipped() -> None:
    coordinator = ManualShareCoordinator()
    key = ShareSnapshotKey(group_id="g", topic_id=KEY.topic_id, partition=0)
    coordinator.machine.replay_share_snapshot(key, None)
    assert coordinator.machine.states() == {}


@pytest.mark.parametrize(("state_epoch", "leader_epoch"), [(-1, 0), (0, -1)])
def test_negative_epochs_are_refused(state_epoch: int, leader_epoch: int) -> None:
    coordinator = ManualShareCoordinator(as_version="4.4")
    coordinator.initialize()
    negative = change((0, 1, 2, 1), state_epoch=state_epoch, leader_epoch=leader_epoch)
    with refused(ErrorCode.INVALID_REQUEST):
        coordinator.coordinator.write_state(KEY, negative)
    with refused(ErrorCode.INVALID_REQUEST):
        coordinator.initialize(state_epoch=-1)
    with refused(ErrorCode.INVALID_REQUEST):
        coordinator.coordinator.read_state(KEY, -1)
    older = ManualShareCoordinator(as_version="4.3")
    older.initialize(state_epoch=-1)
    older.coordinator.write_state(KEY, negative)
    assert older.coordinator.read_state(KEY, -1).batches == (StateBatch(0, 1, 2, 1),)


@pytest.mark.parametrize(
    ("start", "complete", "stored"),
    [(20, 3, (20, 7)), (20, 9, (20, 9)), (10, 9, (20, 7)), (30, 1, (30, 1)), (-1, 9, (20, 7))],
)
def test_the_start_offset_and_its_count_do_not_decrease(
    start: int, complete: int, stored: tuple[int, int]
) -> None:
    coordinator = ManualShareCoordinator(as_version="4.4")
    coordinator.initialize(start_offset=20)
    coordinator.coordinator.write_state(KEY, change(start=20, complete=7))
    coordinator.coordinator.write_state(KEY, change(start=start, complete=complete))
    assert coordinator.coordinator.summary(*KEY)[2:] == stored
