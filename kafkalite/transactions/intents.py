"""Intents of a transaction coordinator: work for other nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.transactions.state import TopicPartition


class WriteMarkers(NamedTuple):
    """Write the markers of a transaction to its partitions, then notify the coordinator.

    Returned when the Prepare record is in the log, and again by `on_loaded` while there is no
    Complete record. Carrying it out twice does no harm.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The epoch in the Prepare record.

    From transaction version 2 on, it is one above the epoch of the transaction's records.
    """
    is_commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    """Ordered by topic and index; partitions that no longer exist are skipped."""
