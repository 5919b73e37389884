"""The share coordinator's machine: what is kept, what fences, when a snapshot is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.metadata.image import MetadataDelta
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.protocol.records.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kafkalite.protocol.records.share_update import ShareUpdateKey
from kafkalite.shares import shard
from kafkalite.shares.state import ShareKey, StateBatch
from kafkalite.testing.coordinator_log import MemoryCoordinatorLog
from tests.unit.shares.share_world import KEY, ShareWorld, change, topic_image

if TYPE_CHECKING:
    from collections.abc import Sequence

COLD_MS = 300_000


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, check=lambda error: error.code is code)


def kinds(world: ShareWorld) -> str:
    """Return the log as letters: S a snapshot, U an update, T a tombstone."""
    return "".join(
        "U" if isinstance(record.key, ShareUpdateKey) else "T" if record.value is None else "S"
        for record in world.records()
    )


def test_a_state_is_begun_read_and_added_to() -> None:
    world = ShareWorld()
    world.begin(state_epoch=3, start_offset=10)
    world.coordinator.write_state(KEY, change((10, 19, 2, 1), start=10, state_epoch=3, complete=10))
    world.coordinator.write_state(KEY, change((20, 24, 0, 1), start=20, state_epoch=3))
    state = world.coordinator.read_state(KEY, 0)
    assert (state.state_epoch, state.start_offset, state.delivery_complete_count) == (3, 20, 0)
    assert state.batches == (StateBatch(20, 24, 0, 1),)
    assert kinds(world) == "SUU"
    assert world.coordinator.summary(*KEY) == (3, 0, 20, 0)


def test_a_start_left_open_stays_where_it_is() -> None:
    world = ShareWorld()
    world.begin(start_offset=-1)
    assert world.coordinator.summary(*KEY) == (0, 0, -1, -1)
    world.begin(start_offset=7)
    world.coordinator.write_state(KEY, change((8, 9, 4, 5)))
    assert world.coordinator.read_state(KEY, -1).start_offset == 7


def test_after_so_many_updates_comes_a_snapshot() -> None:
    world = ShareWorld({"share.coordinator.snapshot.update.records.per.snapshot": "2"})
    world.begin()
    for offset in range(5):
        world.coordinator.write_state(KEY, change((offset, offset, 2, 1), complete=offset + 1))
    assert kinds(world) == "SUUSUU"
    snapshot = world.records()[3].value
    assert isinstance(snapshot, ShareSnapshotValue)
    assert (snapshot.snapshot_epoch, len(snapshot.state_batches)) == (1, 1)
    assert world.coordinator.read_state(KEY, 0).batches == (StateBatch(0, 4, 2, 1),)


def test_a_leader_that_was_replaced_is_fenced() -> None:
    world = ShareWorld()
    world.begin()
    world.coordinator.read_state(KEY, 5)
    assert kinds(world) == "SU"
    world.coordinator.read_state(KEY, 5)
    assert kinds(world) == "SU"
    assert world.coordinator.summary(*KEY).leader_epoch == 5
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        world.coordinator.write_state(KEY, change((0, 0, 2, 1), leader_epoch=4))
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        world.coordinator.read_state(KEY, 4)
    # To begin anew does not let the old leader in again.
    world.begin(state_epoch=1)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        world.coordinator.read_state(KEY, 4)
    world.coordinator.write_state(KEY, change((0, 0, 2, 1), leader_epoch=-1, state_epoch=-1))


def test_a_leader_that_missed_a_reset_is_fenced() -> None:
    world = ShareWorld()
    world.begin(state_epoch=2)
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        world.coordinator.write_state(KEY, change((0, 0, 2, 1), state_epoch=1))
    with refused(ErrorCode.FENCED_STATE_EPOCH):
        world.begin(state_epoch=1)
    world.begin(state_epoch=2, start_offset=9)
    assert world.coordinator.summary(*KEY).start_offset == 9


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (KEY._replace(partition=-1), ErrorCode.INVALID_REQUEST),
        (KEY._replace(partition=4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (KEY._replace(topic_id=bytes(16)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_only_partitions_that_are_have_states(key: ShareKey, code: ErrorCode) -> None:
    world = ShareWorld()
    with refused(code):
        world.begin(key)
    with refused(code):
        world.coordinator.delete_state(*key)
    with refused(code):
        world.coordinator.summary(*key)
    assert world.log.entries == []


def test_what_was_not_begun_is_neither_read_nor_written() -> None:
    world = ShareWorld()
    with refused(ErrorCode.INVALID_REQUEST):
        world.coordinator.read_state(KEY, 0)
    with refused(ErrorCode.INVALID_REQUEST):
        world.coordinator.write_state(KEY, change((0, 0, 2, 1)))
    assert world.coordinator.summary(*KEY) == (0, 0, -1, -1)


def test_a_deleted_state_is_gone_with_its_epochs() -> None:
    world = ShareWorld()
    world.begin(state_epoch=9)
    world.coordinator.delete_state(*KEY)
    world.coordinator.delete_state(*KEY)
    assert kinds(world) == "ST"
    world.begin(state_epoch=1)
    assert world.coordinator.summary(*KEY).state_epoch == 1


def test_states_go_with_their_topic() -> None:
    world = ShareWorld(topics=[topic_image("t"), topic_image("u")])
    world.begin()
    other = KEY._replace(topic_id=topic_image("u").topic_id)
    world.begin(other)
    world.show(MetadataDelta(deleted=(world.topics.pop("t"),)))
    assert list(world.machine.states()) == [other]


def test_states_of_a_deleted_topic_that_could_not_be_forgotten_go_with_the_next() -> None:
    world = ShareWorld(topics=[topic_image("t"), topic_image("u")])
    world.begin()
    world.log.fails_with = OSError(28, "no space left on device")
    world.show(MetadataDelta(deleted=(world.topics.pop("t"),)))
    assert list(world.machine.states()) == [KEY]
    world.show(MetadataDelta(deleted=(world.topics.pop("u"),)))
    assert world.machine.states() == {}


class LimitedLog(MemoryCoordinatorLog):
    """Takes no more at once than a topic with the default `max.message.bytes` does."""

    def append(self, records: Sequence[tuple[bytes | None, bytes | None]], now_ms: int) -> int:
        if sum(len(key or b"") + len(value or b"") for key, value in records) > 1_000_000:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        return super().append(records, now_ms)


def many_states() -> ShareWorld:
    """Return a world with more states than one batch of the log holds."""
    world = ShareWorld(log=LimitedLog(), topics=[topic_image("t", 60)])
    for index in range(60):
        world.begin(KEY._replace(group_id="g" * 32_000, partition=index))
    return world


def test_more_states_than_one_batch_holds_go_with_their_topic() -> None:
    world = many_states()
    world.show(MetadataDelta(deleted=(world.topics.pop("t"),)))
    assert len(world.machine.states()) == 48
    world.clock.advance(1_000)
    assert world.machine.states() == {}


def test_more_cold_partitions_than_one_batch_holds_are_written_whole() -> None:
    world = many_states()
    world.clock.advance(COLD_MS + 1_000)
    assert kinds(world) == "S" * 120
    epochs = {state.snapshot_epoch for state in world.machine.states().values()}
    assert epochs == {1}


def test_cold_partitions_are_written_whole_once() -> None:
    world = ShareWorld()
    world.begin()
    world.coordinator.write_state(KEY, change((0, 4, 2, 1)))
    world.clock.advance(COLD_MS - 1)
    assert kinds(world) == "SU"
    world.clock.advance(1)
    assert kinds(world) == "SUS"
    world.clock.advance(3 * COLD_MS)
    assert kinds(world) == "SUS"
    last = world.records()[-1].value
    assert isinstance(last, ShareSnapshotValue)
    assert last.write_timestamp == last.create_timestamp + COLD_MS
    world.coordinator.delete_state(*KEY)
    world.clock.advance(10 * COLD_MS)
    assert kinds(world) == "SUST"


def test_cold_partitions_are_found_after_a_restart() -> None:
    world = ShareWorld()
    world.begin()
    again = world.restarted()
    again.clock.advance(COLD_MS)
    assert kinds(again) == "SS"


@pytest.mark.parametrize("entries_from", [0, 3])
def test_restarting_is_replaying_all_or_what_follows_the_last_snapshot(entries_from: int) -> None:
    world = ShareWorld({"share.coordinator.snapshot.update.records.per.snapshot": "2"})
    world.begin()
    for offset in range(4):
        world.coordinator.write_state(KEY, change((offset, offset, 2, 1), complete=offset + 1))
    assert kinds(world) == "SUUSU"
    assert world.restarted(entries_from).machine.states() == world.machine.states()


def test_updates_are_never_folded_into_the_last_of_them() -> None:
    world = ShareWorld()
    world.begin()
    for offset in (4, 8):
        world.coordinator.write_state(KEY, change((offset, offset, 2, 1), complete=1))
    again = world.restarted()
    assert len(again.coordinator.read_state(KEY, -1).batches) == 2


def test_an_update_without_its_snapshot_is_better_than_nothing() -> None:
    world = ShareWorld()
    world.begin(start_offset=5)
    world.coordinator.write_state(KEY, change((5, 9, 2, 1), start=5, complete=5))
    (state,) = world.restarted(1).machine.states().values()
    assert (state.start_offset, state.batches) == (5, (StateBatch(5, 9, 2, 1),))


def test_what_makes_no_sense_is_refused_and_what_is_too_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shard, "MOST_BATCHES", 3)
    world = ShareWorld()
    world.begin()
    with refused(ErrorCode.INVALID_REQUEST):
        world.coordinator.write_state(KEY, change((5, 3, 2, 1)))
    several = [(offset, offset, 2, 1) for offset in (0, 2, 4, 6)]
    with refused(ErrorCode.INVALID_REQUEST):
        world.coordinator.write_state(KEY, change(*several))
    world.coordinator.write_state(KEY, change(*several[:3]))
    # What joins those that are there takes no more room.
    world.coordinator.write_state(KEY, change((1, 1, 2, 1)))
    assert len(world.coordinator.read_state(KEY, 0).batches) == 2


def test_a_failed_append_changes_nothing() -> None:
    world = ShareWorld()
    world.begin()
    before = world.machine.states()
    world.log.fails_with = OSError(5, "input/output error")
    with refused(ErrorCode.NOT_COORDINATOR):
        world.coordinator.write_state(KEY, change((0, 4, 2, 1)))
    assert world.machine.states() == before


def test_records_of_other_kinds_are_passed_over() -> None:
    world = ShareWorld()
    key = ShareSnapshotKey(group_id="g", topic_id=KEY.topic_id, partition=0)
    world.machine.replay_share_snapshot(key, None)
    assert world.machine.states() == {}
