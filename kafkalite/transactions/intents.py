"""What a transaction coordinator wants done elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkalite.transactions.state import TopicPartition


class WriteMarkers(NamedTuple):
    """Tell partitions how a transaction ended, then tell the coordinator that they know.

    Named when the Prepare record is in the log, and again by `on_loaded` while no Complete record
    follows it; carrying it out twice does no harm.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """As in the Prepare record; with transaction version 2 one above that of the data."""
    is_commit: bool
    transaction_version: int
    partitions: tuple[TopicPartition, ...]
    """In order of topic and index; those that are no more are passed over."""
