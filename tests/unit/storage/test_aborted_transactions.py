"""The .txnindex file of a segment."""

from __future__ import annotations

import struct

from kafkalite.storage.aborted_transactions import AbortedTransaction, AbortedTransactionIndex
from kafkalite.storage.producer_state import CompletedTransaction
from kafkalite.testing.files import MemoryFiles

PATH = "d/x.txnindex"
FIRST = CompletedTransaction(7, 10, 20, is_aborted=True, last_stable_offset=15)
SECOND = CompletedTransaction(8, 15, 30, is_aborted=True, last_stable_offset=31)


def test_entries_have_kafkas_format_and_are_read_back() -> None:
    files = MemoryFiles()
    files.makedirs("d")
    index = AbortedTransactionIndex(files, PATH)
    assert index.entries == []
    assert files.paths == []
    index.append(FIRST)
    index.append(SECOND)
    assert files.paths == []
    index.save()
    assert files.read(PATH) == struct.pack(">hqqqqhqqqq", 0, 7, 10, 20, 15, 0, 8, 15, 30, 31)
    again = AbortedTransactionIndex(files, PATH)
    assert again.entries == [AbortedTransaction(7, 10, 20, 15), AbortedTransaction(8, 15, 30, 31)]
    index.clear()
    assert index.entries == []
    assert files.paths == []


def test_an_incomplete_entry_is_overwritten() -> None:
    files = MemoryFiles()
    files.makedirs("d")
    first = AbortedTransactionIndex(files, PATH)
    first.append(FIRST)
    first.save()
    files.open(PATH).append([b"half"])
    index = AbortedTransactionIndex(files, PATH)
    index.append(SECOND)
    index.save()
    assert [entry.producer_id for entry in AbortedTransactionIndex(files, PATH).entries] == [7, 8]


def test_saved_and_synced_entries_survive_a_crash() -> None:
    files = MemoryFiles()
    files.makedirs("d")
    index = AbortedTransactionIndex(files, PATH)
    index.save()
    assert files.paths == []
    index.append(FIRST)
    index.save()
    files.sync(PATH)
    assert len(AbortedTransactionIndex(files.after_power_loss(lambda _: 0), PATH).entries) == 1
