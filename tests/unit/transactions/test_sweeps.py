"""What befalls a transactional id without anybody asking: a timeout, and in the end expiry."""

from __future__ import annotations

import pytest

from kafkalite.coordinator import sweeping
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions import sweeps
from kafkalite.transactions.state import (
    GREATEST_EPOCH,
    LAST_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    TransactionState,
)
from tests.unit.transactions.transaction_world import (
    FIRST_PRODUCER_ID,
    ID,
    A,
    B,
    TransactionWorld,
    refusal_of,
)

ROUND_MS = 10_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    world = TransactionWorld()
    zombie = world.init(timeout_ms=60_000)
    world.clock.advance(5_000)
    world.add(zombie, A, B)
    # Rounds are at 10, 20, ..., and at 65 the transaction has only just had its time.
    world.clock.advance(60_000)
    assert world.now().state is TransactionState.ONGOING
    world.clock.advance(5_000)
    assert world.now().state is TransactionState.COMPLETE_ABORT
    assert [(each.producer_epoch, each.is_commit) for each in world.written] == [(1, False)]
    (entry,) = world.told()
    assert (entry.kind, entry.facts["rule"]) == ("aborted", "timeout")
    assert entry.text == (
        "transaction of id x aborted: open for 65 s, its timeout is 60 s; "
        "producer 4000 is fenced at epoch 0"
    )
    assert refusal_of(lambda: world.add(zombie, A)) is ErrorCode.PRODUCER_FENCED
    assert refusal_of(lambda: world.end(zombie, version=0)) is ErrorCode.PRODUCER_FENCED
    assert refusal_of(lambda: world.end(zombie)) is ErrorCode.INVALID_TXN_STATE
    # With version 2 its abort looks like one that is asked for again.
    assert world.end(zombie, is_commit=False) == (FIRST_PRODUCER_ID, 1)


def test_exactly_its_timeout_is_not_too_long() -> None:
    world = TransactionWorld()
    producer = world.init(timeout_ms=ROUND_MS)
    world.add(producer, A)
    world.clock.advance(ROUND_MS)
    assert world.now().state is TransactionState.ONGOING
    world.clock.advance(ROUND_MS)
    assert world.now().state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 0), (2, 2)])
def test_the_coordinator_ends_by_the_level_of_the_cluster(level: int, version: int) -> None:
    world = TransactionWorld(level=level)
    producer = world.init()
    # Whatever its client speaks, as far as the log has a place for that.
    world.add(producer, A, version=2 - version if level else 0)
    world.clock.advance(80_000)
    (markers,) = world.written
    assert (markers.transaction_version, markers.producer_epoch) == (version, 1)
    assert world.now().producer == producer._replace(producer_epoch=1)


def test_the_longest_timeout_is_none_at_all() -> None:
    world = TransactionWorld({"transaction.max.timeout.ms": str(NO_TIMEOUT_MS)})
    producer = world.init(timeout_ms=NO_TIMEOUT_MS)
    world.add(producer, A)
    world.clock.advance(40 * DAY_MS)
    assert world.now().state is TransactionState.ONGOING
    assert world.end(producer).producer_epoch == 1


def test_the_last_epoch_of_all_is_for_the_marker_of_a_timeout() -> None:
    for level, successor in ((1, (FIRST_PRODUCER_ID, GREATEST_EPOCH)), (2, (5_000, 0))):
        world = TransactionWorld(level=level)
        world.seed(producer_epoch=LAST_PRODUCER_EPOCH, next_producer_id=5_000)
        world.add(world.now().producer, A)
        world.clock.advance(80_000)
        assert [each.producer_epoch for each in world.written] == [GREATEST_EPOCH]
        assert world.now().producer == successor


def test_without_a_fresh_producer_id_a_timeout_waits_for_the_next_round() -> None:
    world = TransactionWorld()
    world.seed(producer_epoch=LAST_PRODUCER_EPOCH)
    world.add(world.now().producer, A)
    world.no_producer_ids = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.clock.advance(80_000)
    assert world.now().state is TransactionState.ONGOING
    world.no_producer_ids = None
    world.clock.advance(ROUND_MS)
    assert world.now().state is TransactionState.COMPLETE_ABORT


def test_a_log_that_refuses_is_tried_again() -> None:
    world = TransactionWorld()
    world.add(world.init(), A)
    world.clock.advance(69_999)
    world.log.fails_with = OSError(28, "no space left on device")
    world.clock.advance(1)
    assert world.now().state is TransactionState.ONGOING
    world.clock.advance(500)
    assert world.now().state is TransactionState.COMPLETE_ABORT
    world.add(world.init(), A)
    world.clock.advance(80_000)
    assert world.now().state is TransactionState.COMPLETE_ABORT


def test_many_are_aborted_a_few_at_a_time() -> None:
    world = TransactionWorld()
    count = 3 * sweeps._ABORTS_AT_ONCE + 1
    for number in range(count):
        name = f"id-{number}"
        world.add(world.init(transactional_id=name), A, transactional_id=name)
    world.clock.advance(70_000)
    assert len(world.written) == sweeps._ABORTS_AT_ONCE
    world.clock.advance(100)
    assert len(world.written) == count
    assert {world.now(f"id-{number}").state for number in range(count)} == {
        TransactionState.COMPLETE_ABORT
    }


def test_an_id_that_is_not_used_for_a_week_is_forgotten() -> None:
    world = TransactionWorld()
    producer = world.init()
    world.clock.advance(WEEK_MS - HOUR_MS)
    assert world.now().producer == producer
    world.clock.advance(HOUR_MS)
    assert refusal_of(world.now) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert refusal_of(lambda: world.add(producer, A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.log.entries[-1][1] is None
    (entry,) = world.told()
    assert entry.kind == "expired"
    assert entry.text == (
        "transactional id x expired: not used for 7 days, and ids are kept for 7 days "
        "(transactional.id.expiration.ms)"
    )
    # Whoever comes later begins afresh, though it thinks itself the same.
    assert world.init(producer) == (FIRST_PRODUCER_ID + 1, 0)


def test_what_is_open_or_being_told_does_not_expire() -> None:
    world = TransactionWorld(
        {"transactional.id.expiration.ms": "1000", "transaction.max.timeout.ms": "2000000000"},
        writes_markers=False,
    )
    open_for_long = world.init(timeout_ms=2_000_000_000)
    world.add(open_for_long, A)
    pending = world.init(transactional_id="y")
    world.add(pending, A, transactional_id="y")
    world.end(pending, transactional_id="y")
    world.init(transactional_id="z")
    world.clock.advance(2 * HOUR_MS)
    assert [each.transactional_id for each in world.machine.transactions()] == [ID, "y"]


def test_many_are_forgotten_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "_LOOKS_AT_ONCE", 7)
    monkeypatch.setattr(sweeping, "_EVENTS_AT_ONCE", 2)
    world = TransactionWorld({"transactional.id.expiration.ms": "3600000"})
    for number in range(20):
        world.init(transactional_id=f"id-{number}")
    world.clock.advance(HOUR_MS)
    assert len(list(world.machine.transactions())) == 13
    # One that is used meanwhile stays.
    world.init(transactional_id="id-19")
    world.clock.advance(100)
    assert [each.transactional_id for each in world.machine.transactions()] == ["id-19"]
    told = [number for number in range(20) if world.told(f"id-{number}")]
    assert told == [0, 1, 7, 8, 14, 15]


def test_steps_are_smaller_where_the_log_takes_only_little() -> None:
    world = TransactionWorld({"transactional.id.expiration.ms": "3600000"})
    for number in range(600):
        world.init(transactional_id=f"id-{number}")
    world.clock.advance(HOUR_MS - 1)
    world.log.fails_with = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    world.clock.advance(1)
    assert len(list(world.machine.transactions())) == 600
    world.clock.advance(500)
    assert len(list(world.machine.transactions())) == 350
    world.clock.advance(100)
    assert len(list(world.machine.transactions())) == 0


def test_where_nothing_can_be_found_nothing_is_looked_for() -> None:
    world = TransactionWorld()
    began_ms = world.clock.now_ms()
    assert world.clock.next_deadline_ms is None
    world.clock.advance(12_345)
    producer = world.init()
    assert world.clock.next_deadline_ms == began_ms + HOUR_MS
    world.add(producer, A)
    assert world.clock.next_deadline_ms == began_ms + 2 * ROUND_MS
    world.end(producer)
    world.clock.advance(ROUND_MS)
    assert world.clock.next_deadline_ms == began_ms + HOUR_MS
    world.clock.advance(2 * WEEK_MS)
    assert world.clock.next_deadline_ms is None


@pytest.mark.parametrize("is_restarted", [False, True])
def test_rounds_are_not_forgotten_with_what_the_log_refused(*, is_restarted: bool) -> None:
    world = TransactionWorld()
    world.log.fails_with = OSError(28, "no space left on device")
    assert refusal_of(world.init) is ErrorCode.NOT_COORDINATOR
    producer = world.init()
    world.log.fails_with = OSError(28, "no space left on device")
    assert refusal_of(lambda: world.add(producer, A)) is ErrorCode.NOT_COORDINATOR
    world.add(producer, A)
    if is_restarted:
        world = world.restarted(writes_markers=True)
    world.clock.advance(80_000)
    assert world.now().state is TransactionState.COMPLETE_ABORT
    world.clock.advance(8 * DAY_MS)
    assert not list(world.machine.transactions())
