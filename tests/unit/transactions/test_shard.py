"""The state machine of transactional ids: consecutive transactions, and pending markers."""

from __future__ import annotations

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.state import ProducerIdAndEpoch, TransactionState
from tests.unit.transactions.transaction_coordinator import (
    FIRST_PRODUCER_ID,
    ID,
    A,
    B,
    C,
    ManualTransactionCoordinator,
    error_code_of,
)


def test_with_transaction_version_2_each_end_increases_the_epoch() -> None:
    world = ManualTransactionCoordinator()
    producer = world.init()
    assert producer == (FIRST_PRODUCER_ID, 0)
    world.add(producer, B, A)
    world.add(producer, C)
    assert world.describe().state is TransactionState.ONGOING
    successor = world.end(producer)
    assert successor == (FIRST_PRODUCER_ID, 1)
    assert world.written == [WriteMarkers(ID, FIRST_PRODUCER_ID, 1, True, 2, (A, B, C))]
    assert world.describe().state is TransactionState.COMPLETE_COMMIT
    assert world.describe().partitions == frozenset()
    # A retry gets the same answer, and the next transaction can end differently.
    assert world.end(producer) == successor
    world.add(successor, A)
    assert world.end(successor, is_commit=False) == (FIRST_PRODUCER_ID, 2)
    assert world.describe().state is TransactionState.COMPLETE_ABORT


def test_before_transaction_version_2_the_epoch_stays_the_same() -> None:
    world = ManualTransactionCoordinator(level=1)
    producer = world.init()
    world.add(producer, A, version=0)
    assert world.end(producer, version=0) == (-1, -1)
    assert world.written == [WriteMarkers(ID, FIRST_PRODUCER_ID, 0, True, 0, (A,))]
    world.add(producer, A, version=0)
    world.end(producer, version=0, is_commit=False)
    assert world.describe().producer == producer


def test_next_producer_fences_and_aborts() -> None:
    world = ManualTransactionCoordinator()
    zombie = world.init()
    world.add(zombie, A)
    assert error_code_of(world.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [(each.producer_epoch, each.is_commit) for each in world.written] == [(1, False)]
    next_producer = world.init()
    assert next_producer == (FIRST_PRODUCER_ID, 2)
    assert error_code_of(lambda: world.add(zombie, A)) is ErrorCode.PRODUCER_FENCED
    assert error_code_of(lambda: world.end(zombie)) is ErrorCode.PRODUCER_FENCED
    assert [entry.kind for entry in world.events()] == ["fenced"]


def test_markers_of_decided_transactions_are_requested_again_after_loading() -> None:
    world = ManualTransactionCoordinator(writes_markers=False)
    producer = world.init()
    world.add(producer, A)
    world.end(producer)
    (markers,) = world.markers
    assert error_code_of(lambda: world.add(producer, A)) is ErrorCode.CONCURRENT_TRANSACTIONS
    later = world.restart()
    assert later.markers == [markers]
    later.write_markers()
    assert later.describe().state is TransactionState.COMPLETE_COMMIT
    # Written twice, the markers complete the transaction once.
    length = len(later.log.entries)
    later.complete(markers)
    assert len(later.log.entries) == length


def test_failed_append_changes_nothing() -> None:
    world = ManualTransactionCoordinator()
    first = world.init()
    second = world.init(first)
    before = world.describe()
    world.log.next_error = OSError(28, "no space left on device")
    assert error_code_of(lambda: world.init(second)) is ErrorCode.NOT_COORDINATOR
    assert world.describe() == before
    # The previous epoch is still known, so this is a retry and not a zombie.
    assert world.init(first) == second == ProducerIdAndEpoch(FIRST_PRODUCER_ID, 1)
