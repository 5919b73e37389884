"""The contents of data directories: batches of logs, commits, transactions and share states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.lab.checker.history import Batch, LogProof, Partition
    from kafkalite.shares.state import ShareKey, StateBatch
    from kafkalite.transactions.state import Transaction


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """The header of a batch in a log."""

    partition: Partition
    batch: Batch
    base_offset: int
    last_offset: int
    is_control: bool
    is_commit: bool | None
    """Whether it is the marker of a committed transaction; None if it is no marker."""
    proof: LogProof


@dataclass(slots=True)
class PartitionLog:
    """The log of a partition."""

    partition: Partition
    start_offset: int
    batches: list[LoggedBatch] = field(default_factory=list)
    end_offset: int = 0
    """Offset after the last valid batch."""
    damage: LogProof | None = None
    """Place of the first batch that is incomplete or has a wrong checksum."""
    is_damaged_within: bool = False
    """Whether valid batches follow the damaged one."""

    def markers(self) -> dict[int, list[LoggedBatch]]:
        """Return the markers of each producer, in the order of their offsets."""
        found: dict[int, list[LoggedBatch]] = {}
        for each in self.batches:
            if each.is_commit is not None:
                found.setdefault(each.batch.producer_id, []).append(each)
        return found


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """A record of `__consumer_offsets` with the committed offset of a partition.

    The offset is None in a tombstone, which deletes it. A commit of a transaction is only in the
    books after its marker.
    """

    group: str
    topic: str
    number: int
    offset: int | None
    at_ms: int
    """Time of the commit by the broker's clock, in milliseconds since the Unix epoch."""
    proof: LogProof


@dataclass(frozen=True, slots=True)
class LoggedTransaction:
    """A record of `__transaction_state`."""

    state: Transaction
    proof: LogProof


@dataclass(frozen=True, slots=True)
class LoggedShareState:
    """The state of a partition of a share group after all records of `__share_group_state`."""

    key: ShareKey
    start_offset: int
    batches: tuple[StateBatch, ...]
    proof: LogProof


class LogKey(NamedTuple):
    """The topic and number of a partition that has a directory."""

    topic: str
    number: int


@dataclass(slots=True)
class Books:
    """Everything in some data directories of one cluster."""

    logs: dict[LogKey, PartitionLog] = field(default_factory=dict)
    internal_logs: dict[LogKey, PartitionLog] = field(default_factory=dict)
    """The logs of internal topics, without their batches, which are in the other fields."""
    commits: list[LoggedCommit] = field(default_factory=list)
    """In the order of their logs, which is the order in which they took effect."""
    groups: set[str] = field(default_factory=set)
    """All groups that a record of `__consumer_offsets` names."""
    transactions: dict[str, list[LoggedTransaction]] = field(default_factory=dict)
    shares: dict[ShareKey, LoggedShareState] = field(default_factory=dict)
    topic_names: dict[bytes, str] = field(default_factory=dict)
    compacted_topics: set[str] = field(default_factory=set)
    unreadable: int = 0
    """Number of records of coordinators that cannot be decoded."""

    @property
    def records(self) -> int:
        """The number of records of clients in all logs."""
        return sum(
            each.batch.records
            for log in self.logs.values()
            for each in log.batches
            if not each.is_control
        )
