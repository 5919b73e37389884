"""Books of a simulated cluster, which have everything that its clients were answered."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.lab.checker.books.model import (
    Books,
    LoggedBatch,
    LoggedCommit,
    LoggedShareState,
    LoggedTransaction,
    LogKey,
    PartitionLog,
)
from kafkalite.lab.checker.effective_commits import effective_commits
from kafkalite.lab.checker.fetched_batches import is_commit_marker
from kafkalite.lab.checker.history import LogProof, Partition
from kafkalite.lab.checker.share_rows import header_of
from kafkalite.shares.acknowledgement import AcknowledgeType
from kafkalite.shares.state import DeliveryState, ShareKey, StateBatch
from kafkalite.storage.batch import BatchView
from kafkalite.transactions.state import Transaction, TransactionState
from tests.unit.lab.checker.simulation import TOPIC

if TYPE_CHECKING:
    from tests.unit.lab.checker.simulation import SimulatedCluster, TestProducer

TOPIC_ID = bytes(15) + b"\1"


def proof(offset: int, log: str = TOPIC) -> LogProof:
    """Return the place of a batch."""
    return LogProof(f"data/{log}/00000000000000000000.log", 100 * offset, offset)


def logged(partition: int, batch: bytes) -> LoggedBatch:
    """Return a batch as it is in a log."""
    view = BatchView(batch)
    return LoggedBatch(
        partition=Partition(TOPIC, partition, 0),
        batch=header_of(view),
        base_offset=view.base_offset,
        last_offset=view.last_offset,
        is_control=view.is_control,
        is_commit=is_commit_marker(view) if view.is_control else None,
        proof=proof(view.base_offset, f"{TOPIC}-{partition}"),
    )


def books_of(cluster: SimulatedCluster) -> Books:
    """Return the books of a cluster that lost nothing."""
    books, history = Books(topic_names={TOPIC_ID: TOPIC}), cluster.history()
    for partition, batches in cluster.logs.items():
        log = PartitionLog(
            Partition(TOPIC, partition, 0),
            start_offset=0,
            batches=[logged(partition, each) for each in batches],
            end_offset=cluster.ends[partition],
        )
        books.logs[LogKey(TOPIC, partition)] = log
    number = 0
    for key, commits in effective_commits(history).items():
        books.groups.add(key.group)
        for each in commits:
            books.commits.append(
                LoggedCommit(
                    group=key.group,
                    topic=TOPIC,
                    number=key.partition.number,
                    offset=each.commit.offset,
                    at_ms=0,
                    proof=proof(number, "__consumer_offsets-3"),
                )
            )
            number += 1
    _add_shares(cluster, books)
    return books


def _add_shares(cluster: SimulatedCluster, books: Books) -> None:
    states: dict[ShareKey, dict[int, StateBatch]] = {}
    for each in cluster.history().acknowledgements:
        key = ShareKey(each.group, TOPIC_ID, each.partition.number)
        is_accepted = each.type == AcknowledgeType.ACCEPT
        state = DeliveryState.ACKNOWLEDGED if is_accepted else DeliveryState.AVAILABLE
        for offset in range(each.first_offset, each.last_offset + 1):
            states.setdefault(key, {})[offset] = StateBatch(offset, offset, state, 1)
    for key, batches in states.items():
        rows = tuple(batches[offset] for offset in sorted(batches))
        books.shares[key] = LoggedShareState(key, 0, rows, proof(0, "__share_group_state-7"))


def add_state(
    books: Books, producer: TestProducer, partitions: tuple[int, ...], *states: TransactionState
) -> None:
    """Add records of a transaction coordinator, one for each state."""
    name = producer.transactional_id or ""
    for state in states:
        value = Transaction(
            transactional_id=name,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            timeout_ms=60_000,
            state=state,
            partitions=frozenset((TOPIC, each) for each in partitions)
            if state is not TransactionState.COMPLETE_COMMIT
            else frozenset(),
        )
        rows = books.transactions.setdefault(name, [])
        rows.append(LoggedTransaction(value, proof(len(rows), "__transaction_state-1")))


def without_batch(books: Books, partition: int, index: int) -> LoggedBatch:
    """Remove a batch from a log, and return it."""
    log = books.logs[LogKey(TOPIC, partition)]
    removed = log.batches.pop(index)
    if index in {-1, len(log.batches)}:
        log.end_offset = removed.base_offset
    return removed


def with_other_checksum(batch: LoggedBatch) -> LoggedBatch:
    """Return a batch with altered records."""
    return replace(batch, batch=replace(batch.batch, crc=batch.batch.crc ^ 1))
