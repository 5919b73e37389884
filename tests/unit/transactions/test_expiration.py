"""Periodic work on transactional ids: timeouts and expiration."""

from __future__ import annotations

import pytest

from kafkalite.coordinator import sweep
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions import expiration
from kafkalite.transactions.state import (
    LAST_PRODUCER_EPOCH,
    MAX_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    TransactionState,
)
from tests.unit.transactions.transaction_coordinator import (
    FIRST_PRODUCER_ID,
    ID,
    A,
    B,
    ManualTransactionCoordinator,
    error_code_of,
)

ROUND_MS = 10_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS


def test_a_transaction_that_is_open_for_too_long_is_aborted() -> None:
    coordinator = ManualTransactionCoordinator()
    zombie = coordinator.init(timeout_ms=60_000)
    coordinator.clock.advance(5_000)
    coordinator.add(zombie, A, B)
    # Rounds are at 10, 20, ...; at 65 the timeout has just passed.
    coordinator.clock.advance(60_000)
    assert coordinator.describe().state is TransactionState.ONGOING
    coordinator.clock.advance(5_000)
    assert coordinator.describe().state is TransactionState.COMPLETE_ABORT
    assert [(each.producer_epoch, each.is_commit) for each in coordinator.written] == [(1, False)]
    (entry,) = coordinator.events()
    assert (entry.kind, entry.facts["rule"]) == ("aborted", "timeout")
    assert entry.text == (
        "transaction of id x aborted: open for 65 s, its timeout is 60 s; "
        "producer 4000 is fenced at epoch 0"
    )
    assert error_code_of(lambda: coordinator.add(zombie, A)) is ErrorCode.PRODUCER_FENCED
    assert error_code_of(lambda: coordinator.end(zombie, version=0)) is ErrorCode.PRODUCER_FENCED
    assert error_code_of(lambda: coordinator.end(zombie)) is ErrorCode.INVALID_TXN_STATE
    # With version 2 a repeated abort looks the same.
    assert coordinator.end(zombie, is_commit=False) == (FIRST_PRODUCER_ID, 1)


def test_a_transaction_open_for_exactly_its_timeout_is_not_aborted() -> None:
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init(timeout_ms=ROUND_MS)
    coordinator.add(producer, A)
    coordinator.clock.advance(ROUND_MS)
    assert coordinator.describe().state is TransactionState.ONGOING
    coordinator.clock.advance(ROUND_MS)
    assert coordinator.describe().state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 0), (2, 2)])
def test_timeout_uses_the_transaction_version_of_the_cluster(level: int, version: int) -> None:
    coordinator = ManualTransactionCoordinator(level=level)
    producer = coordinator.init()
    # The client's version does not matter, if the log can store it.
    coordinator.add(producer, A, version=2 - version if level else 0)
    coordinator.clock.advance(80_000)
    (markers,) = coordinator.written
    assert (markers.transaction_version, markers.producer_epoch) == (version, 1)
    assert coordinator.describe().producer == producer._replace(producer_epoch=1)


def test_longest_timeout_never_expires() -> None:
    coordinator = ManualTransactionCoordinator({"transaction.max.timeout.ms": str(NO_TIMEOUT_MS)})
    producer = coordinator.init(timeout_ms=NO_TIMEOUT_MS)
    coordinator.add(producer, A)
    coordinator.clock.advance(40 * DAY_MS)
    assert coordinator.describe().state is TransactionState.ONGOING
    assert coordinator.end(producer).producer_epoch == 1


def test_timeout_at_the_last_epoch_uses_the_greatest_epoch_for_its_marker() -> None:
    for level, successor in ((1, (FIRST_PRODUCER_ID, MAX_PRODUCER_EPOCH)), (2, (5_000, 0))):
        coordinator = ManualTransactionCoordinator(level=level)
        coordinator.seed(producer_epoch=LAST_PRODUCER_EPOCH, next_producer_id=5_000)
        coordinator.add(coordinator.describe().producer, A)
        coordinator.clock.advance(80_000)
        assert [each.producer_epoch for each in coordinator.written] == [MAX_PRODUCER_EPOCH]
        assert coordinator.describe().producer == successor


def test_timeout_without_a_new_producer_id_waits_for_the_next_round() -> None:
    coordinator = ManualTransactionCoordinator()
    coordinator.seed(producer_epoch=LAST_PRODUCER_EPOCH)
    coordinator.add(coordinator.describe().producer, A)
    coordinator.no_producer_ids = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    coordinator.clock.advance(80_000)
    assert coordinator.describe().state is TransactionState.ONGOING
    coordinator.no_producer_ids = None
    coordinator.clock.advance(ROUND_MS)
    assert coordinator.describe().state is TransactionState.COMPLETE_ABORT


def test_failed_append_of_a_timeout_is_retried() -> None:
    coordinator = ManualTransactionCoordinator()
    coordinator.add(coordinator.init(), A)
    coordinator.clock.advance(69_999)
    coordinator.log.next_error = OSError(28, "no space left on device")
    coordinator.clock.advance(1)
    assert coordinator.describe().state is TransactionState.ONGOING
    coordinator.clock.advance(500)
    assert coordinator.describe().state is TransactionState.COMPLETE_ABORT
    coordinator.add(coordinator.init(), A)
    coordinator.clock.advance(80_000)
    assert coordinator.describe().state is TransactionState.COMPLETE_ABORT


def test_many_timeouts_are_aborted_in_steps() -> None:
    coordinator = ManualTransactionCoordinator()
    count = 3 * expiration._MAX_ABORTS_PER_STEP + 1
    for number in range(count):
        name = f"id-{number}"
        coordinator.add(coordinator.init(transactional_id=name), A, transactional_id=name)
    coordinator.clock.advance(70_000)
    assert len(coordinator.written) == expiration._MAX_ABORTS_PER_STEP
    coordinator.clock.advance(100)
    assert len(coordinator.written) == count
    assert {coordinator.describe(f"id-{number}").state for number in range(count)} == {
        TransactionState.COMPLETE_ABORT
    }


def test_id_unused_for_a_week_expires() -> None:
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init()
    coordinator.clock.advance(WEEK_MS - HOUR_MS)
    assert coordinator.describe().producer == producer
    coordinator.clock.advance(HOUR_MS)
    assert error_code_of(coordinator.describe) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (
        error_code_of(lambda: coordinator.add(producer, A)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert coordinator.log.entries[-1][1] is None
    (entry,) = coordinator.events()
    assert entry.kind == "expired"
    assert entry.text == (
        "transactional id x expired: not used for 7 days, and "
        "transactional.id.expiration.ms is 7 days"
    )
    # A producer that comes later starts from the beginning.
    assert coordinator.init(producer) == (FIRST_PRODUCER_ID + 1, 0)


def test_open_or_completing_transactions_do_not_expire() -> None:
    coordinator = ManualTransactionCoordinator(
        {"transactional.id.expiration.ms": "1000", "transaction.max.timeout.ms": "2000000000"},
        writes_markers=False,
    )
    open_for_long = coordinator.init(timeout_ms=2_000_000_000)
    coordinator.add(open_for_long, A)
    pending = coordinator.init(transactional_id="y")
    coordinator.add(pending, A, transactional_id="y")
    coordinator.end(pending, transactional_id="y")
    coordinator.init(transactional_id="z")
    coordinator.clock.advance(2 * HOUR_MS)
    assert [each.transactional_id for each in coordinator.machine.transactions()] == [ID, "y"]


def test_many_ids_expire_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiration, "_MAX_EXAMINED_PER_STEP", 7)
    monkeypatch.setattr(sweep, "_MAX_EVENTS", 2)
    coordinator = ManualTransactionCoordinator({"transactional.id.expiration.ms": "3600000"})
    for number in range(20):
        coordinator.init(transactional_id=f"id-{number}")
    coordinator.clock.advance(HOUR_MS)
    assert len(list(coordinator.machine.transactions())) == 13
    # An id that is used in the meantime stays.
    coordinator.init(transactional_id="id-19")
    coordinator.clock.advance(100)
    assert [each.transactional_id for each in coordinator.machine.transactions()] == ["id-19"]
    expired = [number for number in range(20) if coordinator.events(f"id-{number}")]
    assert expired == [0, 1, 7, 8, 14, 15]


def test_steps_are_smaller_after_a_too_large_batch() -> None:
    coordinator = ManualTransactionCoordinator({"transactional.id.expiration.ms": "3600000"})
    for number in range(600):
        coordinator.init(transactional_id=f"id-{number}")
    coordinator.clock.advance(HOUR_MS - 1)
    coordinator.log.next_error = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
    coordinator.clock.advance(1)
    assert len(list(coordinator.machine.transactions())) == 600
    coordinator.clock.advance(500)
    assert len(list(coordinator.machine.transactions())) == 350
    coordinator.clock.advance(100)
    assert len(list(coordinator.machine.transactions())) == 0


def test_no_timer_is_set_without_work() -> None:
    coordinator = ManualTransactionCoordinator()
    began_ms = coordinator.clock.now_ms()
    assert coordinator.clock.next_deadline_ms is None
    coordinator.clock.advance(12_345)
    producer = coordinator.init()
    assert coordinator.clock.next_deadline_ms == began_ms + HOUR_MS
    coordinator.add(producer, A)
    assert coordinator.clock.next_deadline_ms == began_ms + 2 * ROUND_MS
    coordinator.end(producer)
    coordinator.clock.advance(ROUND_MS)
    assert coordinator.clock.next_deadline_ms == began_ms + HOUR_MS
    coordinator.clock.advance(2 * WEEK_MS)
    assert coordinator.clock.next_deadline_ms is None


@pytest.mark.parametrize("is_restarted", [False, True])
def test_rounds_continue_after_a_refused_append(*, is_restarted: bool) -> None:
    coordinator = ManualTransactionCoordinator()
    coordinator.log.next_error = OSError(28, "no space left on device")
    assert error_code_of(coordinator.init) is ErrorCode.NOT_COORDINATOR
    producer = coordinator.init()
    coordinator.log.next_error = OSError(28, "no space left on device")
    assert error_code_of(lambda: coordinator.add(producer, A)) is ErrorCode.NOT_COORDINATOR
    coordinator.add(producer, A)
    if is_restarted:
        coordinator = coordinator.restart(writes_markers=True)
    coordinator.clock.advance(80_000)
    assert coordinator.describe().state is TransactionState.COMPLETE_ABORT
    coordinator.clock.advance(8 * DAY_MS)
    assert not list(coordinator.machine.transactions())
