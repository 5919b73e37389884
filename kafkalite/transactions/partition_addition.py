"""Addition of partitions to a transaction, before its first record is written to them.

Clients of transaction version 1 request it by AddPartitionsToTxn and AddOffsetsToTxn. From version
2 on, the partition's leader does it for the first batch (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.refusals import (
    concurrent_transaction_refusal,
    fenced_producer_refusal,
    other_producer_refusal,
)
from kafkalite.transactions.state import PREPARED_STATES, Transaction, TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.transactions.state import ProducerIdAndEpoch, TopicPartition


def add_partitions_to(
    transaction: Transaction,
    producer: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    client_transaction_version: int,
    now_ms: int,
) -> Transaction | None:
    """Return the transaction with these partitions added; None if it has them already.

    Raises KafkaError CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
    """
    state = transaction.state
    if state in PREPARED_STATES:
        # Checked first: the producer may already use the next producer id.
        raise concurrent_transaction_refusal(transaction)
    _check_producer(transaction, producer)
    start_ms = now_ms
    if state is TransactionState.ONGOING:
        if partitions <= transaction.partitions:
            return None
        partitions |= transaction.partitions
        start_ms = transaction.start_timestamp_ms
    return Transaction(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        TransactionState.ONGOING,
        partitions,
        start_ms,
        now_ms,
        transaction.producer_id,
        transaction.next_producer_id,
        client_transaction_version,
        transaction.last_producer_epoch,
    )


def verify_partitions_of(
    transaction: Transaction, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Return for each partition whether it is in the transaction: TRANSACTION_ABORTABLE if not.

    Raises KafkaError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    _check_producer(transaction, producer)
    if transaction.state in PREPARED_STATES:
        raise concurrent_transaction_refusal(transaction)
    return {
        each: ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


def _check_producer(transaction: Transaction, producer: ProducerIdAndEpoch) -> None:
    if producer.producer_id != transaction.producer_id:
        raise other_producer_refusal(transaction, producer)
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced_producer_refusal(transaction, producer)
