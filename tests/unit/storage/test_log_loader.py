"""Loading a log's directory in any state."""

from __future__ import annotations

import pytest

from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchView,
    ControlKind,
    ControlMarker,
    Producer,
    build_control_batch,
)
from kafkalite.storage.log import Log
from kafkalite.storage.producer_snapshot import snapshot_offsets
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import (
    DIRECTORY,
    SMALL,
    append,
    batch,
    filled_log,
    open_log,
    values_of,
)


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
def test_producers_and_aborted_transactions_are_restored(clean: bool) -> None:  # noqa: FBT001
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


def test_aborted_transactions_of_a_range_are_returned() -> None:
    log = log_of_transactions(MemoryFiles())
    every = log.aborted_transactions(0, log.end_offset)
    for start in range(log.end_offset):
        for end in range(start + 1, log.end_offset + 1):
            assert log.aborted_transactions(start, end) == [
                each for each in every if each.last_offset >= start and each.first_offset < end
            ]


def test_lost_marker_leaves_its_transaction_open() -> None:
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


def test_epochs_are_restored_from_batches_without_the_file() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for epoch in (0, 0, 2, 2, 7):
        append(log, b"v", epoch=epoch)
    files.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert open_log(files).epochs.entries == [(0, 0), (2, 2), (7, 4)]


def test_damage_in_an_older_segment_ends_the_log_there() -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    values = values_of(log)
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
    assert values_of(again)[:-1] == values[: again.end_offset - 1]


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"\xde\xad" * 50, b"short", None])
def test_log_that_ends_within_a_batch_is_recovered_despite_the_clean_marker(
    tail: bytes | None,
) -> None:
    """For example of a truncated copy; later appends must not follow the incomplete batch."""
    files = MemoryFiles()
    log = filled_log(10, files=files)
    values = values_of(log)
    log.close()
    file = files.open(log.segments[-1].path(".log"))
    if tail is None:
        file.truncate(file.size - 1)
    else:
        file.append([tail])
    again = open_log(files, clean_shutdown=True)
    assert again.truncated_bytes > 0
    remaining = values_of(again)
    assert remaining == (values[:-2] if tail is None else values)
    append(again, b"new")
    assert values_of(again) == [*remaining, b"new"]


def test_unknown_files_are_ignored() -> None:
    files = MemoryFiles()
    filled_log(2, files=files).close()
    for name in ("notes.log", "x.index", "0000.txt", "abc.snapshot", "1.log", "x.log.swap"):
        files.open(f"{DIRECTORY}/{name}", create=True)
    assert open_log(files).end_offset == 4
    assert {"notes.log", "0000.txt", "abc.snapshot"} <= set(files.list(DIRECTORY))


def test_old_snapshots_are_removed_on_load() -> None:
    files = MemoryFiles()
    for _ in range(4):
        log = open_log(files, clean_shutdown=True)
        append(log, b"v")
        log.close()
    assert snapshot_offsets(files, DIRECTORY) == [4]


SPARSE = SMALL._replace(index_interval_bytes=100_000)
"""An index interval so large that the end of a segment is searched from its start."""


def with_recovery_point(files: MemoryFiles, offset: int, *, clean: bool) -> Log:
    return Log.open(files, DIRECTORY, SMALL, now_ms=0, clean_shutdown=clean, recovery_point=offset)


@pytest.mark.parametrize("clean", [True, False])
def test_flushed_data_is_never_truncated(clean: bool) -> None:  # noqa: FBT001
    files = MemoryFiles()
    log = filled_log(10, SPARSE, files)
    log.close()
    last = log.segments[-1]
    file = files.open(last.path(".log"))
    content = bytearray(file.pread(file.size, 0))
    content[8] = 0x7F
    file.truncate(0)
    file.append([content])
    again = with_recovery_point(files, 20, clean=clean)
    assert (again.end_offset, again.truncated_bytes) == (20, 0)
    (damage,) = again.damage_errors
    assert damage.path == last.path(".log")
    assert damage.reason == f"the batch at position 0 (offset {last.base_offset}) is damaged"
    # Without a recovery point a crash may have caused it.
    assert with_recovery_point(files, 0, clean=clean).end_offset == last.base_offset


@pytest.mark.parametrize("clean", [True, False])
def test_missing_segment_is_reported(clean: bool) -> None:  # noqa: FBT001
    files = MemoryFiles()
    log = filled_log(60, SPARSE, files)
    log.close()
    segments = list(log.segments)
    assert len(segments) > 4
    before, gone, after = segments[1:4]
    gone.remove()
    again = with_recovery_point(files, log.end_offset, clean=clean)
    assert again.end_offset == log.end_offset
    (damage,) = again.damage_errors
    assert damage.path == before.path(".log")
    assert damage.reason == (
        f"the segment with the offsets {gone.base_offset} to {after.base_offset - 1} is missing"
    )
    (failure,) = again.health.failures
    assert failure.reason == damage.reason
    assert again.read(
        gone.base_offset, max_bytes=1, limit_offset=again.end_offset, at_least_one=True
    )


def test_complete_log_has_no_gaps() -> None:
    files = MemoryFiles()
    log_of_transactions(files).close()
    again = open_log(files, clean_shutdown=True)
    assert len(again.segments) > 2
    assert again.damage_errors == ()
    compacted = SMALL._replace(cleanup_policy=frozenset({"compact"}))
    again.segments[1].remove()
    assert open_log(files, compacted, clean_shutdown=True).damage_errors == ()
