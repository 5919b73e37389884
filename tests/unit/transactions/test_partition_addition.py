"""Adding partitions to a transaction, and verification."""

from __future__ import annotations

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.state import TransactionState
from tests.unit.transactions.transaction_coordinator import (
    A,
    B,
    ManualTransactionCoordinator,
    error_code_of,
)


def test_first_partition_begins_the_transaction() -> None:
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init()
    coordinator.clock.advance(100)
    started_ms = coordinator.clock.now_ms()
    coordinator.add(producer, A)
    coordinator.clock.advance(100)
    coordinator.add(producer, B)
    now = coordinator.describe()
    assert (now.state, now.partitions) == (TransactionState.ONGOING, frozenset([A, B]))
    assert (now.start_timestamp_ms, now.last_update_timestamp_ms) == (started_ms, started_ms + 100)


def test_partition_that_is_already_added_writes_no_record() -> None:
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init()
    coordinator.add(producer, A, B)
    length = len(coordinator.log.entries)
    coordinator.add(producer, B)
    assert len(coordinator.log.entries) == length


def test_partition_outside_of_the_transaction_is_not_verified() -> None:
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init()
    assert coordinator.verify(producer, A) == [ErrorCode.TRANSACTION_ABORTABLE]
    coordinator.add(producer, A)
    assert coordinator.verify(producer, B, A) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    coordinator.end(producer)
    assert error_code_of(lambda: coordinator.verify(producer, A)) is ErrorCode.PRODUCER_FENCED
