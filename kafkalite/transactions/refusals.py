"""Refusals of transactional requests, with the texts and facts that `kafkalite explain` shows.

Clients get only the error code, because the responses of these APIs have no message. The text and
the facts are for the event history of the transactional id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.transactions.state import PREPARED_STATES

if TYPE_CHECKING:
    from kafkalite.transactions.state import ProducerIdAndEpoch, Transaction


def refusal(
    code: ErrorCode, transactional_id: str, rule: str, reason: str, **facts: object
) -> KafkaError:
    """Return a refusal that names the broken rule."""
    return KafkaError(
        code,
        f"transactional id {transactional_id} refused: {reason}",
        {"rule": rule, **facts},
    )


def empty_id_refusal() -> KafkaError:
    """Return the refusal of a request without a transactional id."""
    return refusal(ErrorCode.INVALID_REQUEST, '""', "no-id", "the transactional id is empty")


def unknown_id_refusal(transactional_id: str) -> KafkaError:
    """Return the refusal of a producer with an unknown transactional id."""
    return refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        transactional_id,
        "unknown-id",
        "no producer was initialized with this id, or the id has expired",
    )


def other_producer_refusal(transaction: Transaction, producer: ProducerIdAndEpoch) -> KafkaError:
    """Return the refusal of a producer id that does not belong to the transactional id."""
    return refusal(
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        transaction.transactional_id,
        "producer-id",
        f"it belongs to producer id {transaction.producer_id}, not {producer.producer_id}",
        producer_id=producer.producer_id,
        current_producer_id=transaction.producer_id,
    )


def fenced_producer_refusal(transaction: Transaction, producer: ProducerIdAndEpoch) -> KafkaError:
    """Return the refusal of a producer with a stale epoch."""
    return refusal(
        ErrorCode.PRODUCER_FENCED,
        transaction.transactional_id,
        "producer-epoch",
        f"producer {producer.producer_id} is fenced at epoch {producer.producer_epoch}, "
        f"the current one is {transaction.producer_id} at epoch {transaction.producer_epoch}",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        current_producer_id=transaction.producer_id,
        current_epoch=transaction.producer_epoch,
    )


def concurrent_transaction_refusal(transaction: Transaction) -> KafkaError:
    """Return the refusal while markers of the previous transaction are being written."""
    return refusal(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        transaction.transactional_id,
        "markers-pending",
        f"its last transaction is in {transaction.state.label}, its markers are being written",
        state=transaction.state.label,
    )


def wrong_state_refusal(transaction: Transaction, *, is_commit: bool) -> KafkaError:
    """Return the refusal of a commit or abort that the current state does not allow."""
    verb = "commit" if is_commit else "abort"
    return refusal(
        ErrorCode.INVALID_TXN_STATE,
        transaction.transactional_id,
        "state",
        f"there is nothing to {verb} in {transaction.state.label}",
        state=transaction.state.label,
        action=verb,
    )


def check_not_pending(transaction: Transaction) -> None:
    """Raise KafkaError CONCURRENT_TRANSACTIONS while markers are being written."""
    if transaction.state in PREPARED_STATES:
        raise concurrent_transaction_refusal(transaction)
