"""Initialising: a producer takes over a transactional id, and fences whoever had it before.

A producer that names no predecessor is a new one. One that names its own id and epoch goes on after
an error (KIP-360): it gets the next epoch, if nobody has come since; asked again, the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.refusing import check_not_pending, fenced, no_id, refusal
from kafkalite.transactions.state import (
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    Transaction,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.transactions.state import Producer


class Initialized(NamedTuple):
    """What a producer is told that wants to begin with a transactional id."""

    producer: Producer
    error: ErrorCode = ErrorCode.NONE
    """CONCURRENT_TRANSACTIONS when an open transaction is aborted first: ask again."""


def check_wish(config: BrokerConfig, transactional_id: str, timeout_ms: int) -> None:
    """Raise KafkaError for what no producer may ask for, whatever became of its id.

    INVALID_REQUEST or INVALID_TRANSACTION_TIMEOUT.
    """
    if not transactional_id:
        raise no_id()
    longest_ms = config.int("transaction.max.timeout.ms")
    if not 0 < timeout_ms <= longest_ms:
        raise refusal(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            transactional_id,
            "timeout",
            f"its timeout of {timeout_ms} ms is not between 1 and {longest_ms} ms "
            "(transaction.max.timeout.ms)",
            timeout_ms=timeout_ms,
            longest_ms=longest_ms,
        )


def check_producer(transaction: Transaction, expected: Producer | None) -> None:
    """Raise KafkaError for a producer that cannot go on with this id now.

    CONCURRENT_TRANSACTIONS or PRODUCER_FENCED.
    """
    check_not_pending(transaction)
    if (
        expected is None
        or transaction.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == transaction.producer_id
    ):
        return
    # It may be asking again for the id that it was given instead of one that was used up.
    if (
        expected.producer_id != transaction.previous_producer_id
        or expected.producer_epoch < LAST_PRODUCER_EPOCH
    ):
        raise fenced(transaction, expected)


def initialized(
    transaction: Transaction,
    timeout_ms: int,
    expected: Producer | None,
    draw_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """Return an id without an open transaction as its next producer has it.

    KafkaError PRODUCER_FENCED, or UNKNOWN_SERVER_ERROR when there is no next epoch for it.
    """
    producer_id = transaction.producer_id
    epoch, last_epoch = _next_epoch(transaction, expected)
    if transaction.is_exhausted:
        producer_id = draw_producer_id()
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


def _next_epoch(transaction: Transaction, expected: Producer | None) -> tuple[int, int]:
    """Return the epoch to begin with and the one before, as a repeated request would name it."""
    present = transaction.producer_epoch
    following = 0 if transaction.is_exhausted else present + 1
    if expected is None:
        return following, NO_PRODUCER_EPOCH
    if present in (NO_PRODUCER_EPOCH, expected.producer_epoch):
        return following, present
    if transaction.is_exhausted:
        # Kafka meets a state here that it takes for impossible, and says so.
        raise refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            transaction.transactional_id,
            "epochs-exhausted",
            f"there is no epoch after {present}, and epoch {expected.producer_epoch} is not it",
        )
    if expected.producer_epoch == transaction.last_producer_epoch:
        return present, transaction.last_producer_epoch
    raise fenced(transaction, expected)
