"""Aborted transactions of a segment: the .txnindex file, there only where one was aborted.

A read_committed consumer is told which transactions in what it fetched were aborted, and leaves
their records out itself.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafkalite.ports.files import Files
    from kafkalite.storage.producer_state import CompletedTransaction

# Version, producer id, first offset, last offset (the marker's), last stable offset.
_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted: its producer, its first offset, and its marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedIndex:
    """The aborted transactions whose markers stand in one segment."""

    __slots__ = ("_entries", "_files", "_path", "_saved")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._entries: list[AbortedTransaction] | None = None
        self._saved = 0

    @property
    def entries(self) -> list[AbortedTransaction]:
        """The transactions in the order of their markers."""
        if self._entries is None:
            self._entries = self._read()
            self._saved = len(self._entries)
        return self._entries

    def _read(self) -> list[AbortedTransaction]:
        try:
            content = self._files.read(self._path)
        except FileNotFoundError:
            return []
        whole = len(content) // _ENTRY.size * _ENTRY.size
        return [AbortedTransaction(*row[1:]) for row in _ENTRY.iter_unpack(content[:whole])]

    def append(self, transaction: CompletedTransaction) -> None:
        """Add an aborted transaction, in the file when it is saved."""
        self.entries.append(
            AbortedTransaction(
                transaction.producer_id,
                transaction.first_offset,
                transaction.last_offset,
                transaction.last_stable_offset,
            )
        )

    def clear(self) -> None:
        """Forget all, to be filled again from the log."""
        self._files.remove(self._path)
        self._entries = []
        self._saved = 0

    def save(self) -> None:
        """Make the file hold the entries for good; without any there is no file."""
        if self._entries is None or self._saved == len(self._entries):
            return
        file = self._files.open(self._path, create=True)
        try:
            if file.size != self._saved * _ENTRY.size:
                file.truncate(self._saved * _ENTRY.size)
            pending = self._entries[self._saved :]
            file.append([b"".join(_ENTRY.pack(_VERSION, *entry) for entry in pending)])
            file.sync()
            self._saved = len(self._entries)
        finally:
            file.close()
