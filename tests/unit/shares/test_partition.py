"""A share partition with its store: stores before it answers, releases when locks expire."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.coordinator.event_history import EventHistory
from kafkalite.ports.waiting import Waiting
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acknowledgement import AcknowledgementBatch, AcknowledgeType
from kafkalite.shares.acquisition import AcquireRequest, FetchedBatches
from kafkalite.shares.partition import SharePartition
from kafkalite.shares.partition_table import SharePartitionTable
from kafkalite.shares.state import StateBatch
from tests.unit.shares.share_coordinator import KEY, DeadLetterLog, ManualShareCoordinator

if TYPE_CHECKING:
    from kafkalite.shares.partition import StateStore
    from kafkalite.shares.state import LeaderState, ShareKey, StateChange

ACCEPT, RELEASE = 1, 2
LOCK_MS = 30_000


class Waiter:
    """Counts how often it is woken."""

    def __init__(self) -> None:
        self.count = 0

    def retry(self) -> None:
        self.count += 1


class Stage:
    """One share partition, its group and its store."""

    def __init__(
        self,
        *,
        start: int = 0,
        coordinator: ManualShareCoordinator | None = None,
        dead_letters: DeadLetterLog | None = None,
    ) -> None:
        self.coordinator = coordinator or ManualShareCoordinator()
        self.history = EventHistory()
        self.table = SharePartitionTable(
            clock=self.coordinator.clock,
            config=self.coordinator.config,
            history=self.history,
        )
        if coordinator is None:
            self.coordinator.initialize(start_offset=start)
        share = self.table.get_or_load(
            KEY,
            store=self.coordinator.store,
            dead_letter_queues=dead_letters or DeadLetterLog(),
            name="t-0",
            leader=1,
            leader_epoch=0,
            choose_start_offset=lambda: 7,
        )
        assert isinstance(share, SharePartition)
        self.share = share
        self.waiter = Waiter()
        self.share.watch(self.waiter)

    def acquire(self, first: int, last: int, member: str = "a") -> list[tuple[int, ...]]:
        offset = self.share.window.next_fetch_offset()
        acquired, count = self.share.acquire(
            FetchedBatches([(first, last)], offset), AcquireRequest(member, 500, 500)
        )
        assert count == sum(one.size for one in acquired)
        return [tuple(one) for one in acquired]

    def stored(self) -> tuple[StateBatch, ...]:
        return self.coordinator.machine.states()[KEY].batches


def test_start_offset_is_chosen_by_the_groups_setting() -> None:
    stage = Stage(start=-1)
    assert stage.share.window.start_offset == 7


def test_acknowledgement_is_stored_before_it_is_applied() -> None:
    stage = Stage()
    assert stage.acquire(0, 9) == [(0, 9, 1)]
    assert len(stage.stored()) == 0
    stage.share.acknowledge("a", [AcknowledgementBatch(0, 4, [ACCEPT])])
    assert stage.stored() == (StateBatch(0, 4, 2, 1),)
    assert stage.share.window.start_offset == 5
    stage.coordinator.log.next_error = OSError(5, "input/output error")
    with pytest.raises(KafkaError) as refusal:
        stage.share.acknowledge("a", [AcknowledgementBatch(5, 9, [ACCEPT])])
    assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.share.acknowledge("a", [AcknowledgementBatch(5, 9, [ACCEPT])])
    assert stage.share.window.start_offset == 10


def test_waiting_fetches_are_woken_when_records_may_be_available() -> None:
    stage = Stage()
    stage.acquire(0, 9)
    stage.share.acknowledge("a", [AcknowledgementBatch(4, 5, [ACCEPT])])
    assert stage.waiter.count == 0
    stage.share.acknowledge("a", [AcknowledgementBatch(6, 7, [RELEASE])])
    assert stage.waiter.count == 1
    stage.share.acknowledge("a", [AcknowledgementBatch(0, 3, [ACCEPT])])
    assert stage.waiter.count == 2
    stage.share.release("a")
    assert stage.waiter.count == 3
    stage.share.unwatch(stage.waiter)
    stage.acquire(6, 9)
    stage.share.release("a")
    assert stage.waiter.count == 3


def test_locks_expire_in_order() -> None:
    stage = Stage()
    stage.acquire(0, 4)
    stage.coordinator.clock.advance(10_000)
    stage.acquire(5, 9, "b")
    stage.coordinator.clock.advance(LOCK_MS - 10_000)
    assert stage.stored() == (StateBatch(0, 4, 0, 1),)
    assert stage.coordinator.clock.next_deadline_ms == stage.coordinator.clock.now_ms() + 10_000
    stage.coordinator.clock.advance(10_000)
    assert stage.stored() == (StateBatch(0, 9, 0, 1),)
    assert [entry.facts["member_id"] for entry in stage.history.about("g")] == ["a", "b"]


def test_lock_expires_even_if_storing_fails() -> None:
    stage = Stage()
    stage.acquire(0, 4)
    stage.coordinator.log.next_error = OSError(28, "no space left on device")
    stage.coordinator.clock.advance(LOCK_MS)
    assert stage.stored() == ()
    assert stage.acquire(0, 4, "b") == [(0, 4, 2)]


def test_closed_partition_acquires_nothing_and_drops_its_locks() -> None:
    stage = Stage()
    stage.acquire(0, 4)
    stage.table.drop(KEY)
    assert stage.waiter.count == 1
    assert not stage.share.can_acquire()
    assert stage.acquire(5, 9) == []
    stage.coordinator.clock.advance(LOCK_MS)
    assert stage.stored() == ()


def test_next_leader_begins_with_the_stored_state() -> None:
    stage = Stage()
    stage.acquire(0, 9)
    stage.share.acknowledge("a", [AcknowledgementBatch(3, 5, [ACCEPT])])
    again = Stage(coordinator=stage.coordinator.restart())
    assert again.acquire(0, 9, "b") == [(0, 2, 1), (6, 9, 1)]


def test_records_of_aborted_transactions_are_archived() -> None:
    stage = Stage()
    stage.acquire(0, 9)
    stage.share.archive(0, 4)
    assert stage.share.window.complete_count == 5
    stage.share.acknowledge("a", [AcknowledgementBatch(5, 9, [ACCEPT])])
    assert stage.share.window.start_offset == 10


def test_inconsistent_stored_state_is_refused() -> None:
    stage = Stage()
    (state,) = stage.coordinator.machine.states().values()

    class InconsistentStore:
        def read_state(self, *_: object) -> object:
            return state._replace(batches=(StateBatch(0, 4, 77, 1),))

    stage.table.drop(KEY)
    with pytest.raises(KafkaError) as refusal:
        stage.table.get_or_load(
            KEY,
            store=cast("StateStore", InconsistentStore()),
            dead_letter_queues=DeadLetterLog(),
            name="t-0",
            leader=1,
            leader_epoch=0,
            choose_start_offset=lambda: 0,
        )
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


class SlowStore:
    """A store whose answers to writes arrive when the test says so."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self.writes: list[tuple[StateChange, Waiting[None]]] = []

    def read_state(self, key: ShareKey, leader_epoch: int) -> LeaderState | Waiting[LeaderState]:
        return self._store.read_state(key, leader_epoch)

    def write_state(self, key: ShareKey, change: StateChange) -> Waiting[None]:
        answer: Waiting[None] = Waiting()
        self.writes.append((change, answer))

        def write(outcome: object) -> None:
            if outcome is None:
                self._store.write_state(key, change)

        answer.then(write)
        return answer

    def answer(self, refusal: KafkaError | None = None) -> None:
        _, answer = self.writes.pop(0)
        if refusal is None:
            answer.resolve(None)
        else:
            answer.refuse(refusal)


class SlowStage(Stage):
    """A share partition whose store is slow."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SlowStore(self.coordinator.store)
        self.table.drop(KEY)
        share = self.table.get_or_load(
            KEY,
            store=self.store,
            dead_letter_queues=DeadLetterLog(),
            name="t-0",
            leader=1,
            leader_epoch=0,
            choose_start_offset=lambda: 7,
        )
        assert isinstance(share, SharePartition)
        self.share = share
        self.share.watch(self.waiter)
        self.waiter.count = 0


def waiting(answer: Waiting[None] | None) -> Waiting[None]:
    assert answer is not None
    return answer


def test_an_acknowledgement_is_answered_when_the_store_has_answered() -> None:
    stage = SlowStage()
    stage.acquire(0, 9)
    acknowledged = waiting(stage.share.acknowledge("a", [AcknowledgementBatch(0, 4, [ACCEPT])]))
    assert not acknowledged.is_resolved
    assert stage.share.window.start_offset == 0
    stage.store.answer()
    assert acknowledged.value is None
    assert stage.share.window.start_offset == 5
    assert stage.stored() == (StateBatch(0, 4, 2, 1),)


def test_records_do_not_change_during_a_write() -> None:
    stage = SlowStage()
    stage.acquire(0, 4)
    first = waiting(stage.share.acknowledge("a", [AcknowledgementBatch(2, 3, [ACCEPT])]))
    assert not stage.share.can_acquire()
    assert stage.share.acquire(FetchedBatches([(5, 9)], 5), AcquireRequest("b", 500, 500)) == (
        (),
        0,
    )
    again = waiting(stage.share.acknowledge("a", [AcknowledgementBatch(2, 3, [ACCEPT])]))
    released = waiting(stage.share.release("a"))
    assert len(stage.store.writes) == 1
    stage.store.answer()
    assert first.value is None
    assert isinstance(again.value, KafkaError)  # its records were settled meanwhile
    assert not released.is_resolved
    stage.store.answer()
    assert released.value is None
    assert stage.waiter.count > 0
    assert stage.share.can_acquire()


def test_refused_write_changes_nothing_and_returns_the_members_error() -> None:
    stage = SlowStage()
    stage.acquire(0, 4)
    acknowledged = waiting(stage.share.acknowledge("a", [AcknowledgementBatch(0, 4, [ACCEPT])]))
    stage.store.answer(KafkaError(ErrorCode.NOT_COORDINATOR))
    assert isinstance(acknowledged.value, KafkaError)
    assert acknowledged.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert stage.share.window.start_offset == 0
    assert stage.waiter.count == 1


def test_locks_expire_after_the_current_write() -> None:
    stage = SlowStage()
    stage.acquire(0, 4)
    acknowledged = waiting(stage.share.acknowledge("a", [AcknowledgementBatch(0, 1, [ACCEPT])]))
    stage.coordinator.clock.advance(LOCK_MS)
    assert len(stage.store.writes) == 1
    stage.store.answer()
    assert acknowledged.value is None
    stage.store.answer()
    assert stage.stored() == (StateBatch(2, 4, 0, 1),)
    assert stage.acquire(2, 4, "b") == [(2, 4, 2)]


def test_closed_partition_applies_no_pending_acknowledgement() -> None:
    stage = SlowStage()
    stage.acquire(0, 4)
    first = waiting(stage.share.acknowledge("a", [AcknowledgementBatch(0, 1, [ACCEPT])]))
    second = waiting(stage.share.acknowledge("a", [AcknowledgementBatch(2, 3, [ACCEPT])]))
    stage.table.drop(KEY)
    stage.store.answer()
    assert first.value is None
    assert isinstance(second.value, KafkaError)
    assert second.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert stage.store.writes == []


REJECT, RELEASE = AcknowledgeType.REJECT, AcknowledgeType.RELEASE


def acknowledge(stage: Stage, first: int, last: int, *types: int) -> None:
    stage.share.acknowledge("a", [AcknowledgementBatch(first, last, types)])


def letters(log: DeadLetterLog) -> list[tuple[int, int, int, str]]:
    return [(each.first, each.last, each.delivery_count, each.cause.name) for each in log.written]


def test_rejected_records_are_archived_when_they_are_dead_letters() -> None:
    log = DeadLetterLog(has_topic=True)
    stage = Stage(dead_letters=log)
    stage.acquire(0, 9)
    written: Waiting[None] = Waiting()
    log.answer = written
    acknowledge(stage, 0, 9, *[REJECT] * 4, *[AcknowledgeType.ACCEPT] * 6)
    assert letters(log) == [(0, 3, 1, "REJECTED")]
    assert stage.stored() == (StateBatch(0, 3, 3, 1), StateBatch(4, 9, 2, 1))
    assert stage.share.window.start_offset == 0
    written.resolve(None)
    assert stage.stored() == (StateBatch(0, 3, 4, 1), StateBatch(4, 9, 2, 1))
    assert stage.share.window.start_offset == 10
    assert stage.share.window.complete_count == 0
    (event,) = stage.history.about("g")
    assert event.text == "records 0 to 3 of t-0 written to the dead-letter topic"


def test_records_are_dead_letters_after_the_last_delivery() -> None:
    log = DeadLetterLog(has_topic=True)
    coordinator = ManualShareCoordinator({"group.share.delivery.count.limit": "2"})
    coordinator.initialize()
    stage = Stage(coordinator=coordinator, dead_letters=log)
    stage.acquire(0, 0)
    acknowledge(stage, 0, 0, RELEASE)
    stage.acquire(0, 0)
    coordinator.clock.advance(60_000)
    assert letters(log) == [(0, 0, 2, "DELIVERED_TOO_OFTEN")]
    assert stage.share.window.start_offset == 1


def test_records_that_cannot_be_written_are_archived_too() -> None:
    log = DeadLetterLog(has_topic=True)
    log.answer = KafkaError(ErrorCode.INVALID_CONFIG, "no such topic")
    stage = Stage(dead_letters=log)
    stage.acquire(0, 0)
    acknowledge(stage, 0, 0, REJECT)
    assert stage.share.window.start_offset == 1
    assert stage.history.about("g")[0].text == (
        "record 0 of t-0 not written to the dead-letter topic: INVALID_CONFIG: no such topic"
    )


def test_records_are_written_later_if_a_disk_fails() -> None:
    log = DeadLetterLog(has_topic=True)
    log.answer = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    stage = Stage(dead_letters=log)
    stage.acquire(0, 3)
    acknowledge(stage, 0, 3, REJECT)
    stage.coordinator.clock.advance(30_000)
    assert letters(log) == [(0, 3, 1, "REJECTED")] * 2
    assert stage.stored() == (StateBatch(0, 3, 3, 1),)
    assert stage.share.window.start_offset == 0
    log.answer = None
    stage.coordinator.clock.advance(30_000)
    assert letters(log) == [(0, 3, 1, "REJECTED")] * 3
    assert stage.stored() == (StateBatch(0, 3, 4, 1),)
    assert stage.share.window.start_offset == 4


def test_a_closed_partition_leaves_unwritten_records_to_the_next_leader() -> None:
    log = DeadLetterLog(has_topic=True)
    log.answer = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    stage = Stage(dead_letters=log)
    stage.acquire(0, 3)
    acknowledge(stage, 0, 3, REJECT)
    stage.share.close()
    stage.coordinator.clock.advance(30_000)
    assert letters(log) == [(0, 3, 1, "REJECTED")]
    assert stage.stored() == (StateBatch(0, 3, 3, 1),)


def test_the_next_leader_writes_unfinished_dead_letters() -> None:
    log = DeadLetterLog(has_topic=True)
    stage = Stage(dead_letters=log)
    stage.acquire(0, 5)
    waiting: Waiting[None] = Waiting()
    log.answer = waiting
    acknowledge(stage, 2, 3, REJECT)
    stage.share.close()
    waiting.refuse(KafkaError(ErrorCode.NETWORK_EXCEPTION))
    assert stage.stored() == (StateBatch(2, 3, 3, 1),)
    next_log = DeadLetterLog()
    following = Stage(coordinator=stage.coordinator, dead_letters=next_log)
    assert letters(next_log) == [(2, 3, 1, "REJECTED")]
    assert following.stored() == (StateBatch(2, 3, 4, 1),)


def test_archiving_records_are_neither_delivered_nor_acknowledged() -> None:
    log = DeadLetterLog(has_topic=True)
    log.answer = Waiting()
    stage = Stage(dead_letters=log)
    stage.acquire(0, 0)
    acknowledge(stage, 0, 0, REJECT)
    assert stage.share.window.next_fetch_offset() == 1
    with pytest.raises(KafkaError):
        acknowledge(stage, 0, 0, AcknowledgeType.ACCEPT)
