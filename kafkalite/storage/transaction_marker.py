"""TransactionMarker: the end of a transaction, as it is sent to each of its partitions."""

from __future__ import annotations

from kafkalite.ports.named_tuples import NamedTuple


class TransactionMarker(NamedTuple):
    """The end of a transaction in a WriteTxnMarkers request; stored as a control batch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition; a lower one is from a zombie coordinator."""
    is_commit: bool
    transaction_version: int = 0
    """From 2 on, the marker's epoch is one above that of the transaction's records (KIP-890)."""
