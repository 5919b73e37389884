"""Adding: partitions join a transaction before the first record of it is written to them.

Clients of transaction version 1 say so themselves, by AddPartitionsToTxn and AddOffsetsToTxn. From
version 2 on the partition's leader does, with the first batch that it sees (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.transactions.refusing import concurrent, fenced, other_producer
from kafkalite.transactions.state import PREPARED, Transaction, TransactionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.transactions.state import Producer, TopicPartition


def with_partitions(
    transaction: Transaction,
    producer: Producer,
    partitions: frozenset[TopicPartition],
    client_transaction_version: int,
    now_ms: int,
) -> Transaction | None:
    """Return the transaction with these partitions in it; None: they all were before.

    KafkaError CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
    """
    state = transaction.state
    if state in PREPARED:
        # First of all: the producer may know already which id it will have after this.
        raise concurrent(transaction)
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


def verified(
    transaction: Transaction, producer: Producer, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """Say of each partition whether it is in the transaction, TRANSACTION_ABORTABLE if not.

    KafkaError INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
    """
    _check_producer(transaction, producer)
    if transaction.state in PREPARED:
        raise concurrent(transaction)
    return {
        each: ErrorCode.NONE if each in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for each in partitions
    }


def _check_producer(transaction: Transaction, producer: Producer) -> None:
    if producer.producer_id != transaction.producer_id:
        raise other_producer(transaction, producer)
    if producer.producer_epoch != transaction.producer_epoch:
        raise fenced(transaction, producer)
