"""What a transaction coordinator keeps of one transactional id, and the states it passes through.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit
                   └────► PrepareAbort  ──► CompleteAbort

From both Complete states the next transaction begins. With transaction version 2 a producer may
abort without having begun, for it does not know whether it has: so PrepareAbort may follow each
state but PrepareCommit. A state is numbered as in the log. Kafka has two more, which are never
written: Dead, an id that has just expired, and PrepareEpochFence, a transaction whose producer is
being fenced. Here a decision is in the log as soon as it is made, so that nobody meets an id in
either of them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and the index of one of its partitions."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
LAST_PRODUCER_EPOCH: Final = 32_766
"""With this epoch a producer's id is used up; one more is kept for the marker of its last end."""
GREATEST_EPOCH: Final = 32_767
NO_TIMEOUT_MS: Final = 2**31 - 1
"""A transaction with the longest timeout has none; Kafka keeps those of KIP-939 so."""


class TransactionState(IntEnum):
    """Where a transactional id stands."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's name of it, as DescribeTransactions and ListTransactions show it."""
        return self.name.title().replace("_", "")

    def __str__(self) -> str:
        """Print by that name, too: a number tells a reader of `broker.transactions()` nothing."""
        return self.label


PREPARED: Final = frozenset((TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT))
"""States of a transaction whose end is decided, while its markers are being written."""

AT_REST: Final = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)
"""States without a transaction: an id that stays in them expires."""


class Producer(NamedTuple):
    """One incarnation of a producer: whoever has a lower epoch of the same id is a zombie."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Transaction(NamedTuple):
    """A transactional id and the transaction it is in, or was in last.

    A tuple by name, for one is made with every partition that is added to a transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer's id before the last change of state; most often it is the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """In a Prepare state: the id to go on with, where the one it has is used up."""
    client_transaction_version: int = 0
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """Soft: the epoch before the present one, by which a repeated InitProducerId is known."""

    @property
    def producer(self) -> Producer:
        """Who may write in this transaction."""
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer's id has no more epochs to give out."""
        return self.producer_epoch >= LAST_PRODUCER_EPOCH
