"""What a log knows of its idempotent and transactional producers (KIP-98).

Per producer id: its epoch, the last five batches, and the transaction it has open here. A batch
is checked before it is appended and taken in after; replaying the log's heads gives the same state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import CONTROL, TRANSACTIONAL, ControlKind
from kafkalite.storage.verification import Verifications

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.marker import TransactionMarker

_REMEMBERED_BATCHES = 5
NO_EPOCH = -1
NO_SEQUENCE = -1
_LARGEST_EPOCH = 32_767
_EPOCHS_GROW_SINCE = 2
"""The transaction version since which every transaction ends with an epoch of its own (KIP-890)."""
_SEQUENCE_MASK = 0x7FFF_FFFF  # after 2147483647 comes 0


class Incarnation(Protocol):
    """A producer id with the epoch that tells its incarnations apart: a batch has them too."""

    @property
    def producer_id(self) -> int:
        """Who writes."""

    @property
    def producer_epoch(self) -> int:
        """Which of its incarnations."""


class AppendedBatch(NamedTuple):
    """A batch that a producer has in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """What is known of one producer id; -1 stands for what is not."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        producer_epoch: int = NO_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = -1,
        transaction_first_offset: int | None = None,
        batches: Iterable[AppendedBatch] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.transaction_first_offset = transaction_first_offset
        self.batches = list(batches)

    @property
    def last_sequence(self) -> int:
        """The sequence number appended last in this epoch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class CompletedTransaction(NamedTuple):
    """A transaction that a marker at `last_offset` has ended.

    `last_stable_offset` is where reading committed records could go to once it was.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int


class ProducerStateTable:
    """The producers of one log."""

    __slots__ = ("_entries", "_open", "_verifications")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        # First offset → producer id of open transactions, oldest first. One ends as soon as its
        # marker is in the log, since all that is in the log is below the high watermark.
        self._open = dict(
            sorted(
                (entry.transaction_first_offset, entry.producer_id)
                for entry in self._entries.values()
                if entry.transaction_first_offset is not None
            )
        )
        self._verifications = Verifications()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[ProducerEntry]:
        """What is known, by producer id."""
        return [self._entries[producer_id] for producer_id in sorted(self._entries)]

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return what is known of a producer, if anything."""
        return self._entries.get(producer_id)

    def start_verification(self, batch: BatchView, *, adds_partitions: bool, now_ms: int) -> bool:
        """Return whether the coordinator must be asked before a transactional batch is appended.

        It need not while the transaction is open here. `adds_partitions` when the partition is to
        join the transaction by being written to (KIP-890). KafkaError INVALID_PRODUCER_EPOCH for
        an epoch that has passed.
        """
        if self.is_in_transaction(batch):
            return False
        self._verifications.begin(batch, adds_partitions=adds_partitions, now_ms=now_ms)
        return True

    def check(self, batch: BatchView, *, is_verified: bool = False) -> AppendedBatch | None:
        """Return the batch in the log that a client's batch repeats, or None to append it.

        Raises KafkaError as Kafka does: INVALID_PRODUCER_EPOCH for an epoch that has passed,
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap or a repetition that is not one of the last five,
        INVALID_TXN_STATE for a plain batch while a transaction is open, and for one that would
        begin a transaction without `is_verified`: the coordinator knows nothing of it. An unknown
        producer may start at any sequence.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is not None:
            repeated = _find_repeated(entry, batch)
            if repeated is not None:
                return repeated
        _check_epoch(batch, NO_EPOCH if entry is None else entry.producer_epoch)
        is_transactional = batch.attributes & TRANSACTIONAL
        if is_transactional and not is_verified and not _is_in_transaction(entry, batch):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {batch.producer_id} is not known to have begun",
            )
        if self._verifications.pending:
            has_batches = entry is not None and bool(entry.batches)
            self._verifications.check(batch, has_batches=has_batches)
        if entry is None:
            return None
        if not _is_in_sequence(entry, batch):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {batch.producer_id} is at sequence {entry.last_sequence} of epoch "
                f"{entry.producer_epoch}, the batch begins at {batch.base_sequence} of "
                f"{batch.producer_epoch}",
            )
        if entry.transaction_first_offset is not None and not is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {batch.producer_id} has a transaction open, the batch is not of it",
            )
        return None

    def is_in_transaction(self, producer: Incarnation) -> bool:
        """Whether a producer has a transaction open here, in the epoch that it says it has.

        KafkaError INVALID_PRODUCER_EPOCH for an epoch that has passed.
        """
        entry = self._entries.get(producer.producer_id)
        if entry is None:
            return False
        _check_epoch(producer, entry.producer_epoch)
        return _is_in_transaction(entry, producer)

    def check_marker(self, marker: TransactionMarker) -> None:
        """Raise KafkaError when a marker comes too late to be appended.

        INVALID_PRODUCER_EPOCH for an epoch that has passed, TRANSACTION_COORDINATOR_FENCED for a
        coordinator that has.
        """
        entry = self._entries.get(marker.producer_id) or ProducerEntry(marker.producer_id)
        known, epoch = entry.producer_epoch, marker.producer_epoch
        # Where every transaction ends with an epoch of its own, an equal one is a repetition, and
        # harmless unless the producer has gone on; the largest epoch has no successor to wait for.
        is_late = epoch < known or (
            epoch == known
            and marker.transaction_version >= _EPOCHS_GROW_SINCE
            and entry.transaction_first_offset is not None
            and epoch != _LARGEST_EPOCH
        )
        if is_late:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {marker.producer_id} has epoch {known}, the marker has {epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a marker of coordinator epoch {marker.coordinator_epoch} for producer "
                f"{marker.producer_id}, which was told of {entry.coordinator_epoch}",
            )

    def update(self, batch: BatchView) -> CompletedTransaction | None:
        """Take in a batch that is in the log now; return the transaction that it ended."""
        if batch.producer_id < 0:
            return None
        attributes = batch.attributes
        is_transactional = attributes & TRANSACTIONAL
        if is_transactional and self._verifications.pending:
            self._verifications.settle(batch)
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            entry = self._entries[batch.producer_id] = ProducerEntry(batch.producer_id)
        if batch.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = batch.producer_epoch
            entry.batches.clear()
        entry.last_timestamp = batch.max_timestamp
        if is_transactional and attributes & CONTROL:
            return self._end_transaction(entry, batch)
        entry.batches.append(
            AppendedBatch(
                batch.base_sequence,
                batch.last_sequence,
                batch.base_offset,
                batch.last_offset,
                batch.max_timestamp,
            )
        )
        del entry.batches[:-_REMEMBERED_BATCHES]
        if is_transactional and entry.transaction_first_offset is None:
            entry.transaction_first_offset = batch.base_offset
            self._open[batch.base_offset] = entry.producer_id
        return None

    def _end_transaction(
        self, entry: ProducerEntry, batch: BatchView
    ) -> CompletedTransaction | None:
        marker = batch.control_marker()
        if marker is None:
            return None
        entry.coordinator_epoch = marker.coordinator_epoch
        first_offset = entry.transaction_first_offset
        if first_offset is None:
            return None
        entry.transaction_first_offset = None
        del self._open[first_offset]
        return CompletedTransaction(
            entry.producer_id,
            first_offset,
            batch.last_offset,
            is_aborted=marker.kind is ControlKind.ABORT,
            last_stable_offset=next(iter(self._open), batch.last_offset + 1),
        )

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or None; read_committed stops there."""
        return next(iter(self._open), None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers without an open transaction that were silent for `expiration_ms`."""
        self._verifications.expire(now_ms, expiration_ms)
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.transaction_first_offset is None
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]


def _check_epoch(producer: Incarnation, producer_epoch: int) -> None:
    if producer.producer_epoch < producer_epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer.producer_id} has epoch {producer_epoch}, "
            f"not {producer.producer_epoch} any more",
        )


def _is_in_transaction(entry: ProducerEntry | None, producer: Incarnation) -> bool:
    return (
        entry is not None
        and entry.transaction_first_offset is not None
        and entry.producer_epoch == producer.producer_epoch
    )


def _find_repeated(entry: ProducerEntry, batch: BatchView) -> AppendedBatch | None:
    if batch.producer_epoch != entry.producer_epoch:
        return None
    first, last = batch.base_sequence, batch.last_sequence
    for appended in entry.batches:
        if appended.first_sequence == first and appended.last_sequence == last:
            return appended
    return None


def _is_in_sequence(entry: ProducerEntry, batch: BatchView) -> bool:
    if entry.producer_epoch == NO_EPOCH:
        return True
    if batch.producer_epoch != entry.producer_epoch:
        return batch.base_sequence == 0
    return batch.base_sequence == (entry.last_sequence + 1) & _SEQUENCE_MASK
