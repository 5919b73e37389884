"""InitProducerId: a producer takes over a transactional id and fences its predecessor.

A request without producer id and epoch is from a new producer. A producer that sends its own id and
epoch recovers from an error (KIP-360): it gets the next epoch, unless another producer has taken
over. A repeated request gets the same epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.refusals import (
    check_not_pending,
    empty_id_refusal,
    fenced_producer_refusal,
    refusal,
)
from kafkalite.transactions.state import (
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    NO_TIMESTAMP,
    Transaction,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.transactions.state import ProducerIdAndEpoch


class ProducerRequest(NamedTuple):
    """The fields of an InitProducerId request."""

    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """The id and epoch to continue with; None for a new producer."""
    enable_two_phase_commit: bool = False
    """An external coordinator decides its transactions, so they never time out (KIP-939)."""
    keep_prepared_transaction: bool = False
    """An open transaction stays open instead of being aborted (KIP-939)."""

    @property
    def resolved_timeout_ms(self) -> int:
        """The timeout to store; with two-phase commit there is no timeout."""
        return NO_TIMEOUT_MS if self.enable_two_phase_commit else self.timeout_ms


class InitializationResult(NamedTuple):
    """The response to InitProducerId."""

    producer: ProducerIdAndEpoch
    error: ErrorCode = ErrorCode.NONE
    """CONCURRENT_TRANSACTIONS if an open transaction is aborted first; the client retries."""


def check_request(config: BrokerConfig, transactional_id: str, request: ProducerRequest) -> None:
    """Raise KafkaError for an invalid request, independent of the state of its id.

    INVALID_REQUEST, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION or
    INVALID_TRANSACTION_TIMEOUT, checked in Kafka's order.
    """
    if not transactional_id:
        raise empty_id_refusal()
    if request.enable_two_phase_commit and not config.bool("transaction.two.phase.commit.enable"):
        raise refusal(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            transactional_id,
            "two-phase-commit",
            "two-phase commit is disabled (transaction.two.phase.commit.enable)",
        )
    if request.keep_prepared_transaction:
        raise refusal(
            ErrorCode.UNSUPPORTED_VERSION,
            transactional_id,
            "keep-prepared",
            "Kafka has the field KeepPreparedTxn but does not implement it",
        )
    timeout_ms, max_timeout_ms = request.timeout_ms, config.int("transaction.max.timeout.ms")
    if not request.enable_two_phase_commit and not 0 < timeout_ms <= max_timeout_ms:
        raise refusal(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            transactional_id,
            "timeout",
            f"timeout of {timeout_ms} ms is not between 1 and {max_timeout_ms} ms "
            "(transaction.max.timeout.ms)",
            timeout_ms=timeout_ms,
            max_timeout_ms=max_timeout_ms,
        )


def check_producer(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> None:
    """Raise KafkaError if the producer cannot continue with this id now.

    CONCURRENT_TRANSACTIONS or PRODUCER_FENCED.
    """
    check_not_pending(transaction)
    if (
        expected is None
        or transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
    ):
        return
    # The producer may repeat the request that replaced an id without further epochs.
    if (
        expected.producer_id != transaction.previous_producer_id
        or expected.producer_epoch < LAST_PRODUCER_EPOCH
    ):
        raise fenced_producer_refusal(transaction, expected)


def initialize_producer(
    transaction: Transaction,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    generate_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """Return the state of an id without an open transaction for its next producer.

    Raises KafkaError PRODUCER_FENCED, or UNKNOWN_SERVER_ERROR if there is no next epoch.
    """
    producer_id = transaction.producer_id
    epoch, last_epoch = _next_epoch(transaction, expected)
    if transaction.is_exhausted:
        producer_id = generate_producer_id()
    return Transaction(
        transaction.transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        TransactionState.EMPTY,
        frozenset(),
        NO_TIMESTAMP,
        now_ms,
        transaction.producer_id,
        transaction.next_producer_id,
        transaction.client_transaction_version,
        last_epoch,
    )


def _next_epoch(transaction: Transaction, expected: ProducerIdAndEpoch | None) -> tuple[int, int]:
    """Return the epoch to use, and the previous one, by which a repeated request is recognised."""
    current_epoch = transaction.producer_epoch
    next_epoch = 0 if transaction.is_exhausted else current_epoch + 1
    if expected is None:
        return next_epoch, NO_PRODUCER_EPOCH
    if current_epoch in (NO_PRODUCER_EPOCH, expected.producer_epoch):
        return next_epoch, current_epoch
    if transaction.is_exhausted:
        # Kafka throws IllegalStateException here, because it considers the state impossible.
        raise refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            transaction.transactional_id,
            "epochs-exhausted",
            f"there is no epoch after {current_epoch}, "
            f"the expected epoch is {expected.producer_epoch}",
        )
    if expected.producer_epoch == transaction.last_producer_epoch:
        return current_epoch, transaction.last_producer_epoch
    raise fenced_producer_refusal(transaction, expected)
