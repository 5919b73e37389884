"""MemoryCoordinatorLog: a coordinator's log that a test can read, compact and break."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Entry = tuple[bytes | None, bytes | None]


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

    def read_all(self) -> Iterable[Entry]:
        """Yield every key and value from the start."""
        return iter(tuple(self.entries))

    def read_last(self) -> Iterable[Entry]:
        """Yield the last value of each key, in runs of `fold_at_once` entries."""
        for start in range(0, len(self.entries), self.fold_at_once):
            run = self.entries[start : start + self.fold_at_once]
            yield from MemoryCoordinatorLog(run).compacted(keep_tombstones=True).entries

    def in_runs(self) -> MemoryCoordinatorLog:
        """Return this log, to be read in runs of a few entries, so many as its length says."""
        log = MemoryCoordinatorLog(self.entries)
        log.fold_at_once = 1 + len(self.entries) % 9
        return log

    def compacted(self, *, keep_tombstones: bool = False) -> MemoryCoordinatorLog:
        """Return a log with the last value of each key alone, at the place of that value."""
        last = {key: position for position, (key, _) in enumerate(self.entries)}
        return MemoryCoordinatorLog(
            (key, value)
            for position, (key, value) in enumerate(self.entries)
            if last[key] == position and (keep_tombstones or value is not None)
        )
