"""What a shard keeps follows its log: ids, those that are open, and what a record leaves out."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.metadata.image import MetadataImage
from kafkalite.protocol.records.share_snapshot import ShareSnapshotKey
from kafkalite.transactions.records import transaction_record, transaction_tombstone
from kafkalite.transactions.registry import TransactionRegistry
from kafkalite.transactions.state import Transaction, TransactionState

OPEN = Transaction("x", 7, 3, 1_000, TransactionState.ONGOING, last_producer_epoch=2)


def registry() -> TransactionRegistry:
    return TransactionRegistry(
        config=BrokerConfig.from_text(), image=MetadataImage(), draw_producer_id=lambda: 1
    )


def test_open_transactions_are_known_as_such() -> None:
    kept = registry()
    kept.replay(transaction_record(OPEN))
    kept.replay(transaction_record(OPEN._replace(transactional_id="y")))
    assert list(kept.open) == ["x", "y"]
    kept.replay(transaction_record(OPEN._replace(state=TransactionState.PREPARE_ABORT)))
    kept.replay(transaction_tombstone("y"))
    # Compaction may keep a tombstone whose record it has already dropped.
    kept.replay(transaction_tombstone("z"))
    assert not kept.open
    assert list(kept.transactions) == ["x"]


def test_the_epoch_before_is_known_of_ones_own_decisions_alone() -> None:
    kept = registry()
    kept.replay(kept.record(OPEN))
    assert kept.known("x") == OPEN
    kept.replay(transaction_record(OPEN))
    assert kept.known("x").last_producer_epoch == -1
    record = kept.record(OPEN)
    kept.on_append_failed()
    kept.replay(record)
    assert kept.known("x").last_producer_epoch == -1


def test_records_of_other_kinds_are_passed_over() -> None:
    kept = registry()
    kept.replay(CoordinatorRecord(ShareSnapshotKey(group_id="x"), None))
    assert not kept.transactions
