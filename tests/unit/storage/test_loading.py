"""A log's directory, in whatever state it was left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchView,
    ControlKind,
    ControlMarker,
    Producer,
    build_control_batch,
)
from kafkalite.storage.snapshot import snapshot_offsets
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import DIRECTORY, append, batch, filled_log, open_log, values_of

if TYPE_CHECKING:
    from kafkalite.storage.log import Log


def transaction(log: Log, pid: int, kind: ControlKind | None, count: int = 2) -> None:
    """Append the batches of a transaction, and its marker unless it stays open."""
    for number in range(count):
        view = batch(b"txn", attributes=TRANSACTIONAL, producer=Producer(pid, 0, number))
        log.append([view], leader_epoch=0, now_ms=0)
    if kind is not None:
        marker = ControlMarker(kind, 0)
        data = build_control_batch(marker, producer_id=pid, producer_epoch=0, now_ms=1000)
        log.append([BatchView(data)], leader_epoch=0, now_ms=0)


def log_of_transactions(files: MemoryFiles) -> Log:
    log = filled_log(5, files=files)
    for pid in range(1, 9):
        transaction(log, pid, ControlKind.ABORT if pid % 2 else ControlKind.COMMIT)
    transaction(log, 9, None)
    return log


@pytest.mark.parametrize("clean", [True, False])
def test_producers_and_aborted_transactions_are_known_again(clean: bool) -> None:  # noqa: FBT001
    files = MemoryFiles()
    log = log_of_transactions(files)
    assert len(log.segments) > 2
    aborted = log.aborted_transactions(0, log.end_offset)
    assert [each.producer_id for each in aborted] == [1, 3, 5, 7]
    if clean:
        log.close()
    again = open_log(files, clean_shutdown=clean)
    assert again.aborted_transactions(0, log.end_offset) == aborted
    assert [e.producer_id for e in again.producers.entries] == list(range(1, 10))
    assert [e.last_sequence for e in again.producers.entries] == [1] * 9
    unstable = log.producers.first_unstable_offset
    assert unstable is not None
    assert again.producers.first_unstable_offset == unstable


def test_aborted_transactions_are_those_that_a_read_touches() -> None:
    log = log_of_transactions(MemoryFiles())
    every = log.aborted_transactions(0, log.end_offset)
    for start in range(log.end_offset):
        for end in range(start + 1, log.end_offset + 1):
            assert log.aborted_transactions(start, end) == [
                each for each in every if each.last_offset >= start and each.first_offset < end
            ]


def test_a_marker_that_was_torn_off_leaves_its_transaction_open() -> None:
    files = MemoryFiles()
    log = filled_log(1, files=files)
    transaction(log, 1, ControlKind.ABORT)
    file = files.open(f"{DIRECTORY}/00000000000000000000.log")
    file.truncate(file.size - 1)
    again = open_log(files)
    assert again.aborted_transactions(0, again.end_offset) == []
    assert again.producers.first_unstable_offset == 2


def test_without_snapshots_the_whole_log_is_replayed() -> None:
    files = MemoryFiles()
    log = log_of_transactions(files)
    log.close()
    for path in files.paths:
        if path.endswith(".snapshot"):
            files.remove(path)
    again = open_log(files, clean_shutdown=True)
    assert [entry.producer_id for entry in again.producers.entries] == list(range(1, 10))


def test_epochs_are_taken_from_batches_where_the_file_is_lost() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for epoch in (0, 0, 2, 2, 7):
        append(log, b"v", epoch=epoch)
    files.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert open_log(files).epochs.entries == [(0, 0), (2, 2), (7, 4)]


def test_damage_in_an_older_segment_ends_the_log_there() -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    whole = values_of(log)
    second = log.segments[1]
    file = files.open(second.path(".log"))
    content = bytearray(file.pread(file.size, 0))
    content[-1] ^= 1
    file.truncate(0)
    file.append([content])
    again = open_log(files)
    assert again.end_offset < log.segments[2].base_offset
    assert len(again.segments) == 2
    assert append(again, b"new") == again.end_offset - 1
    assert values_of(again)[:-1] == whole[: again.end_offset - 1]


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xde\xad" * 50, b"short", None])
def test_a_clean_end_is_not_believed_of_a_log_that_ends_within_a_batch(tail: bytes | None) -> None:
    """As of a copy that was cut short; what is appended next must not stand behind the rest."""
    files = MemoryFiles()
    log = filled_log(10, files=files)
    whole = values_of(log)
    log.close()
    file = files.open(log.segments[-1].path(".log"))
    if tail is None:
        file.truncate(file.size - 1)
    else:
        file.append([tail])
    again = open_log(files, clean_shutdown=True)
    assert again.cut_bytes > 0
    kept = values_of(again)
    assert kept == (whole[:-2] if tail is None else whole)
    append(again, b"new")
    assert values_of(again) == [*kept, b"new"]


def test_names_that_are_not_ours_are_left_alone() -> None:
    files = MemoryFiles()
    filled_log(2, files=files).close()
    for name in ("notes.log", "x.index", "0000.txt", "abc.snapshot", "1.log", "x.log.swap"):
        files.open(f"{DIRECTORY}/{name}", create=True)
    assert open_log(files).end_offset == 4
    assert {"notes.log", "0000.txt", "abc.snapshot"} <= set(files.list(DIRECTORY))


def test_snapshots_do_not_pile_up() -> None:
    files = MemoryFiles()
    for _ in range(4):
        log = open_log(files, clean_shutdown=True)
        append(log, b"v")
        log.close()
    assert snapshot_offsets(files, DIRECTORY) == [4]
