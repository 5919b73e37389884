"""The three names of compaction's last step, met again after a crash."""

from __future__ import annotations

from kafkalite.storage.swap import cleaned_path, settle_swaps
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import DIRECTORY, batch

A, B, C = (f"{base:020d}" for base in (0, 10, 20))


def directory(*names: str) -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs(DIRECTORY)
    for name in names:
        files.open(f"{DIRECTORY}/{name}", create=True).append([b"old"])
    return files


def swap(files: MemoryFiles, name: str, last_offset: int) -> None:
    view = batch(b"new")
    file = files.open(f"{DIRECTORY}/{name}.log.swap", create=True)
    file.append([view.first(last_offset, 0), bytes(view.data)[16:]])


def test_what_was_not_finished_counts_for_nothing() -> None:
    files = directory(f"{A}.log", f"{A}.log.cleaned", f"{B}.index.deleted", "x.tmp")
    assert settle_swaps(files, DIRECTORY) == [f"{A}.log"]
    assert cleaned_path(DIRECTORY, 0) == f"{DIRECTORY}/{A}.log.cleaned"


def test_a_swap_takes_the_place_of_what_it_covers() -> None:
    files = directory(f"{A}.log", f"{A}.index", f"{B}.log", f"{B}.timeindex", f"{C}.log")
    swap(files, A, last_offset=15)
    assert settle_swaps(files, DIRECTORY) == [f"{A}.log", f"{C}.log"]
    assert files.read(f"{DIRECTORY}/{A}.log") != b"old"
    assert files.read(f"{DIRECTORY}/{C}.log") == b"old"


def test_a_swap_whose_old_segments_are_gone_takes_its_name() -> None:
    files = directory(f"{C}.log")
    swap(files, A, last_offset=15)
    assert settle_swaps(files, DIRECTORY) == [f"{A}.log", f"{C}.log"]


def test_settling_is_done_once() -> None:
    files = directory(f"{A}.log", f"{A}.index")
    assert settle_swaps(files, DIRECTORY) == settle_swaps(files, DIRECTORY)
