"""MemoryCoordinatorLog: a coordinator's log that a test can read, compact and break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.coordinator.transactional import OpenRecords, TransactionEnd
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafkalite.coordinator.transactional import Incarnation, Run
    from kafkalite.storage.marker import TransactionMarker

Entry = tuple[bytes | None, bytes | None]


class TransactionalEntry(Entry):
    """An entry of a producer's transaction, or the marker that ends it: neither key nor value."""

    producer_id: int
    producer_epoch: int
    is_commit: bool | None
    """How a marker ends the transaction; None for what is no marker."""

    @classmethod
    def of(
        cls, producer: Incarnation | TransactionMarker, entry: Entry, *, is_commit: bool | None
    ) -> TransactionalEntry:
        """Return an entry as this producer's."""
        made = cls(entry)
        made.producer_id = producer.producer_id
        made.producer_epoch = producer.producer_epoch
        made.is_commit = is_commit
        return made


class MemoryCoordinatorLog:
    """A CoordinatorLog in memory; `fails_with` makes the next append raise it."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = list(entries)
        self.fails_with: Exception | None = None
        self.fold_at_once = 1_000_000
        self.name = "memory-0"

    def append(self, records: Sequence[Entry], now_ms: int) -> int:
        """Append one batch, all or nothing, and return the end offset."""
        del now_ms
        failure, self.fails_with = self.fails_with, None
        if failure is not None:
            raise failure
        self.entries.extend(records)
        return len(self.entries)

    def append_transactional(
        self, records: Sequence[Entry], producer: Incarnation, now_ms: int
    ) -> int:
        """Append one batch to a producer's transaction; INVALID_PRODUCER_EPOCH for an old epoch."""
        self.is_in_transaction(producer)
        owned = [TransactionalEntry.of(producer, entry, is_commit=None) for entry in records]
        return self.append(owned, now_ms)

    def append_marker(self, marker: TransactionMarker, now_ms: int) -> int:
        """End a producer's transaction; INVALID_PRODUCER_EPOCH for an old epoch."""
        self.is_in_transaction(marker)
        ending = TransactionalEntry.of(marker, (None, None), is_commit=marker.is_commit)
        return self.append([ending], now_ms)

    def is_in_transaction(self, producer: Incarnation) -> bool:
        """Whether a producer has a transaction open; INVALID_PRODUCER_EPOCH for an old epoch."""
        for entry in reversed(self.entries):
            if isinstance(entry, TransactionalEntry) and entry.producer_id == producer.producer_id:
                if entry.producer_epoch > producer.producer_epoch:
                    raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)
                return entry.is_commit is None and entry.producer_epoch == producer.producer_epoch
        return False

    def read_all(self) -> Iterable[Entry]:
        """Yield every key and value from the start, but for open and aborted transactions."""
        return iter(self._committed(len(self.entries)))

    def read_last(self) -> Iterable[Entry]:
        """Yield the last value of each key, in runs of `fold_at_once` entries."""
        for run in self._folded(len(self.entries)):
            yield from run

    def read_runs(self) -> Iterable[Run]:
        """Yield what is decided as `read_last` does, and then the rest as it is."""
        stable = self._stable_end()
        yield from self._folded(stable)
        for entry in self.entries[stable:]:
            if not isinstance(entry, TransactionalEntry):
                yield [entry]
            elif entry.is_commit is None:
                yield OpenRecords(entry.producer_id, [entry])
            else:
                yield TransactionEnd(entry.producer_id, entry.is_commit)

    def in_runs(self) -> MemoryCoordinatorLog:
        """Return this log, to be read in runs of a few entries, so many as its length says."""
        log = MemoryCoordinatorLog(self.entries)
        log.fold_at_once = 1 + len(self.entries) % 9
        return log

    def compacted(self, *, keep_tombstones: bool = False) -> MemoryCoordinatorLog:
        """Return a log with the last value of each key alone, at the place of that value.

        What stands behind the beginning of an open transaction is left as it is.
        """
        stable = self._stable_end()
        decided = _last_of_each(self._committed(stable))
        kept = [entry for entry in decided if keep_tombstones or entry[1] is not None]
        return MemoryCoordinatorLog([*kept, *self.entries[stable:]])

    def _folded(self, end: int) -> Iterator[list[Entry]]:
        committed = self._committed(end)
        for start in range(0, len(committed), self.fold_at_once):
            yield _last_of_each(committed[start : start + self.fold_at_once])

    def _committed(self, end: int) -> list[Entry]:
        """Return the records before `end` that are of no transaction, or of a committed one."""
        return [
            (entry[0], entry[1])
            for position, entry in enumerate(self.entries[:end])
            if not isinstance(entry, TransactionalEntry)
            or (entry.is_commit is None and self._fate_of(position, entry.producer_id))
        ]

    def _fate_of(self, position: int, producer_id: int) -> bool | None:
        """Return how a transaction ended that was open at a position; None while it is."""
        for entry in self.entries[position:]:
            if isinstance(entry, TransactionalEntry):
                is_its_marker = entry.producer_id == producer_id and entry.is_commit is not None
                if is_its_marker:
                    return entry.is_commit
        return None

    def _stable_end(self) -> int:
        """Return where the first transaction begins that is still open, or the end."""
        open_at = (
            position
            for position, entry in enumerate(self.entries)
            if isinstance(entry, TransactionalEntry)
            and self._fate_of(position, entry.producer_id) is None
        )
        return next(open_at, len(self.entries))


def _last_of_each(entries: Sequence[Entry]) -> list[Entry]:
    """Return the last entry of each key, in the order in which they stand."""
    last: dict[bytes | None, int] = {key: position for position, (key, _) in enumerate(entries)}
    return [entry for position, entry in enumerate(entries) if last[entry[0]] == position]
