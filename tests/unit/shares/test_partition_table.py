"""The share partitions of a cluster: loaded once per leader, removed with their last session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.coordinator.event_history import EventHistory
from kafkalite.metadata.image import MetadataDelta, MetadataImage
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acknowledgement import AcknowledgementBatch
from kafkalite.shares.acquisition import AcquireRequest, FetchedBatches
from kafkalite.shares.partition_table import SharePartitionTable
from kafkalite.shares.sessions import SessionKey, TopicPartition
from tests.unit.shares.share_coordinator import KEY, DeadLetterLog, ManualShareCoordinator

if TYPE_CHECKING:
    from kafkalite.shares.partition import SharePartition, StateStore
    from kafkalite.shares.state import LeaderState, ShareKey, StateChange

MEMBER = SessionKey("g", "a")


class Stage:
    """A table with a share coordinator."""

    def __init__(self) -> None:
        self.coordinator = ManualShareCoordinator({"group.share.delivery.count.limit": "3"})
        self.coordinator.initialize()
        self.table = SharePartitionTable(
            clock=self.coordinator.clock,
            config=self.coordinator.config,
            history=EventHistory(),
        )

    def load(self, leader_epoch: int = 0) -> None:
        share = self.table.get_or_load(
            KEY,
            store=self.coordinator.store,
            dead_letter_queues=DeadLetterLog(),
            name="t-0",
            leader=1,
            leader_epoch=leader_epoch,
            choose_start_offset=lambda: 0,
        )
        assert self.table.find(KEY) is share

    def open_session(self, connection: object = None) -> None:
        partition = TopicPartition(KEY.topic_id, KEY.partition)
        self.table.sessions(1).begin_fetch(
            MEMBER, 0, [(partition, "t")], (), acknowledges=False, connection=connection
        )

    def acquire(self) -> int:
        share = self.table.find(KEY)
        assert share is not None
        fetched = FetchedBatches([(0, 4)], share.window.next_fetch_offset())
        return share.acquire(fetched, AcquireRequest("a", 500, 500))[1]


def test_limits_are_those_of_the_group() -> None:
    limits = Stage().table.limits("g", 1)
    assert (limits.max_deliveries, limits.max_records_in_flight, limits.lock_duration_ms) == (
        3,
        2000,
        30_000,
    )
    assert limits.allows_renewal


def test_end_of_sessions_affects_only_their_group() -> None:
    """Connections may end by the thousand, each with a thousand groups: only theirs are read."""
    stage = Stage()
    connection = object()
    other = SessionKey("h", "a")
    partition = (TopicPartition(KEY.topic_id, KEY.partition), "t")
    for key in (MEMBER, other):
        share_key = KEY._replace(group_id=key.group_id)
        stage.coordinator.initialize(share_key)
        stage.table.get_or_load(
            share_key,
            store=stage.coordinator.store,
            dead_letter_queues=DeadLetterLog(),
            name="t-0",
            leader=1,
            leader_epoch=0,
            choose_start_offset=lambda: 0,
        )
        stage.table.sessions(1).begin_fetch(
            key, 0, [partition], (), acknowledges=False, connection=connection
        )
    stage.table.end_sessions_of(1, connection, "g")
    assert stage.table.find(KEY) is None
    assert stage.table.find(KEY._replace(group_id="h")) is not None
    assert (len(stage.table.sessions(1)), stage.table.sessions(1).has_group("h")) == (1, True)
    stage.table.end_sessions_of(1, connection, "h")
    assert stage.table.find(KEY._replace(group_id="h")) is None
    stage.table.end_sessions_of(1, connection, "h")
    assert len(stage.table.sessions(1)) == 0


def test_share_partition_is_loaded_once_per_leader() -> None:
    stage = Stage()
    stage.load()
    stage.acquire()
    stage.load()
    assert stage.acquire() == 0
    stage.load(leader_epoch=1)
    assert stage.acquire() == 5


def test_share_partition_of_a_previous_leader_is_removed() -> None:
    stage = Stage()
    stage.load()
    stage.acquire()
    topic = stage.coordinator.topics["t"]
    moved = topic._replace(
        partitions=tuple(each._replace(leader_epoch=1) for each in topic.partitions)
    )
    stage.table.on_image(stage.coordinator.image, MetadataDelta())
    stage.table.on_image(stage.coordinator.image, MetadataDelta(changed=(topic,)))
    assert stage.table.find(KEY) is not None
    stage.coordinator.topics["t"] = moved
    stage.table.on_image(stage.coordinator.image, MetadataDelta(changed=(moved,)))
    assert stage.table.find(KEY) is None


def test_share_partitions_are_removed_with_their_topic() -> None:
    stage = Stage()
    stage.load()
    deleted = stage.coordinator.topics.pop("t")
    stage.table.on_image(stage.coordinator.image, MetadataDelta(deleted=(deleted,)))
    assert stage.table.find(KEY) is None


@pytest.mark.parametrize(
    ("code", "is_dropped"),
    [(ErrorCode.NOT_LEADER_OR_FOLLOWER, True), (ErrorCode.INVALID_RECORD_STATE, False)],
)
def test_errors_of_another_leader_remove_the_share_partition(
    code: ErrorCode, *, is_dropped: bool
) -> None:
    stage = Stage()
    stage.load()
    stage.table.drop_if_stale(KEY, KafkaError(code))
    assert (stage.table.find(KEY) is None) is is_dropped


def test_end_of_a_session_releases_its_records() -> None:
    stage = Stage()
    stage.load()
    stage.open_session()
    stage.acquire()
    stage.table.end_session(1, MEMBER)
    assert stage.acquire() == 5
    stage.table.end_session(1, MEMBER)


def test_end_of_a_session_with_a_reset_state_releases_nothing() -> None:
    stage = Stage()
    stage.load()
    stage.open_session()
    stage.acquire()
    stage.coordinator.initialize(state_epoch=1)
    stage.table.end_session(1, MEMBER)
    assert stage.table.find(KEY) is None


def test_end_of_the_last_session_removes_the_share_partitions() -> None:
    stage = Stage()
    stage.load()
    connection = object()
    stage.open_session(connection)
    stage.table.sessions(2).begin_fetch(
        SessionKey("g", "b"), 0, [], (), acknowledges=False, connection=connection
    )
    stage.table.end_sessions_of(1, connection, "g")
    assert stage.table.find(KEY) is not None
    stage.table.end_sessions_of(2, connection, "g")
    assert stage.table.find(KEY) is None


def test_stop_removes_everything() -> None:
    stage = Stage()
    stage.load()
    share = stage.table.find(KEY)
    assert share is not None
    stage.acquire()
    share.acknowledge("a", [AcknowledgementBatch(0, 4, [1])])
    stage.table.stop()
    assert stage.table.find(KEY) is None
    assert share.is_closed


class LateStore:
    """A store whose states arrive when the test says so."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.reads: list[tuple[ShareKey, int, Waiting[LeaderState]]] = []

    def read_state(self, key: ShareKey, leader_epoch: int) -> Waiting[LeaderState]:
        state: Waiting[LeaderState] = Waiting()
        self.reads.append((key, leader_epoch, state))
        return state

    def write_state(self, key: ShareKey, change: StateChange) -> Waiting[None] | None:
        return self._store.write_state(key, change)

    def answer(self, refusal: KafkaError | None = None) -> None:
        key, leader_epoch, state = self.reads.pop(0)
        if refusal is None:
            read = self._store.read_state(key, leader_epoch)
            assert not isinstance(read, Waiting)
            state.resolve(read)
        else:
            state.refuse(refusal)


class LateStage(Stage):
    """A table whose share partitions get their state late."""

    def __init__(self) -> None:
        super().__init__()
        self.store = LateStore(self.coordinator.store)

    def load_late(self, leader_epoch: int = 0) -> Waiting[SharePartition]:
        share = self.table.get_or_load(
            KEY,
            store=self.store,
            dead_letter_queues=DeadLetterLog(),
            name="t-0",
            leader=1,
            leader_epoch=leader_epoch,
            choose_start_offset=lambda: 0,
        )
        assert isinstance(share, Waiting)
        return share


def test_requests_waiting_for_a_state_share_one_share_partition() -> None:
    stage = LateStage()
    first, second = stage.load_late(), stage.load_late()
    assert len(stage.store.reads) == 1
    first.abandon()
    stage.store.answer()
    assert second.value is stage.table.find(KEY)


def test_unreadable_state_returns_the_members_error_and_is_read_again() -> None:
    stage = LateStage()
    share = stage.load_late()
    stage.store.answer(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert isinstance(share.value, KafkaError)
    assert share.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.table.find(KEY) is None
    again = stage.load_late()
    stage.store.answer()
    assert again.value is stage.table.find(KEY)


def test_late_state_of_a_previous_leader_is_ignored() -> None:
    stage = LateStage()
    former, current = stage.load_late(0), stage.load_late(1)
    stage.store.answer()
    assert isinstance(former.value, KafkaError)
    assert former.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stage.table.find(KEY) is None
    stage.store.answer()
    assert current.value is stage.table.find(KEY)
    assert current.value.leader_epoch == 1


def test_level_zero_of_the_feature_removes_partitions_and_sessions() -> None:
    stage = Stage()
    enabled = MetadataImage(features={"share.version": 1})
    stage.table.on_image(enabled, MetadataDelta())
    stage.load()
    stage.open_session()
    stage.table.on_image(enabled, MetadataDelta())
    assert len(stage.table.sessions(1)) == 1
    stage.table.on_image(MetadataImage(), MetadataDelta())
    assert stage.table.find(KEY) is None
    assert len(stage.table.sessions(1)) == 0
