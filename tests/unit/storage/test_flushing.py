"""Flushes of logs: the files that a flush syncs."""

from __future__ import annotations

import pytest

from kafkalite.storage.flushing import plan_flush, select_files, sync
from kafkalite.testing.files import MemoryFiles

NAMES = [
    "00000000000000000000.log",
    "00000000000000000009.index",
    "00000000000000000009.log",
    "00000000000000000009.log.cleaned",
    "00000000000000000009.snapshot",
    "00000000000000000012.timeindex",
    "00000000000000000012.txnindex",
    "leader-epoch-checkpoint",
    "leader-epoch-checkpoint.tmp",
]


def test_files_of_offsets_from_the_first_segment_on_are_synced() -> None:
    assert select_files(NAMES, 9, ()) == [NAMES[1], NAMES[2], *NAMES[4:7]]
    assert select_files(NAMES, 13, ("leader-epoch-checkpoint",)) == ["leader-epoch-checkpoint"]


def test_a_plan_syncs_the_parent_directory_of_a_new_log() -> None:
    files = MemoryFiles()
    files.makedirs("data/t-0")
    for name in NAMES[:3]:
        files.write(f"data/t-0/{name}", b"unsynced")
    flush = plan_flush(files, "data/t-0", [9], 12, other_names=())
    assert flush.files == (f"data/t-0/{NAMES[1]}", f"data/t-0/{NAMES[2]}")
    assert flush.directories == ("data/t-0",)
    assert flush.end_offset == 12
    created = plan_flush(files, "data/t-0", [9], 12, other_names=("partition.metadata",))
    assert created.directories == ("data/t-0", "data")
    sync(files, flush)
    after = files.after_power_loss(lambda _: 0)
    assert [after.read(f"data/t-0/{name}") for name in NAMES[:3]] == [b"", b"unsynced", b"unsynced"]


def test_a_sync_of_a_removed_file_fails() -> None:
    files = MemoryFiles()
    files.makedirs("data/t-0")
    files.write(f"data/t-0/{NAMES[0]}", b"")
    flush = plan_flush(files, "data/t-0", [0], 1, other_names=())
    files.remove(f"data/t-0/{NAMES[0]}")
    with pytest.raises(FileNotFoundError):
        sync(files, flush)
