"""State of the idempotent and transactional producers of a log (KIP-98).

Per producer id: its epoch, its last five batches, and its open transaction in this log. A batch is
checked before it is appended and added afterwards. Replaying the headers of a log's batches gives
the same state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkalite.ports.named_tuples import NamedTuple
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import CONTROL, TRANSACTIONAL, ControlKind
from kafkalite.storage.transaction_verification import Verifications

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalite.storage.batch import BatchView
    from kafkalite.storage.transaction_marker import TransactionMarker

_MAX_BATCHES = 5
NO_EPOCH = -1
NO_SEQUENCE = -1
_MAX_EPOCH = 32_767
_EPOCH_BUMP_VERSION = 2
"""First transaction version in which the end of a transaction increases the epoch (KIP-890)."""
_SEQUENCE_MASK = 0x7FFF_FFFF  # 2147483647 is followed by 0


class HasProducer(Protocol):
    """Something with a producer id and an epoch, such as a batch."""

    @property
    def producer_id(self) -> int:
        """The producer id."""

    @property
    def producer_epoch(self) -> int:
        """The producer epoch."""


class AppendedBatch(NamedTuple):
    """A batch of a producer in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """State of one producer id; unknown values are -1."""

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
        """The sequence number of the last record in this epoch, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class CompletedTransaction(NamedTuple):
    """A transaction that ended with the marker at `last_offset`.

    `last_stable_offset` is the log's last stable offset after that.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int


def _open_transactions(entries: Mapping[int, ProducerEntry]) -> dict[int, int]:
    return dict(
        sorted(
            (entry.transaction_first_offset, entry.producer_id)
            for entry in entries.values()
            if entry.transaction_first_offset is not None
        )
    )


class ProducerStateTable:
    """The producers of one log."""

    __slots__ = ("_entries", "_open_transactions", "_verifications")

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self._entries = {entry.producer_id: entry for entry in entries}
        # First offset → producer id of open transactions, oldest first. A transaction ends when its
        # marker is in the log, because all of the log is below the high watermark.
        self._open_transactions = _open_transactions(self._entries) if self._entries else {}
        self._verifications = Verifications()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[ProducerEntry]:
        """Return the state of all producers, by producer id."""
        return [self._entries[producer_id] for producer_id in sorted(self._entries)]

    def copy(self) -> ProducerStateTable:
        """Return a table with the same producers, which changes on its own."""
        return ProducerStateTable(
            ProducerEntry(
                entry.producer_id,
                producer_epoch=entry.producer_epoch,
                coordinator_epoch=entry.coordinator_epoch,
                last_timestamp=entry.last_timestamp,
                transaction_first_offset=entry.transaction_first_offset,
                batches=entry.batches,
            )
            for entry in self._entries.values()
        )

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Return the state of a producer, or None."""
        return self._entries.get(producer_id)

    def start_verification(self, batch: BatchView, *, adds_partitions: bool, now_ms: int) -> bool:
        """Return whether the coordinator must verify the transaction before a batch is appended.

        A transaction that is open in this log needs no verification. `adds_partitions`: the write
        adds the partition to the transaction (KIP-890). Raises KafkaError INVALID_PRODUCER_EPOCH
        for a stale epoch.
        """
        if self.is_in_transaction(batch):
            return False
        self._verifications.begin(batch, adds_partitions=adds_partitions, now_ms=now_ms)
        return True

    def check(self, batch: BatchView, *, is_verified: bool = False) -> AppendedBatch | None:
        """Return the appended batch that a client's batch duplicates, or None if it is new.

        Raises KafkaError as Kafka does: INVALID_PRODUCER_EPOCH for a stale epoch,
        OUT_OF_ORDER_SEQUENCE_NUMBER for a gap or a duplicate of a batch before the last five,
        INVALID_TXN_STATE for a non-transactional batch while a transaction is open, and for a batch
        that would begin a transaction without `is_verified`, because the coordinator does not know
        the transaction. An unknown producer may start at any sequence.
        """
        entry = self._entries.get(batch.producer_id)
        known_epoch = NO_EPOCH if entry is None else entry.producer_epoch
        if batch.producer_epoch != known_epoch:
            _check_epoch(batch, known_epoch)
        elif entry is not None:
            duplicate = _find_duplicate(entry, batch)
            if duplicate is not None:
                return duplicate
        is_transactional = batch.attributes & TRANSACTIONAL
        if is_transactional and not is_verified and not _is_in_transaction(entry, batch):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {batch.producer_id} was not verified",
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
                f"producer {batch.producer_id} has an open transaction, "
                "and the batch is not transactional",
            )
        return None

    def is_in_transaction(self, producer: HasProducer) -> bool:
        """Whether a producer has an open transaction in this log, in its epoch.

        Raises KafkaError INVALID_PRODUCER_EPOCH for a stale epoch.
        """
        entry = self._entries.get(producer.producer_id)
        if entry is None:
            return False
        if entry.producer_epoch == producer.producer_epoch:
            return entry.transaction_first_offset is not None
        _check_epoch(producer, entry.producer_epoch)
        return False

    def transaction_start(self, producer_id: int) -> int | None:
        """Return the first offset of the open transaction of a producer; None without one."""
        entry = self._entries.get(producer_id)
        return None if entry is None else entry.transaction_first_offset

    def check_marker(self, marker: TransactionMarker) -> None:
        """Raise KafkaError if a marker is stale.

        INVALID_PRODUCER_EPOCH for a stale producer epoch, TRANSACTION_COORDINATOR_FENCED for a
        stale coordinator epoch.
        """
        entry = self._entries.get(marker.producer_id) or ProducerEntry(marker.producer_id)
        known_epoch, epoch = entry.producer_epoch, marker.producer_epoch
        # If every transaction increases the epoch, a marker with an equal epoch is a duplicate. It
        # does no harm unless the producer has begun the next transaction. The largest epoch cannot
        # increase.
        is_stale = epoch < known_epoch or (
            epoch == known_epoch
            and marker.transaction_version >= _EPOCH_BUMP_VERSION
            and entry.transaction_first_offset is not None
            and epoch != _MAX_EPOCH
        )
        if is_stale:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {marker.producer_id} has epoch {known_epoch}, the marker has {epoch}",
            )
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"producer {marker.producer_id} has coordinator epoch {entry.coordinator_epoch}, "
                f"the marker has {marker.coordinator_epoch}",
            )

    def update(self, batch: BatchView) -> CompletedTransaction | None:
        """Add a batch that was appended; return the transaction that it ended, if any."""
        if batch.producer_id < 0:
            return None
        attributes = batch.attributes
        is_transactional = attributes & TRANSACTIONAL
        if is_transactional and self._verifications.pending:
            self._verifications.complete(batch)
        entry = self._entries.get(batch.producer_id)
        if entry is None:
            entry = self._entries[batch.producer_id] = ProducerEntry(batch.producer_id)
        if batch.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = batch.producer_epoch
            entry.batches.clear()
        entry.last_timestamp = batch.max_timestamp
        if is_transactional and attributes & CONTROL:
            return self._end_transaction(entry, batch)
        base_offset = batch.base_offset
        entry.batches.append(
            AppendedBatch(
                batch.base_sequence,
                batch.last_sequence,
                base_offset,
                base_offset + batch.last_offset_delta,
                batch.max_timestamp,
            )
        )
        del entry.batches[:-_MAX_BATCHES]
        if is_transactional and entry.transaction_first_offset is None:
            entry.transaction_first_offset = base_offset
            self._open_transactions[base_offset] = entry.producer_id
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
        del self._open_transactions[first_offset]
        last_offset = batch.base_offset + batch.last_offset_delta
        return CompletedTransaction(
            entry.producer_id,
            first_offset,
            last_offset,
            marker.kind is ControlKind.ABORT,
            next(iter(self._open_transactions), last_offset + 1),
        )

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the oldest open transaction, or None; read_committed stops there."""
        return next(iter(self._open_transactions), None)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Remove producers without an open transaction that were idle for `expiration_ms`."""
        self._verifications.expire(now_ms, expiration_ms)
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.transaction_first_offset is None
            and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]


def _check_epoch(producer: HasProducer, producer_epoch: int) -> None:
    if producer.producer_epoch < producer_epoch:
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {producer.producer_id} has epoch {producer_epoch}, "
            f"so epoch {producer.producer_epoch} is stale",
        )


def _is_in_transaction(entry: ProducerEntry | None, producer: HasProducer) -> bool:
    return (
        entry is not None
        and entry.transaction_first_offset is not None
        and entry.producer_epoch == producer.producer_epoch
    )


def _find_duplicate(entry: ProducerEntry, batch: BatchView) -> AppendedBatch | None:
    """Return the batch of the same epoch with the sequences of `batch`, or None."""
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
