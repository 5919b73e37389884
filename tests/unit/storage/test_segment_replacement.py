"""The three file names of compaction's last step, after a crash."""

from __future__ import annotations

from kafkalite.storage.segment_replacement import cleaned_path, complete_swaps
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
    file.append([view.prefix(last_offset, 0), bytes(view.data)[16:]])


def test_incomplete_files_are_removed() -> None:
    files = directory(f"{A}.log", f"{A}.log.cleaned", f"{B}.index.deleted", "x.tmp")
    assert complete_swaps(files, DIRECTORY) == [f"{A}.log"]
    assert cleaned_path(DIRECTORY, 0) == f"{DIRECTORY}/{A}.log.cleaned"


def test_a_completed_swap_replaces_the_old_segments_in_its_offset_range() -> None:
    files = directory(f"{A}.log", f"{A}.index", f"{B}.log", f"{B}.timeindex", f"{C}.log")
    swap(files, A, last_offset=15)
    assert complete_swaps(files, DIRECTORY) == [f"{A}.log", f"{C}.log"]
    assert files.read(f"{DIRECTORY}/{A}.log") != b"old"
    assert files.read(f"{DIRECTORY}/{C}.log") == b"old"


def test_swap_without_old_segments_is_renamed() -> None:
    files = directory(f"{C}.log")
    swap(files, A, last_offset=15)
    assert complete_swaps(files, DIRECTORY) == [f"{A}.log", f"{C}.log"]


def test_completing_swaps_twice_has_no_effect() -> None:
    files = directory(f"{A}.log", f"{A}.index")
    assert complete_swaps(files, DIRECTORY) == complete_swaps(files, DIRECTORY)
