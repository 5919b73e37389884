"""Aborted transactions of a segment: the .txnindex file, which exists only if there are any.

A fetch by a read_committed consumer returns the aborted transactions in its range, and the consumer
skips their records.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkalite.ports.named_tuples import NamedTuple

if TYPE_CHECKING:
    from kafkalite.ports.files import Files
    from kafkalite.storage.producer_state import CompletedTransaction

# Version, producer id, first offset, last offset (the marker's), last stable offset.
_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """An aborted transaction: its producer, its first offset, and the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactionIndex:
    """The aborted transactions whose markers are in one segment."""

    __slots__ = ("_entries", "_files", "_path", "_saved_count")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        self._saved_count = 0

    def copy_to(self, files: Files) -> AbortedTransactionIndex:
        """Return the same index in other files, which are a copy of these."""
        copy = AbortedTransactionIndex(files, self._path)
        if self._entries is not None:
            copy._entries, copy._saved_count = self._entries[:], self._saved_count
        return copy

    @property
    def entries(self) -> list[AbortedTransaction]:
        """The transactions in the order of their markers."""
        if self._entries is None:
            self._entries = self._read()
            self._saved_count = len(self._entries)
        return self._entries

    def _read(self) -> list[AbortedTransaction]:
        try:
            content = self._files.read(self._path)
        except FileNotFoundError:
            return []
        complete_size = len(content) // _ENTRY.size * _ENTRY.size
        return [AbortedTransaction(*row[1:]) for row in _ENTRY.iter_unpack(content[:complete_size])]

    def append(self, transaction: CompletedTransaction) -> None:
        """Add an aborted transaction; `save` writes it."""
        self.entries.append(
            AbortedTransaction(
                transaction.producer_id,
                transaction.first_offset,
                transaction.last_offset,
                transaction.last_stable_offset,
            )
        )

    def clear(self) -> None:
        """Remove all entries, before they are read again from the log."""
        self._files.remove(self._path)
        self._entries = []
        self._saved_count = 0

    def truncate(self, end_offset: int) -> None:
        """Remove the entries whose marker is at `end_offset` or later; the file must be removed."""
        self._entries = [entry for entry in self.entries if entry.last_offset < end_offset]
        self._saved_count = 0

    def save(self) -> None:
        """Write the entries without a sync; no file is created if there are none."""
        if self._entries is None or self._saved_count == len(self._entries):
            return
        file = self._files.open(self._path, create=True)
        try:
            if file.size != self._saved_count * _ENTRY.size:
                file.truncate(self._saved_count * _ENTRY.size)
            pending = self._entries[self._saved_count :]
            file.append([b"".join(_ENTRY.pack(_VERSION, *entry) for entry in pending)])
            self._saved_count = len(self._entries)
        finally:
            file.close()
