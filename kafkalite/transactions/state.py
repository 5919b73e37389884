"""What a transaction coordinator keeps of one transactional id, and the states it passes through.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit
                   └────► PrepareAbort  ──► CompleteAbort

From both Complete states the next transaction begins. A state is numbered as in the log. Kafka has
two more, which are never written: Dead, an id that has just expired, and PrepareEpochFence, a
transaction whose producer is being fenced. Here a decision is in the log as soon as it is made, so
that nobody meets an id in either of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias

TopicPartition: TypeAlias = tuple[str, int]
"""A topic's name and the index of one of its partitions."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
LAST_PRODUCER_EPOCH = 32_766
"""With this epoch a producer's id is used up; one more is kept for the marker of its last end."""


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


class Producer(NamedTuple):
    """One incarnation of a producer: whoever has a lower epoch of the same id is a zombie."""

    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """A transactional id and the transaction it is in, or was in last."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_transaction_version: int = 0
