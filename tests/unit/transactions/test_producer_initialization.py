"""InitProducerId: new producers, recovery after an error, and refusals."""

from __future__ import annotations

import pytest

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.state import NO_TIMEOUT_MS, TransactionState
from tests.unit.transactions.transaction_coordinator import (
    A,
    ManualTransactionCoordinator,
    error_code_of,
)

ENABLED = {"transaction.two.phase.commit.enable": "true"}


def test_each_new_producer_has_the_next_epoch() -> None:
    coordinator = ManualTransactionCoordinator()
    first = coordinator.init()
    second = coordinator.init()
    assert second == first._replace(producer_epoch=1)


def test_producer_recovers_after_an_error_and_may_retry() -> None:
    coordinator = ManualTransactionCoordinator()
    first = coordinator.init()
    second = coordinator.init(first)
    assert second.producer_epoch == 1
    assert coordinator.init(first) == second
    # No other producer may come in between.
    coordinator.init()
    assert error_code_of(lambda: coordinator.init(first)) is ErrorCode.PRODUCER_FENCED
    assert error_code_of(lambda: coordinator.init(second)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [60_000, 0, 900_001])
def test_two_phase_commit_is_refused_unless_it_is_enabled(timeout_ms: int) -> None:
    coordinator = ManualTransactionCoordinator()
    assert (
        error_code_of(lambda: coordinator.init(timeout_ms=timeout_ms, enable_two_phase_commit=True))
        is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )


def test_a_transaction_of_two_phase_commit_never_times_out() -> None:
    coordinator = ManualTransactionCoordinator(ENABLED)
    # The requested timeout is neither checked nor stored.
    producer = coordinator.init(timeout_ms=0, enable_two_phase_commit=True)
    assert coordinator.describe().timeout_ms == NO_TIMEOUT_MS
    coordinator.add(producer, A)
    coordinator.clock.advance(86_400_000)
    assert coordinator.describe().state is TransactionState.ONGOING
    assert (
        error_code_of(lambda: coordinator.init(timeout_ms=0))
        is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    )


@pytest.mark.parametrize(
    ("transactional_id", "config", "code"),
    [
        ("", {}, ErrorCode.INVALID_REQUEST),
        ("t", {}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("t", ENABLED, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_the_rules_for_every_request_are_checked_in_kafkas_order(
    transactional_id: str, config: dict[str, str], code: ErrorCode
) -> None:
    coordinator = ManualTransactionCoordinator(config)
    assert (
        error_code_of(
            lambda: coordinator.init(
                transactional_id=transactional_id,
                timeout_ms=0,
                enable_two_phase_commit=True,
                keep_prepared_transaction=True,
            )
        )
        is code
    )
