"""Records in a coordinator's log that take effect when their transaction commits (KIP-98).

They are appended and replayed like other records. The machine stores them until the marker that
ends the transaction, then applies or discards them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkalite.coordinator.contract import Machine
from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.coordinator.contract import CoordinatorRecord

KeyValue: TypeAlias = "tuple[bytes | None, bytes | None]"
"""A record's key and value as bytes; None is a null key or a tombstone."""


class OpenRecords(NamedTuple):
    """Records of one transaction; its marker, if it exists, is later in the log."""

    producer_id: int
    records: Iterable[KeyValue]


class TransactionEnd(NamedTuple):
    """A marker: the open transaction of the producer is committed or aborted."""

    producer_id: int
    is_commit: bool


LogSection: TypeAlias = Iterable[KeyValue] | OpenRecords | TransactionEnd
"""A part of a log: committed records, records of an open transaction, or the end of one."""


class TransactionalMachine(Machine, Protocol):
    """A machine that can replay records of transactions."""

    def replay_transactional(
        self, producer_id: int, record: CoordinatorRecord[object, object]
    ) -> None:
        """Store one record of an open transaction."""

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply or discard the open records of a producer, if it has any."""
