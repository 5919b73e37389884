"""What a shard keeps follows its log: ids, those that are open, and what is left out there."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.image import MetadataImage
from kafkalite.transactions.records import (
    TransactionSerde,
    transaction_record,
    transaction_tombstone,
)
from kafkalite.transactions.registry import TransactionRegistry
from kafkalite.transactions.state import Transaction, TransactionState

OPEN = Transaction("x", 7, 3, 1_000, TransactionState.ONGOING, last_producer_epoch=2)


def registry() -> TransactionRegistry:
    return TransactionRegistry(
        config=BrokerConfig.from_text(), image=MetadataImage(), draw_producer_id=lambda: 1
    )


def test_open_transactions_are_known_as_such() -> None:
    kept = registry()
    kept.replay_transaction(transaction_record(OPEN))
    kept.replay_transaction(transaction_record(OPEN._replace(transactional_id="y")))
    assert list(kept.open) == ["x", "y"]
    kept.replay_transaction(transaction_record(OPEN._replace(state=TransactionState.PREPARE_ABORT)))
    kept.replay_transaction(transaction_tombstone("y"))
    # Compaction may keep a tombstone whose record it has already dropped.
    kept.replay_transaction(transaction_tombstone("z"))
    assert not kept.open
    assert list(kept.transactions) == ["x"]


def test_the_epoch_before_is_known_of_ones_own_decisions_alone() -> None:
    kept, serde = registry(), TransactionSerde(lambda: 1)
    decided = transaction_record(OPEN)
    kept.replay_transaction(decided)
    assert kept.known("x") == OPEN
    read = serde.decode(*serde.encode(decided))
    assert read is not None
    kept.replay_transaction(read)
    assert kept.known("x") == OPEN._replace(last_producer_epoch=-1)
