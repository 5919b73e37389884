"""Producers about to begin a transaction in a log: what their first batch there may be (KIP-890).

The leader asks the transaction coordinator before it lets a transaction begin. While the answer is
no, or not yet, the sequence numbers that asked are remembered: were a later batch let in before an
earlier one that comes again, the earlier one could never be appended. Kept in memory alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalite.storage.batch import BatchView

MOST_VERIFICATIONS = 10_000
"""Of one log; beyond that the oldest is forgotten."""


class Verification(NamedTuple):
    """A producer whose transaction has not begun here, and the lowest sequence that it sent."""

    producer_epoch: int
    lowest_sequence: int
    adds_partitions: bool
    """Whether the partition joins the transaction by being written to."""
    since_ms: int


class Verifications:
    """The producers of one log that have asked to begin a transaction, and have not begun."""

    __slots__ = ("pending",)

    def __init__(self) -> None:
        self.pending: dict[int, Verification] = {}
        """By producer id, the one that asked first foremost."""

    def begin(self, batch: BatchView, *, adds_partitions: bool, now_ms: int) -> None:
        """Take note of a batch that would begin a transaction."""
        epoch, sequence = batch.producer_epoch, batch.base_sequence
        known = self.pending.get(batch.producer_id)
        if known is None:
            if len(self.pending) >= MOST_VERIFICATIONS:
                del self.pending[next(iter(self.pending))]
            known = Verification(epoch, sequence, adds_partitions, now_ms)
        elif epoch > known.producer_epoch:
            known = known._replace(producer_epoch=epoch, lowest_sequence=sequence)
        elif epoch == known.producer_epoch and sequence < known.lowest_sequence:
            known = known._replace(lowest_sequence=sequence)
        self.pending[batch.producer_id] = known

    def check(self, batch: BatchView, *, has_batches: bool) -> None:
        """Raise KafkaError OUT_OF_ORDER_SEQUENCE_NUMBER when an earlier batch is still to come.

        `has_batches` of its producer, in its epoch or the one before, the log has already. Without
        any, a producer whose partitions join implicitly must begin at 0.
        """
        known = self.pending.get(batch.producer_id)
        if known is None:
            return
        lowest = known.lowest_sequence
        if known.adds_partitions and not has_batches:
            lowest = 0
        if batch.base_sequence > lowest:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} begins a transaction at sequence "
                f"{batch.base_sequence}, and has to at {lowest}",
            )

    def settle(self, batch: BatchView) -> None:
        """Forget the producer of a transactional batch or marker that is in the log now.

        Unless it is the marker of the transaction before: with the epoch growing at every end, a
        marker has the epoch that the next transaction begins in.
        """
        known = self.pending.get(batch.producer_id)
        if known is None:
            return
        is_of_next = known.adds_partitions and batch.producer_epoch == known.producer_epoch
        if not (batch.is_control and is_of_next):
            del self.pending[batch.producer_id]

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget those that began to ask `expiration_ms` ago."""
        self.pending = {
            producer_id: known
            for producer_id, known in self.pending.items()
            if now_ms - known.since_ms < expiration_ms
        }
