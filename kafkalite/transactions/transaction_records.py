"""Records of transaction coordinators in `__transaction_state`: one after each change.

Records hold Transaction objects, by transactional id. The serde converts them to Kafka's key and
value, which do not contain the previous epoch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.protocol import codec
from kafkalite.protocol._generated.records.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from kafkalite.transactions.state import Transaction, TransactionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.transactions.state import TopicPartition

Record = CoordinatorRecord[object, object]

_NO_PARTITIONS: frozenset[TopicPartition] = frozenset()


def written_version(transaction_version: int) -> int:
    """Return the version of values at a level of `transaction.version`."""
    return 1 if transaction_version >= 1 else 0


def transaction_record(transaction: Transaction) -> Record:
    """Return the record with the complete state of a transactional id."""
    return CoordinatorRecord(transaction.transactional_id, transaction)


def transaction_tombstone(transactional_id: str) -> Record:
    """Return the record that removes a transactional id."""
    return CoordinatorRecord(transactional_id, None)


class TransactionSerde:
    """Records of transaction coordinators ↔ bytes; `version` returns the version of values."""

    __slots__ = ("_version",)

    def __init__(self, version: Callable[[], int]) -> None:
        self._version = version

    def encode(
        self, record: CoordinatorRecord[object, object]
    ) -> tuple[bytes | None, bytes | None]:
        """Return the key and value bytes; the value of a tombstone is None."""
        transactional_id, transaction = record
        assert isinstance(transactional_id, str)
        key = _encode_key(transactional_id)
        if transaction is None:
            return key, None
        assert isinstance(transaction, Transaction)
        return key, codec.encode_value(value_of(transaction), self._version())

    def decode(
        self, key: bytes | None, value: bytes | None
    ) -> CoordinatorRecord[object, object] | None:
        """Return the record, None for an unknown type; raises ValueError for an unknown state."""
        decoded = None if key is None else codec.decode_key(key, "transaction")
        if decoded is None:
            return None
        if value is None:
            return transaction_tombstone(decoded.transactional_id)
        decoded_value = codec.decode_value(decoded.RECORD_TYPE, value, "transaction")
        return transaction_record(_transaction_of(decoded.transactional_id, decoded_value))


@lru_cache(maxsize=256)  # an id is written several times in each transaction
def _encode_key(transactional_id: str) -> bytes:
    return codec.encode_key(TransactionLogKey(transactional_id=transactional_id))


def value_of(transaction: Transaction) -> TransactionLogValue:
    """Return a transaction as Kafka's log value."""
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=(
            None
            if transaction.state is TransactionState.EMPTY
            else _by_topic(transaction.partitions)
        ),
        transaction_last_update_timestamp_ms=transaction.last_update_timestamp_ms,
        transaction_start_timestamp_ms=transaction.start_timestamp_ms,
        client_transaction_version=transaction.client_transaction_version,
    )


def _transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
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
        else _NO_PARTITIONS,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_transaction_version,
    )


@lru_cache(maxsize=16)  # the end of a transaction has the same partitions as its last addition
def _by_topic(
    partitions: frozenset[TopicPartition],
) -> list[TransactionLogValue.PartitionsSchema]:
    entries: list[TransactionLogValue.PartitionsSchema] = []
    last_topic: str | None = None
    for topic, index in sorted(partitions):
        if topic != last_topic:
            last_topic = topic
            entries.append(TransactionLogValue.PartitionsSchema(topic=topic, partition_ids=[]))
        entries[-1].partition_ids.append(index)
    return entries
