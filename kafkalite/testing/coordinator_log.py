"""MemoryCoordinatorLog: a coordinator's log in memory that a test can read, compact and break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.transactional_records import OpenRecords, TransactionEnd
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.coordinator.transactional_records import LogSection
    from kafkalite.storage.producer_state import HasProducer
    from kafkalite.storage.transaction_marker import TransactionMarker

Entry = tuple[bytes | None, bytes | None]


class TransactionalEntry(Entry):
    """An entry of a producer's transaction, or the marker that ends it (without key and value)."""

    producer_id: int
    producer_epoch: int
    is_commit: bool | None
    """Whether a marker commits the transaction; None for other entries."""

    @classmethod
    def of(
        cls,
        producer: HasProducer | TransactionMarker,
        entry: Entry,
        *,
        is_commit: bool | None,
    ) -> TransactionalEntry:
        """Return an entry of this producer."""
        transactional_entry = cls(entry)
        transactional_entry.producer_id = producer.producer_id
        transactional_entry.producer_epoch = producer.producer_epoch
        transactional_entry.is_commit = is_commit
        return transactional_entry


class MemoryCoordinatorLog:
    """A CoordinatorLog in memory; the next append raises `next_error` if that is set."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = list(entries)
        self.next_error: Exception | None = None
        self.max_run_length = 1_000_000
        self.max_batch_bytes = 1_048_588
        self.name = "memory-0"
        self.next_flush_error: Exception | None = None
        self.flushed_count = 0
        """The number of entries when the log was last flushed."""

    def append(self, records: Sequence[Entry], now_ms: int) -> int:
        """Append one batch, completely or not at all, and return the end offset."""
        del now_ms
        failure, self.next_error = self.next_error, None
        if failure is not None:
            raise failure
        self.entries.extend(records)
        return len(self.entries)

    def flush(self) -> None:
        """Record that all entries are durable, or raise `next_flush_error`."""
        failure, self.next_flush_error = self.next_flush_error, None
        if failure is not None:
            raise failure
        self.flushed_count = len(self.entries)

    def append_transactional(
        self, records: Sequence[Entry], producer: HasProducer, now_ms: int
    ) -> int:
        """Append one batch to a transaction; raises INVALID_PRODUCER_EPOCH for an old epoch."""
        self.is_in_transaction(producer)
        transactional_entries = [
            TransactionalEntry.of(producer, entry, is_commit=None) for entry in records
        ]
        return self.append(transactional_entries, now_ms)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction; raises INVALID_PRODUCER_EPOCH for an old epoch."""
        self.is_in_transaction(marker)
        marker_entry = TransactionalEntry.of(marker, (None, None), is_commit=marker.is_commit)
        return self.append([marker_entry], now_ms)

    def is_in_transaction(self, producer: HasProducer) -> bool:
        """Whether a producer's transaction is open; raises INVALID_PRODUCER_EPOCH if it is old."""
        for entry in reversed(self.entries):
            if isinstance(entry, TransactionalEntry) and entry.producer_id == producer.producer_id:
                if entry.producer_epoch > producer.producer_epoch:
                    raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
                return entry.is_commit is None and entry.producer_epoch == producer.producer_epoch
        return False

    def read_all(self) -> Iterable[Entry]:
        """Yield every key and value from the start, without open and aborted transactions."""
        return iter(self._committed_entries(len(self.entries)))

    def read_latest(self) -> Iterable[Entry]:
        """Yield the last value of each key, in runs of `max_run_length` entries."""
        for run in self._runs(len(self.entries)):
            yield from run

    def read_sections(self) -> Iterable[LogSection]:
        """Yield runs as in `read_latest`, and single entries from the first open transaction on."""
        stable = self._stable_end()
        yield from self._runs(stable)
        for entry in self.entries[stable:]:
            if not isinstance(entry, TransactionalEntry):
                yield [entry]
            elif entry.is_commit is None:
                yield OpenRecords(entry.producer_id, [entry])
            else:
                yield TransactionEnd(entry.producer_id, entry.is_commit)

    def with_short_runs(self) -> MemoryCoordinatorLog:
        """Return a copy of this log with short runs; their length depends on its size."""
        log = MemoryCoordinatorLog(self.entries)
        log.max_run_length = 1 + len(self.entries) % 9
        return log

    def compact(self, *, keep_tombstones: bool = False) -> MemoryCoordinatorLog:
        """Return a log with only the last value of each key, in the order of those values.

        Entries after the beginning of an open transaction remain unchanged.
        """
        stable = self._stable_end()
        latest = _latest_by_key(self._committed_entries(stable))
        retained = [entry for entry in latest if keep_tombstones or entry[1] is not None]
        return MemoryCoordinatorLog([*retained, *self.entries[stable:]])

    def _runs(self, end: int) -> Iterator[list[Entry]]:
        entries = self._committed_entries(end)
        for start in range(0, len(entries), self.max_run_length):
            yield _latest_by_key(entries[start : start + self.max_run_length])

    def _committed_entries(self, end: int) -> list[Entry]:
        """Return the records before `end` outside of transactions or in committed ones."""
        return [
            (entry[0], entry[1])
            for position, entry in enumerate(self.entries[:end])
            if not isinstance(entry, TransactionalEntry)
            or (entry.is_commit is None and self._outcome_of(position, entry.producer_id))
        ]

    def _outcome_of(self, position: int, producer_id: int) -> bool | None:
        """Return whether the transaction at a position was committed; None if it is still open."""
        for entry in self.entries[position:]:
            if isinstance(entry, TransactionalEntry):
                is_its_marker = entry.producer_id == producer_id and entry.is_commit is not None
                if is_its_marker:
                    return entry.is_commit
        return None

    def _stable_end(self) -> int:
        """Return the position of the first open transaction; the end if none is open."""
        open_at = (
            position
            for position, entry in enumerate(self.entries)
            if isinstance(entry, TransactionalEntry)
            and self._outcome_of(position, entry.producer_id) is None
        )
        return next(open_at, len(self.entries))


def _latest_by_key(entries: Sequence[Entry]) -> list[Entry]:
    """Return the last entry of each key, in log order."""
    last: dict[bytes | None, int] = {key: position for position, (key, _) in enumerate(entries)}
    return [entry for position, entry in enumerate(entries) if last[entry[0]] == position]
