"""Adding partitions to a transaction, and verification."""

from __future__ import annotations

from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.transactions.transaction_coordinator import (
    A,
    B,
    ManualTransactionCoordinator,
    error_code_of,
)


def test_partition_outside_of_the_transaction_is_not_verified() -> None:
    coordinator = ManualTransactionCoordinator()
    producer = coordinator.init()
    assert coordinator.verify(producer, A) == [ErrorCode.TRANSACTION_ABORTABLE]
    coordinator.add(producer, A)
    assert coordinator.verify(producer, B, A) == [ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.NONE]
    coordinator.end(producer)
    assert error_code_of(lambda: coordinator.verify(producer, A)) is ErrorCode.PRODUCER_FENCED
