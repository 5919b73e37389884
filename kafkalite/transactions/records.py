"""The record that transaction coordinators put on `__transaction_state`, one after each change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol.records.transaction_log import TransactionLogKey, TransactionLogValue
from kafkalite.transactions.state import NO_PRODUCER_EPOCH, Transaction, TransactionState

if TYPE_CHECKING:
    from kafkalite.transactions.state import TopicPartition

Record = CoordinatorRecord[object, object]

_NOWHERE: frozenset[TopicPartition] = frozenset()


def written_version(transaction_version: int) -> int:
    """Return the version that values are written in at a level of `transaction.version`."""
    return 1 if transaction_version >= 1 else 0


def transaction_record(transaction: Transaction) -> Record:
    """Say all there is to say of a transactional id."""
    return CoordinatorRecord(
        TransactionLogKey(transactional_id=transaction.transactional_id),
        TransactionLogValue(
            producer_id=transaction.producer_id,
            previous_producer_id=transaction.previous_producer_id,
            next_producer_id=transaction.next_producer_id,
            producer_epoch=transaction.producer_epoch,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_status=transaction.state.value,
            transaction_partitions=(
                None
                if transaction.state is TransactionState.EMPTY
                else _by_topic(transaction.partitions)
            ),
            transaction_last_update_timestamp_ms=transaction.last_update_timestamp_ms,
            transaction_start_timestamp_ms=transaction.start_timestamp_ms,
            client_transaction_version=transaction.client_transaction_version,
        ),
    )


def transaction_tombstone(transactional_id: str) -> Record:
    """Say that nothing is kept of a transactional id any more."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def transaction_of(
    transactional_id: str,
    value: TransactionLogValue,
    last_producer_epoch: int = NO_PRODUCER_EPOCH,
) -> Transaction:
    """Return what a record says; ValueError for a state that there is not."""
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        TransactionState(value.transaction_status),
        frozenset(
            [
                (entry.topic, index)
                for entry in value.transaction_partitions
                for index in entry.partition_ids
            ]
        )
        if value.transaction_partitions
        else _NOWHERE,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
        last_producer_epoch,
    )


def _by_topic(
    partitions: frozenset[TopicPartition],
) -> list[TransactionLogValue.PartitionsSchema]:
    entries: list[TransactionLogValue.PartitionsSchema] = []
    latest: str | None = None
    for topic, index in sorted(partitions):
        if topic != latest:
            latest = topic
            entries.append(TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=[]))
        entries[-1].partition_ids.append(index)
    return entries
