"""Refusals: what a producer is told, and what is said of it to whoever asks why.

Clients get the code alone, for no answer of these APIs carries a message. The sentence and the
facts are for the journal, in which a transactional id has its entries as groups have theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import PREPARED

if TYPE_CHECKING:
    from kafkalite.transactions.state import Producer, Transaction


def refusal(
    code: ErrorCode, transactional_id: str, rule: str, why: str, **facts: object
) -> KafkaError:
    """Return a refusal that says which rule was broken."""
    return KafkaError(
        code,
        f"transactional id {transactional_id} refused: {why}",
        {"rule": rule, **facts},
    )


def no_id() -> KafkaError:
    """Return the refusal of a request that names no transactional id."""
    return refusal(ErrorCode.INVALID_REQUEST, '""', "no-id", "an id cannot be empty")


def unknown_id(transactional_id: str) -> KafkaError:
    """Return the refusal of a producer whose transactional id nobody knows."""
    return refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        transactional_id,
        "unknown-id",
        "no producer has begun with this id, or it has expired since",
    )


def other_producer(transaction: Transaction, producer: Producer) -> KafkaError:
    """Return the refusal of a producer id that is not the transactional id's."""
    return refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        transaction.transactional_id,
        "producer-id",
        f"producer id {producer.producer_id} is not the one it has, {transaction.producer_id}",
        producer_id=producer.producer_id,
        current_producer_id=transaction.producer_id,
    )


def fenced(transaction: Transaction, producer: Producer) -> KafkaError:
    """Return the refusal of an incarnation that is not the present one."""
    return refusal(
        ErrorCode.PRODUCER_FENCED,
        transaction.transactional_id,
        "producer-epoch",
        f"producer {producer.producer_id} is fenced at epoch {producer.producer_epoch}, "
        f"the present one is {transaction.producer_id} at epoch {transaction.producer_epoch}",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        current_producer_id=transaction.producer_id,
        current_epoch=transaction.producer_epoch,
    )


def concurrent(transaction: Transaction) -> KafkaError:
    """Return the refusal while markers of the last transaction are being written."""
    return refusal(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        transaction.transactional_id,
        "markers-pending",
        f"its last transaction is in {transaction.state.label}, with markers still to be written",
        state=transaction.state.label,
    )


def wrong_state(transaction: Transaction, *, is_commit: bool) -> KafkaError:
    """Return the refusal of an end that the present state does not allow."""
    verb = "commit" if is_commit else "abort"
    return refusal(
        ErrorCode.INVALID_TXN_STATE,
        transaction.transactional_id,
        "state",
        f"there is nothing to {verb} in {transaction.state.label}",
        state=transaction.state.label,
        wanted=verb,
    )


def check_not_pending(transaction: Transaction) -> None:
    """Raise KafkaError CONCURRENT_TRANSACTIONS while the last transaction's end is being told."""
    if transaction.state in PREPARED:
        raise concurrent(transaction)
