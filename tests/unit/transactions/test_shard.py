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
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init()
    assert producer == (FIRST_PRODUCER_ID, 0)
    coordinator.add(producer, B, A)
    coordinator.add(producer, C)
    assert coordinator.describe().state is TransactionState.ONGOING
    successor = coordinator.end(producer)
    assert successor == (FIRST_PRODUCER_ID, 1)
    assert coordinator.written == [WriteMarkers(ID, FIRST_PRODUCER_ID, 1, True, 2, (A, B, C))]
    assert coordinator.describe().state is TransactionState.COMPLETE_COMMIT
    assert coordinator.describe().partitions == frozenset()
    # A retry gets the same answer, and the next transaction can end differently.
    assert coordinator.end(producer) == successor
    coordinator.add(successor, A)
    assert coordinator.end(successor, is_commit=False) == (FIRST_PRODUCER_ID, 2)
    assert coordinator.describe().state is TransactionState.COMPLETE_ABORT


def test_before_transaction_version_2_the_epoch_stays_the_same() -> None:
    coordinator = ManualTransactionCoordinator(level=1)
    producer = coordinator.init()
    coordinator.add(producer, A, version=0)
    assert coordinator.end(producer, version=0) == (-1, -1)
    assert coordinator.written == [WriteMarkers(ID, FIRST_PRODUCER_ID, 0, True, 0, (A,))]
    coordinator.add(producer, A, version=0)
    coordinator.end(producer, version=0, is_commit=False)
    assert coordinator.describe().producer == producer


def test_next_producer_fences_and_aborts() -> None:
    coordinator = ManualTransactionCoordinator()
    zombie = coordinator.init()
    coordinator.add(zombie, A)
    assert error_code_of(coordinator.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [(each.producer_epoch, each.is_commit) for each in coordinator.written] == [(1, False)]
    next_producer = coordinator.init()
    assert next_producer == (FIRST_PRODUCER_ID, 2)
    assert error_code_of(lambda: coordinator.add(zombie, A)) is ErrorCode.PRODUCER_FENCED
    assert error_code_of(lambda: coordinator.end(zombie)) is ErrorCode.PRODUCER_FENCED
    assert [entry.kind for entry in coordinator.events()] == ["fenced"]


def test_markers_of_decided_transactions_are_requested_again_after_loading() -> None:
    coordinator = ManualTransactionCoordinator(writes_markers=False)
    producer = coordinator.init()
    coordinator.add(producer, A)
    coordinator.end(producer)
    (markers,) = coordinator.markers
    assert error_code_of(lambda: coordinator.add(producer, A)) is ErrorCode.CONCURRENT_TRANSACTIONS
    later = coordinator.restart()
    assert later.markers == [markers]
    later.write_markers()
    assert later.describe().state is TransactionState.COMPLETE_COMMIT
    # Written twice, the markers complete the transaction once.
    length = len(later.log.entries)
    later.complete(markers)
    assert len(later.log.entries) == length


def test_failed_append_changes_nothing() -> None:
    coordinator = ManualTransactionCoordinator()
    first = coordinator.init()
    second = coordinator.init(first)
    before = coordinator.describe()
    coordinator.log.next_error = OSError(28, "no space left on device")
    assert error_code_of(lambda: coordinator.init(second)) is ErrorCode.NOT_COORDINATOR
    assert coordinator.describe() == before
    # The previous epoch is still known, so this is a retry and not a zombie.
    assert coordinator.init(first) == second == ProducerIdAndEpoch(FIRST_PRODUCER_ID, 1)
