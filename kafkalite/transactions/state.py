"""State of one transactional id in a transaction coordinator, and its transitions.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit
                   └────► PrepareAbort  ──► CompleteAbort

From both Complete states the next transaction begins. With transaction version 2, a producer may
abort although it has not begun, because it does not always know that. So PrepareAbort may follow
each state except PrepareCommit. States are numbered as in the log. Kafka has two more, which are
never written: Dead, an id that has just expired, and PrepareEpochFence, a transaction whose
producer is being fenced. Here a decision is in the log as soon as it is made, so no request
finds an id in one of these two states.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kafkalite.ports.int_enums import IntEnum
from kafkalite.ports.named_tuples import NamedTuple

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and the index of one of its partitions."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
LAST_PRODUCER_EPOCH: Final = 32_766
"""The last epoch that a producer uses; the markers of its last transaction use the next one."""
MAX_PRODUCER_EPOCH: Final = 32_767
NO_TIMEOUT_MS: Final = 2**31 - 1
"""Stored for transactions that never time out, as in Kafka (KIP-939)."""


class TransactionState(IntEnum):
    """States of a transactional id."""

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
        """Kafka's name of the state, as in DescribeTransactions and ListTransactions."""
        return self.name.title().replace("_", "")

    def __str__(self) -> str:
        """Return Kafka's name, which is more useful in `broker.transactions()` than a number."""
        return self.label


PREPARED_STATES: Final = frozenset(
    (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
)
"""States of a decided transaction whose markers are being written."""

IDLE_STATES: Final = frozenset(
    (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
)
"""States without an open transaction; an unused id expires only in one of these states."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id and epoch; a lower epoch of the same id is from a zombie."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class Transaction(NamedTuple):
    """A transactional id with its current or last transaction.

    A NamedTuple for speed: one is created for every partition that is added to a transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    """The transaction timeout that the producer requested."""
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions of the transaction; empty unless it is open or ending."""
    start_timestamp_ms: int = NO_TIMESTAMP
    """Start of the transaction in milliseconds since the Unix epoch; -1 if none was started."""
    last_update_timestamp_ms: int = NO_TIMESTAMP
    """Time of the last change, in milliseconds since the Unix epoch."""
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer's id before the last change of state; usually the same."""
    next_producer_id: int = NO_PRODUCER_ID
    """In a Prepare state: the producer id that replaces the current one if that is exhausted."""
    client_transaction_version: int = 0
    """The level of the feature `transaction.version` that the producer uses."""
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The previous epoch, which identifies a repeated InitProducerId; soft state."""

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer that may write in this transaction."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer's id has no more epochs."""
        return self.producer_epoch >= LAST_PRODUCER_EPOCH
