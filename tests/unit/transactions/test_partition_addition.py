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
    world = ManualTransactionCoordinator()
    producer = world.init()
    world.clock.advance(100)
    started_ms = world.clock.now_ms()
    world.add(producer, A)
    world.clock.advance(100)
    world.add(producer, B)
    now = world.describe()
    assert (now.state, now.partitions) == (TransactionState.ONGOING, frozenset([A, B]))
    assert (now.start_timestamp_ms, now.last_update_timestamp_ms) == (started_ms, started_ms + 100)


def test_partition_that_is_already_added_writes_no_record() -> None:
    world = ManualTransactionCoordinator()
    producer = world.init()
    world.add(producer, A, B)
    length = len(world.log.entries)
    world.add(producer, B)
    assert len(world.log.entries) == length


def test_partition_outside_of_the_transaction_is_not_verified() -> None:
    world = ManualTransactionCoordinator()
    producer = world.init()
    assert world.verify(producer, A) == [ErrorCode.TRANSACTION_ABORTABLE]
    world.add(producer, A)
    assert world.verify(producer, B, A) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    world.end(producer)
    assert error_code_of(lambda: world.verify(producer, A)) is ErrorCode.PRODUCER_FENCED
