"""Ending: a transaction is decided by its Prepare record, and over with its Complete record.

Until transaction version 2 a producer keeps its epoch for all of its transactions. From then on
each end takes the next one (KIP-890): the markers carry it, and records of the old epoch that come
late are refused. So the producer of an earlier epoch may be a zombie, or one that did not hear the
answer to the end it asked for, and asks again: a retry.

A request of a client is decided by tables: from a state, the wanted end, and whether it is a retry,
to what is done. A state in which markers are pending is in none of them; whoever meets it waits.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.refusing import (
    check_not_pending,
    fenced,
    other_producer,
    refusal,
    wrong_state,
)
from kafkalite.transactions.state import (
    GREATEST_EPOCH,
    LAST_PRODUCER_EPOCH,
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.transactions.state import Producer

EPOCH_BUMPING_VERSION: Final = 2
"""From this transaction version on, each end takes the next epoch."""


class Step(Enum):
    """What is done about a request to end a transaction."""

    END = "end"
    END_EMPTY = "end one that has no partitions"
    NOTHING = "nothing: it ended as wanted before"
    FENCE = "refuse the producer"
    REFUSE = "refuse what is wanted"


_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_COMMITTED = TransactionState.COMPLETE_COMMIT
_ABORTED = TransactionState.COMPLETE_ABORT
_COMMITTING = TransactionState.PREPARE_COMMIT
_ABORTING = TransactionState.PREPARE_ABORT

STEPS: Final = {
    (_EMPTY, True): Step.REFUSE,
    (_EMPTY, False): Step.REFUSE,
    (_ONGOING, True): Step.END,
    (_ONGOING, False): Step.END,
    (_COMMITTED, True): Step.NOTHING,
    (_COMMITTED, False): Step.REFUSE,
    (_ABORTED, True): Step.REFUSE,
    (_ABORTED, False): Step.NOTHING,
}
"""State and whether to commit → what is done, before transaction version 2."""

BUMPING_STEPS: Final = {
    (_EMPTY, True, False): Step.REFUSE,
    (_EMPTY, True, True): Step.FENCE,
    (_EMPTY, False, False): Step.END_EMPTY,
    (_EMPTY, False, True): Step.FENCE,
    (_ONGOING, True, False): Step.END,
    (_ONGOING, True, True): Step.FENCE,
    (_ONGOING, False, False): Step.END,
    (_ONGOING, False, True): Step.FENCE,
    (_COMMITTED, True, False): Step.REFUSE,
    (_COMMITTED, True, True): Step.NOTHING,
    (_COMMITTED, False, False): Step.END_EMPTY,
    (_COMMITTED, False, True): Step.REFUSE,
    (_ABORTED, True, False): Step.REFUSE,
    (_ABORTED, True, True): Step.REFUSE,
    (_ABORTED, False, False): Step.END_EMPTY,
    (_ABORTED, False, True): Step.NOTHING,
}
"""State, whether to commit, whether it is a retry → what is done, from transaction version 2 on."""


def ended(
    transaction: Transaction,
    producer: Producer,
    *,
    is_commit: bool,
    client_transaction_version: int,
    draw_producer_id: Callable[[], int],
    now_ms: int,
) -> tuple[Transaction | None, Producer]:
    """Return the decided transaction, None when it was before, and who goes on after that.

    KafkaError CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or
    INVALID_TXN_STATE.
    """
    if client_transaction_version < EPOCH_BUMPING_VERSION:
        return _ended_at_its_epoch(transaction, producer, is_commit=is_commit, now_ms=now_ms)
    check_not_pending(transaction)
    is_retry = _check_retry(transaction, producer)
    step = BUMPING_STEPS[transaction.state, is_commit, is_retry]
    if step is Step.NOTHING:
        return None, transaction.producer
    if step is Step.FENCE:
        raise fenced(transaction, producer)
    if step is Step.REFUSE:
        raise wrong_state(transaction, is_commit=is_commit)
    prepared = _bumped(
        transaction,
        is_commit=is_commit,
        client_transaction_version=client_transaction_version,
        draw_producer_id=draw_producer_id,
        now_ms=now_ms,
        is_empty=step is Step.END_EMPTY,
    )
    return prepared, _producer_after(prepared)


def rolled_back(
    transaction: Transaction,
    *,
    transaction_version: int,
    draw_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """Return an open transaction as aborted by the coordinator itself, its producer fenced.

    That goes by the cluster's transaction version, whichever its producer speaks.
    """
    if transaction_version >= EPOCH_BUMPING_VERSION:
        return _bumped(
            transaction,
            is_commit=False,
            client_transaction_version=transaction_version,
            draw_producer_id=draw_producer_id,
            now_ms=now_ms,
            is_empty=False,
        )
    return _prepared(
        transaction,
        _ABORTING,
        producer_epoch=min(transaction.producer_epoch + 1, GREATEST_EPOCH),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        now_ms=now_ms,
    )


def completed(transaction: Transaction, now_ms: int) -> Transaction:
    """Return a decided transaction with all its markers written."""
    producer = _producer_after(transaction)
    return Transaction(
        transaction.transactional_id,
        producer.producer_id,
        producer.producer_epoch,
        transaction.timeout_ms,
        _COMMITTED if transaction.state is _COMMITTING else _ABORTED,
        frozenset(),
        transaction.start_timestamp_ms,
        now_ms,
        transaction.producer_id,
        NO_PRODUCER_ID,
        transaction.client_transaction_version,
        transaction.last_producer_epoch,
    )


def markers_of(transaction: Transaction) -> WriteMarkers:
    """Return what partitions are to be told of a decided transaction."""
    return WriteMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is _COMMITTING,
        transaction.client_transaction_version,
        tuple(sorted(transaction.partitions)),
    )


def is_told_by(markers: WriteMarkers, transaction: Transaction) -> bool:
    """Say whether these markers tell all that is to be told of a transaction as it is now.

    Before transaction version 2 the one after it may have the same producer and epoch.
    """
    return (
        transaction.state is (_COMMITTING if markers.is_commit else _ABORTING)
        and transaction.producer_epoch == markers.producer_epoch
        and transaction.producer_id == markers.producer_id
        and transaction.partitions == frozenset(markers.partitions)
    )


def _ended_at_its_epoch(
    transaction: Transaction, producer: Producer, *, is_commit: bool, now_ms: int
) -> tuple[Transaction | None, Producer]:
    if producer.producer_id != transaction.producer_id:
        raise other_producer(transaction, producer)
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced(transaction, producer)
    check_not_pending(transaction)
    step = STEPS[transaction.state, is_commit]
    if step is Step.REFUSE:
        raise wrong_state(transaction, is_commit=is_commit)
    if step is Step.NOTHING:
        return None, NO_PRODUCER
    prepared = _prepared(
        transaction,
        _COMMITTING if is_commit else _ABORTING,
        producer_epoch=transaction.producer_epoch,
        last_producer_epoch=transaction.last_producer_epoch,
        now_ms=now_ms,
    )
    return prepared, NO_PRODUCER


def _check_retry(transaction: Transaction, producer: Producer) -> bool:
    """Say whether a producer asks again for the end that has come already.

    KafkaError INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED for one that is neither there nor at
    the present epoch.
    """
    # The id was used up by that end, and the producer has not heard of the new one yet.
    is_overflow = (
        producer.producer_id == transaction.previous_producer_id
        and producer.producer_epoch == LAST_PRODUCER_EPOCH
        and transaction.producer_epoch == 0
    )
    if producer.producer_id != transaction.producer_id and not is_overflow:
        raise other_producer(transaction, producer)
    if is_overflow or producer.producer_epoch + 1 == transaction.producer_epoch:
        return True
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced(transaction, producer)
    return False


def _bumped(
    transaction: Transaction,
    *,
    is_commit: bool,
    client_transaction_version: int,
    draw_producer_id: Callable[[], int],
    now_ms: int,
    is_empty: bool,
) -> Transaction:
    epoch = transaction.producer_epoch
    if epoch == GREATEST_EPOCH and is_commit:
        raise refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            transaction.transactional_id,
            "epochs-exhausted",
            f"there is no epoch after {epoch}, and a transaction of it can only be aborted",
        )
    return _prepared(
        transaction,
        _COMMITTING if is_commit else _ABORTING,
        producer_epoch=min(epoch + 1, GREATEST_EPOCH),
        last_producer_epoch=epoch,
        next_producer_id=draw_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID,
        client_transaction_version=client_transaction_version,
        # One that has not begun has no beginning either; DescribeTransactions wants one.
        start_timestamp_ms=now_ms if is_empty else transaction.start_timestamp_ms,
        now_ms=now_ms,
    )


def _prepared(
    transaction: Transaction,
    state: TransactionState,
    *,
    producer_epoch: int,
    last_producer_epoch: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
    client_transaction_version: int = 0,
    start_timestamp_ms: int | None = None,
) -> Transaction:
    return Transaction(
        transaction.transactional_id,
        transaction.producer_id,
        producer_epoch,
        transaction.timeout_ms,
        state,
        transaction.partitions,
        transaction.start_timestamp_ms if start_timestamp_ms is None else start_timestamp_ms,
        now_ms,
        transaction.producer_id,
        next_producer_id,
        client_transaction_version,
        last_producer_epoch,
    )


def _producer_after(prepared: Transaction) -> Producer:
    """Return who goes on after a decided transaction: the same, or a fresh id in its place."""
    producer = prepared.producer
    if (
        prepared.client_transaction_version >= EPOCH_BUMPING_VERSION
        and prepared.next_producer_id != NO_PRODUCER_ID
    ):
        return producer._replace(producer_id=prepared.next_producer_id, producer_epoch=0)
    return producer
