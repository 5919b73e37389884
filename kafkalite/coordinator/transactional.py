"""Transactional: records on a coordinator's log that count once their transaction is committed.

They are appended and replayed like any other, but into the keeping of a machine that gives them
effect with the marker that ends the transaction, or forgets them with it (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from kafkalite.coordinator.contract import Machine

if TYPE_CHECKING:
    from kafkalite.coordinator.contract import CoordinatorRecord

KeyValue: TypeAlias = "tuple[bytes | None, bytes | None]"
"""A record's key and value as bytes; None is a null key or a tombstone."""


class Incarnation(Protocol):
    """A producer id with the epoch that tells its incarnations apart."""

    @property
    def producer_id(self) -> int:
        """Whose transaction it is."""

    @property
    def producer_epoch(self) -> int:
        """Which of its incarnations."""


class OpenRecords(NamedTuple):
    """Records of a transaction whose end, if it has come, stands further on in the log."""

    producer_id: int
    records: Iterable[KeyValue]


class TransactionEnd(NamedTuple):
    """A marker: what its producer has open is committed or aborted."""

    producer_id: int
    is_commit: bool


Run: TypeAlias = Iterable[KeyValue] | OpenRecords | TransactionEnd
"""A piece of a log: records that count at once, records that may count, or how that was decided."""


class TransactionalMachine(Machine, Protocol):
    """A machine that takes records of transactions."""

    def replay_transactional(
        self, producer_id: int, record: CoordinatorRecord[object, object]
    ) -> None:
        """Make one record of a transaction true, as far as it can be before that ends."""

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Give effect to what a producer has open, or forget it; it may have nothing open."""
