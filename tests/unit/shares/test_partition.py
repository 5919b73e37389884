"""A share partition beside its store: kept before it is answered, given back when locks run out."""

from __future__ import annotations

import pytest

from kafkalite.coordinator.journal import Journal
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.shares.acquiring import Fetched, Wish
from kafkalite.shares.settling import AckBatch
from kafkalite.shares.state import StateBatch
from kafkalite.shares.table import SharePartitions
from tests.unit.shares.share_world import KEY, ShareWorld

ACCEPT, RELEASE = 1, 2
LOCK_MS = 30_000


class Waiter:
    """Somebody who counts how often there may be something."""

    def __init__(self) -> None:
        self.count = 0

    def look_again(self) -> None:
        self.count += 1


class Stage:
    """One share partition, its group and its store."""

    def __init__(self, *, start: int = 0, world: ShareWorld | None = None) -> None:
        self.world = world or ShareWorld()
        self.journal = Journal()
        self.table = SharePartitions(
            clock=self.world.clock,
            config=self.world.config,
            store=self.world.coordinator,
            journal=self.journal,
        )
        if world is None:
            self.world.begin(start_offset=start)
        self.share = self.table.begin(KEY, name="t-0", leader_epoch=0, choose_start=lambda: 7)
        self.waiter = Waiter()
        self.share.watch(self.waiter)

    def take(self, first: int, last: int, member: str = "a") -> list[tuple[int, ...]]:
        offset = self.share.window.next_fetch_offset()
        acquired, count = self.share.acquire(
            Fetched([(first, last)], offset), Wish(member, 500, 500)
        )
        assert count == sum(one.size for one in acquired)
        return [tuple(one) for one in acquired]

    def kept(self) -> tuple[StateBatch, ...]:
        return self.world.machine.states()[KEY].batches


def test_where_nobody_has_chosen_the_group_begins_as_it_is_set() -> None:
    stage = Stage(start=-1)
    assert stage.share.window.start_offset == 7


def test_what_is_said_of_records_is_kept_before_it_is_done() -> None:
    stage = Stage()
    assert stage.take(0, 9) == [(0, 9, 1)]
    assert len(stage.kept()) == 0
    stage.share.acknowledge("a", [AckBatch(0, 4, [ACCEPT])])
    assert stage.kept() == (StateBatch(0, 4, 2, 1),)
    assert stage.share.window.start_offset == 5
    stage.world.log.fails_with = OSError(5, "input/output error")
    with pytest.raises(KafkaError) as refusal:
        stage.share.acknowledge("a", [AckBatch(5, 9, [ACCEPT])])
    assert refusal.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    stage.share.acknowledge("a", [AckBatch(5, 9, [ACCEPT])])
    assert stage.share.window.start_offset == 10


def test_whoever_waits_is_told_when_there_may_be_something() -> None:
    stage = Stage()
    stage.take(0, 9)
    stage.share.acknowledge("a", [AckBatch(4, 5, [ACCEPT])])
    assert stage.waiter.count == 0
    stage.share.acknowledge("a", [AckBatch(6, 7, [RELEASE])])
    assert stage.waiter.count == 1
    stage.share.acknowledge("a", [AckBatch(0, 3, [ACCEPT])])
    assert stage.waiter.count == 2
    stage.share.release("a")
    assert stage.waiter.count == 3
    stage.share.unwatch(stage.waiter)
    stage.take(6, 9)
    stage.share.release("a")
    assert stage.waiter.count == 3


def test_locks_run_out_in_turn_by_the_clock() -> None:
    stage = Stage()
    stage.take(0, 4)
    stage.world.clock.advance(10_000)
    stage.take(5, 9, "b")
    stage.world.clock.advance(LOCK_MS - 10_000)
    assert stage.kept() == (StateBatch(0, 4, 0, 1),)
    assert stage.world.clock.next_deadline_ms == stage.world.clock.now_ms() + 10_000
    stage.world.clock.advance(10_000)
    assert stage.kept() == (StateBatch(0, 9, 0, 1),)
    assert [entry.facts["member_id"] for entry in stage.journal.about("g")] == ["a", "b"]


def test_a_lock_runs_out_even_if_that_cannot_be_kept() -> None:
    stage = Stage()
    stage.take(0, 4)
    stage.world.log.fails_with = OSError(28, "no space left on device")
    stage.world.clock.advance(LOCK_MS)
    assert stage.kept() == ()
    assert stage.take(0, 4, "b") == [(0, 4, 2)]


def test_a_closed_partition_gives_nothing_and_forgets_its_locks() -> None:
    stage = Stage()
    stage.take(0, 4)
    stage.table.drop(KEY)
    assert stage.waiter.count == 1
    assert not stage.share.can_acquire()
    assert stage.take(5, 9) == []
    stage.world.clock.advance(LOCK_MS)
    assert stage.kept() == ()


def test_what_is_kept_is_where_the_next_leader_begins() -> None:
    stage = Stage()
    stage.take(0, 9)
    stage.share.acknowledge("a", [AckBatch(3, 5, [ACCEPT])])
    again = Stage(world=stage.world.restarted())
    assert again.take(0, 9, "b") == [(0, 2, 1), (6, 9, 1)]


def test_records_of_aborted_transactions_are_given_up() -> None:
    stage = Stage()
    stage.take(0, 9)
    stage.share.give_up(0, 4)
    assert stage.share.window.complete_count == 5
    stage.share.acknowledge("a", [AckBatch(5, 9, [ACCEPT])])
    assert stage.share.window.start_offset == 10


def test_a_kept_state_that_makes_no_sense_cannot_be_read() -> None:
    stage = Stage()
    (state,) = stage.world.machine.states().values()

    class Nonsense:
        def read_state(self, *_: object) -> object:
            return state._replace(batches=(StateBatch(0, 4, 77, 1),))

    stage.table.drop(KEY)
    stage.table.store = Nonsense()  # type: ignore[assignment]  # what a broken log may hold
    with pytest.raises(KafkaError) as refusal:
        stage.table.begin(KEY, name="t-0", leader_epoch=0, choose_start=lambda: 0)
    assert refusal.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
