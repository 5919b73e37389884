"""TransactionMarker: how a transaction ended, as each partition that it wrote to is told."""

from __future__ import annotations

from typing import NamedTuple


class TransactionMarker(NamedTuple):
    """What WriteTxnMarkers says of one transaction; kept in the log as a control batch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition: one that is lower comes from a zombie."""
    is_commit: bool
    transaction_version: int = 0
    """From 2 on the marker's epoch is one above that of the transaction's records (KIP-890)."""
