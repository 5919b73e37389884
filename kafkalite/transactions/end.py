"""The end of a transaction: decided by its Prepare record, finished by its Complete record.

Before transaction version 2, a producer uses one epoch for all its transactions. From version 2 on,
each end increases the epoch (KIP-890): the markers have the new epoch, and late records with the
old epoch are refused. So a producer with the previous epoch is either a zombie, or it did not
receive the response to its EndTxn and sends it again: a retry.

Requests of clients are decided by tables: state, commit or abort, and whether it is a retry →
action. States with pending markers are not in the tables, because such requests must wait.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.intents import WriteMarkers
from kafkalite.transactions.refusals import (
    check_not_pending,
    fenced_producer_refusal,
    other_producer_refusal,
    refusal,
    wrong_state_refusal,
)
from kafkalite.transactions.state import (
    LAST_PRODUCER_EPOCH,
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.transactions.state import ProducerIdAndEpoch

EPOCH_BUMPING_VERSION: Final = 2
"""From this transaction version on, each end increases the epoch."""


class EndAction(Enum):
    """Action for a request to end a transaction."""

    END = "end"
    END_EMPTY = "end a transaction without partitions"
    NOTHING = "nothing: the transaction has ended this way already"
    FENCE = "fence the producer"
    REFUSE = "refuse the request"


_EMPTY = TransactionState.EMPTY
_ONGOING = TransactionState.ONGOING
_COMMITTED = TransactionState.COMPLETE_COMMIT
_ABORTED = TransactionState.COMPLETE_ABORT
_COMMITTING = TransactionState.PREPARE_COMMIT
_ABORTING = TransactionState.PREPARE_ABORT

END_ACTIONS: Final = {
    (_EMPTY, True): EndAction.REFUSE,
    (_EMPTY, False): EndAction.REFUSE,
    (_ONGOING, True): EndAction.END,
    (_ONGOING, False): EndAction.END,
    (_COMMITTED, True): EndAction.NOTHING,
    (_COMMITTED, False): EndAction.REFUSE,
    (_ABORTED, True): EndAction.REFUSE,
    (_ABORTED, False): EndAction.NOTHING,
}
"""State and whether to commit → action, before transaction version 2."""

EPOCH_BUMPING_END_ACTIONS: Final = {
    (_EMPTY, True, False): EndAction.REFUSE,
    (_EMPTY, True, True): EndAction.FENCE,
    (_EMPTY, False, False): EndAction.END_EMPTY,
    (_EMPTY, False, True): EndAction.FENCE,
    (_ONGOING, True, False): EndAction.END,
    (_ONGOING, True, True): EndAction.FENCE,
    (_ONGOING, False, False): EndAction.END,
    (_ONGOING, False, True): EndAction.FENCE,
    (_COMMITTED, True, False): EndAction.REFUSE,
    (_COMMITTED, True, True): EndAction.NOTHING,
    (_COMMITTED, False, False): EndAction.END_EMPTY,
    (_COMMITTED, False, True): EndAction.REFUSE,
    (_ABORTED, True, False): EndAction.REFUSE,
    (_ABORTED, True, True): EndAction.REFUSE,
    (_ABORTED, False, False): EndAction.END_EMPTY,
    (_ABORTED, False, True): EndAction.NOTHING,
}
"""State, whether to commit, whether it is a retry → action, from transaction version 2 on."""


def end_transaction(
    transaction: Transaction,
    producer: ProducerIdAndEpoch,
    *,
    is_commit: bool,
    client_transaction_version: int,
    generate_producer_id: Callable[[], int],
    now_ms: int,
) -> tuple[Transaction | None, ProducerIdAndEpoch]:
    """Return the decided transaction, or None if it has ended already, and the next producer.

    Raises KafkaError CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or
    INVALID_TXN_STATE.
    """
    if client_transaction_version < EPOCH_BUMPING_VERSION:
        return _end_at_same_epoch(transaction, producer, is_commit=is_commit, now_ms=now_ms)
    check_not_pending(transaction)
    is_retry = _check_retry(transaction, producer)
    action = EPOCH_BUMPING_END_ACTIONS[transaction.state, is_commit, is_retry]
    if action is EndAction.NOTHING:
        return None, transaction.producer
    if action is EndAction.FENCE:
        raise fenced_producer_refusal(transaction, producer)
    if action is EndAction.REFUSE:
        raise wrong_state_refusal(transaction, is_commit=is_commit)
    prepared = _prepare_with_next_epoch(
        transaction,
        is_commit=is_commit,
        client_transaction_version=client_transaction_version,
        generate_producer_id=generate_producer_id,
        now_ms=now_ms,
        is_empty=action is EndAction.END_EMPTY,
    )
    return prepared, _producer_after(prepared)


def abort_and_fence(
    transaction: Transaction,
    *,
    transaction_version: int,
    generate_producer_id: Callable[[], int],
    now_ms: int,
) -> Transaction:
    """Return the PrepareAbort state of an open transaction that the coordinator itself aborts.

    The next epoch fences its producer. `transaction_version` is that of the cluster, not that of
    the producer.
    """
    if transaction_version >= EPOCH_BUMPING_VERSION:
        return _prepare_with_next_epoch(
            transaction,
            is_commit=False,
            client_transaction_version=transaction_version,
            generate_producer_id=generate_producer_id,
            now_ms=now_ms,
            is_empty=False,
        )
    return _prepare(
        transaction,
        _ABORTING,
        producer_epoch=min(transaction.producer_epoch + 1, MAX_PRODUCER_EPOCH),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        now_ms=now_ms,
    )


def complete_transaction(transaction: Transaction, now_ms: int) -> Transaction:
    """Return the state of a decided transaction after all its markers were written."""
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
    """Return the markers to write for a decided transaction."""
    return WriteMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state is _COMMITTING,
        transaction.client_transaction_version,
        tuple(sorted(transaction.partitions)),
    )


def are_markers_of(markers: WriteMarkers, transaction: Transaction) -> bool:
    """Return whether these are all the markers of a transaction in its current state.

    Before transaction version 2, the next transaction may have the same producer and epoch.
    """
    return (
        transaction.state is (_COMMITTING if markers.is_commit else _ABORTING)
        and transaction.producer_epoch == markers.producer_epoch
        and transaction.producer_id == markers.producer_id
        and transaction.partitions == frozenset(markers.partitions)
    )


def _end_at_same_epoch(
    transaction: Transaction, producer: ProducerIdAndEpoch, *, is_commit: bool, now_ms: int
) -> tuple[Transaction | None, ProducerIdAndEpoch]:
    if producer.producer_id != transaction.producer_id:
        raise other_producer_refusal(transaction, producer)
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced_producer_refusal(transaction, producer)
    check_not_pending(transaction)
    action = END_ACTIONS[transaction.state, is_commit]
    if action is EndAction.REFUSE:
        raise wrong_state_refusal(transaction, is_commit=is_commit)
    if action is EndAction.NOTHING:
        return None, NO_PRODUCER
    prepared = _prepare(
        transaction,
        _COMMITTING if is_commit else _ABORTING,
        producer_epoch=transaction.producer_epoch,
        last_producer_epoch=transaction.last_producer_epoch,
        now_ms=now_ms,
    )
    return prepared, NO_PRODUCER


def _check_retry(transaction: Transaction, producer: ProducerIdAndEpoch) -> bool:
    """Return whether a producer repeats a request whose transaction has ended already.

    Raises KafkaError INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED for another producer id or
    epoch.
    """
    # The end used the last epoch of the producer id, and the producer does not know its new id yet.
    has_new_producer_id = (
        producer.producer_id == transaction.previous_producer_id
        and producer.producer_epoch == LAST_PRODUCER_EPOCH
        and transaction.producer_epoch == 0
    )
    if producer.producer_id != transaction.producer_id and not has_new_producer_id:
        raise other_producer_refusal(transaction, producer)
    if has_new_producer_id or producer.producer_epoch + 1 == transaction.producer_epoch:
        return True
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced_producer_refusal(transaction, producer)
    return False


def _prepare_with_next_epoch(
    transaction: Transaction,
    *,
    is_commit: bool,
    client_transaction_version: int,
    generate_producer_id: Callable[[], int],
    now_ms: int,
    is_empty: bool,
) -> Transaction:
    epoch = transaction.producer_epoch
    if epoch == MAX_PRODUCER_EPOCH and is_commit:
        raise refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            transaction.transactional_id,
            "epochs-exhausted",
            f"epoch {epoch} is the last, so its transaction can only be aborted",
        )
    return _prepare(
        transaction,
        _COMMITTING if is_commit else _ABORTING,
        producer_epoch=min(epoch + 1, MAX_PRODUCER_EPOCH),
        last_producer_epoch=epoch,
        next_producer_id=generate_producer_id() if transaction.is_exhausted else NO_PRODUCER_ID,
        client_transaction_version=client_transaction_version,
        # An empty transaction has no start time, but DescribeTransactions needs one.
        start_timestamp_ms=now_ms if is_empty else transaction.start_timestamp_ms,
        now_ms=now_ms,
    )


def _prepare(
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


def _producer_after(prepared: Transaction) -> ProducerIdAndEpoch:
    """Return the producer id and epoch to use after a decided transaction.

    The id is the same, or a new one if the old one has no more epochs.
    """
    producer = prepared.producer
    if (
        prepared.client_transaction_version >= EPOCH_BUMPING_VERSION
        and prepared.next_producer_id != NO_PRODUCER_ID
    ):
        return producer._replace(producer_id=prepared.next_producer_id, producer_epoch=0)
    return producer
