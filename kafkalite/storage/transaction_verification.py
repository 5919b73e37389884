"""Verification of transactions that are about to begin in a log (KIP-890).

The leader asks the transaction coordinator before a transaction begins in a partition. Until the
answer is positive, the lowest sequence number of the producer is stored, and batches after it are
refused. Otherwise a later batch could be appended before the client retries an earlier one, and
the earlier one could never be appended. The state is not persistent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.storage.batch import BatchView

MAX_VERIFICATIONS = 10_000
"""Maximum number of verifications per log; above it, the oldest is removed."""


class Verification(NamedTuple):
    """A producer that has no open transaction in this log yet, and its lowest sequence number."""

    producer_epoch: int
    lowest_sequence: int
    adds_partitions: bool
    """Whether the write adds the partition to the transaction."""
    started_ms: int


class Verifications:
    """The producers that are about to begin a transaction in one log."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: dict[int, Verification] = {}
        """By producer id, oldest first."""

    def begin(self, batch: BatchView, *, adds_partitions: bool, now_ms: int) -> None:
        """Record a batch that would begin a transaction."""
        epoch, sequence = batch.producer_epoch, batch.base_sequence
        verification = self.pending.get(batch.producer_id)
        if verification is None:
            if len(self.pending) >= MAX_VERIFICATIONS:
                del self.pending[next(iter(self.pending))]
            verification = Verification(epoch, sequence, adds_partitions, now_ms)
        elif epoch > verification.producer_epoch:
            verification = verification._replace(producer_epoch=epoch, lowest_sequence=sequence)
        elif epoch == verification.producer_epoch and sequence < verification.lowest_sequence:
            verification = verification._replace(lowest_sequence=sequence)
        self.pending[batch.producer_id] = verification

    def check(self, batch: BatchView, *, has_batches: bool) -> None:
        """Raise KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER if an earlier batch is missing.

        `has_batches`: the log has batches of this producer, in its epoch or the one before. If not,
        a producer whose writes add partitions must begin at sequence 0.
        """
        verification = self.pending.get(batch.producer_id)
        if verification is None:
            return
        lowest = verification.lowest_sequence
        if verification.adds_partitions and not has_batches:
            lowest = 0
        if batch.base_sequence > lowest:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} begins a transaction at sequence "
                f"{batch.base_sequence}, but must begin at {lowest}",
            )

    def complete(self, batch: BatchView) -> None:
        """Remove the producer of a transactional batch or marker that was appended.

        The marker of the previous transaction is ignored. With transaction version 2, that marker
        has the epoch in which the next transaction begins.
        """
        verification = self.pending.get(batch.producer_id)
        if verification is None:
            return
        begins_next = (
            verification.adds_partitions and batch.producer_epoch == verification.producer_epoch
        )
        if not (batch.is_control and begins_next):
            del self.pending[batch.producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove verifications that began `expiration_ms` ago."""
        self.pending = {
            producer_id: verification
            for producer_id, verification in self.pending.items()
            if now_ms - verification.started_ms < expiration_ms
        }
