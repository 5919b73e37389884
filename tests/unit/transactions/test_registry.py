"""The registry follows its log: ids, open transactions, and the previous epoch."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.image import MetadataImage
from kafkalite.transactions.registry import TransactionRegistry
from kafkalite.transactions.state import Transaction, TransactionState
from kafkalite.transactions.transaction_records import (
    TransactionSerde,
    transaction_record,
    transaction_tombstone,
)

OPEN = Transaction("x", 7, 3, 1_000, TransactionState.ONGOING, last_producer_epoch=2)


def registry() -> TransactionRegistry:
    return TransactionRegistry(
        config=BrokerConfig.from_text(), image=MetadataImage(), generate_producer_id=lambda: 1
    )


def test_open_transactions_are_tracked() -> None:
    replayed = registry()
    replayed.replay_transaction(transaction_record(OPEN))
    replayed.replay_transaction(transaction_record(OPEN._replace(transactional_id="y")))
    assert list(replayed.open_ids) == ["x", "y"]
    replayed.replay_transaction(
        transaction_record(OPEN._replace(state=TransactionState.PREPARE_ABORT))
    )
    replayed.replay_transaction(transaction_tombstone("y"))
    # Compaction may leave a tombstone whose record it has already removed.
    replayed.replay_transaction(transaction_tombstone("z"))
    assert not replayed.open_ids
    assert list(replayed.transactions) == ["x"]


def test_previous_epoch_is_not_restored_from_the_log() -> None:
    replayed, serde = registry(), TransactionSerde(lambda: 1)
    decided = transaction_record(OPEN)
    replayed.replay_transaction(decided)
    assert replayed.get("x") == OPEN
    read = serde.decode(*serde.encode(decided))
    assert read is not None
    replayed.replay_transaction(read)
    assert replayed.get("x") == OPEN._replace(last_producer_epoch=-1)
