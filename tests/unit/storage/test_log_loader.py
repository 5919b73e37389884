"""Loading a log's directory in any state."""

from __future__ import annotations

import pytest

from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
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
    records_of,
    values_of,
)


def transaction(log: Log, pid: int, kind: ControlKind | None, count: int = 2) -> None:
    """Append the batches of a transaction, and its marker unless it stays open."""
    for number in range(count):
        view = batch(b"txn", attributes=TRANSACTIONAL, producer=BatchProducer(pid, 0, number))
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
    # Without a recovery point a loss of power may have caused it, unless the log was closed.
    again = with_recovery_point(files, 0, clean=clean)
    assert again.end_offset == (20 if clean else last.base_offset)


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


def change(files: MemoryFiles, path: str, position: int, content: bytes) -> None:
    """Overwrite bytes of a file."""
    file = files.open(path)
    whole = bytearray(file.pread(file.size, 0))
    whole[position : position + len(content)] = content
    file.truncate(0)
    file.append([whole])


ONE_SEGMENT = SMALL._replace(segment_bytes=1 << 20)
FILE = f"{DIRECTORY}/{0:020d}.log"
LENGTH_FIELD, VALUE = 8, -3
"""Positions in a batch: of its length, and, from its end, of its last value."""


@pytest.mark.parametrize("at", [LENGTH_FIELD, VALUE])
def test_damage_before_valid_batches_is_not_truncated_after_a_crash_of_the_process(
    at: int,
) -> None:
    files = MemoryFiles()
    log = filled_log(10, ONE_SEGMENT, files)
    values = values_of(log)
    start = 3 * log.size_bytes // 10
    change(files, FILE, start + at if at > 0 else start + log.size_bytes // 10 + at, b"\x7f")
    again = open_log(files, ONE_SEGMENT, may_have_lost_writes=False)
    (damage,) = again.damage_errors
    assert damage.reason == f"the batch at position {start} (offset 6) is damaged"
    assert (again.end_offset, again.truncated_bytes) == (20, 0)
    assert again.has_disk_failure
    with pytest.raises(OSError, match="damaged"):
        append(again, b"new")
    # Kafka truncates, and a loss of power may have caused it. Records of others depend on it.
    internal = open_log(files, ONE_SEGMENT, is_internal=True)
    assert internal.damage_errors[0].reason == damage.reason
    lossy = open_log(files, ONE_SEGMENT)
    assert (lossy.end_offset, lossy.truncated_end_offset) == (6, 20)
    assert values_of(lossy) == values[:6]
    append(lossy, b"new")


@pytest.mark.parametrize("is_internal", [False, True])
@pytest.mark.parametrize("may_have_lost_writes", [False, True])
def test_an_incomplete_last_write_is_truncated(
    *, may_have_lost_writes: bool, is_internal: bool
) -> None:
    content, values = three_batches()
    for size in range(len(content) * 2 // 3 + 1, len(content)):
        files = disk_with(content[:size])
        log = open_log(
            files, ONE_SEGMENT, may_have_lost_writes=may_have_lost_writes, is_internal=is_internal
        )
        assert log.truncated_bytes == size - len(content) * 2 // 3
        assert (log.end_offset, log.truncated_end_offset, log.damage_errors) == (4, 4, ())
        append(log, b"new")
        assert values_of(log) == [*values[:4], b"new"]


@pytest.mark.parametrize("is_internal", [False, True])
@pytest.mark.parametrize("zeroed", [40, 4096])
def test_pages_of_zeros_at_the_end_are_truncated_after_a_loss_of_power(
    zeroed: int, *, is_internal: bool
) -> None:
    content, values = three_batches()
    for size in range(len(content) * 2 // 3, len(content) - 4):
        log = open_log(
            disk_with(content[:size] + bytes(zeroed)), ONE_SEGMENT, is_internal=is_internal
        )
        assert (log.end_offset, log.damage_errors) == (4, ())
        append(log, b"new")
        assert values_of(log) == [*values[:4], b"new"]


def three_batches() -> tuple[bytes, list[bytes | None]]:
    """Return the bytes and the values of three batches of the same size."""
    files = MemoryFiles()
    values = values_of(filled_log(3, ONE_SEGMENT, files))
    return files.read(FILE), values


def disk_with(content: bytes) -> MemoryFiles:
    """Return a disk with a log of one segment."""
    files = MemoryFiles()
    files.makedirs(DIRECTORY)
    files.write(FILE, content)
    return files


@pytest.mark.parametrize("is_internal", [False, True])
def test_a_damaged_last_batch_of_full_length_is_no_incomplete_write(*, is_internal: bool) -> None:
    files = MemoryFiles()
    size = filled_log(3, ONE_SEGMENT, files).size_bytes
    change(files, FILE, size - 1, b"?")
    again = open_log(files, ONE_SEGMENT, may_have_lost_writes=False, is_internal=is_internal)
    (damage,) = again.damage_errors
    assert damage.reason == f"the batch at position {2 * size // 3} (offset 4) is damaged"
    assert again.end_offset == 6
    # After a loss of power, its last pages may be missing.
    lossy = open_log(files, ONE_SEGMENT, is_internal=is_internal)
    assert (lossy.end_offset, lossy.damage_errors) == (4, ())


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("remaining_batches", [0, 4])
def test_a_flushed_end_that_is_missing_is_reported(remaining_batches: int, *, clean: bool) -> None:
    files = MemoryFiles()
    log = filled_log(5, ONE_SEGMENT, files)
    log.close()
    if remaining_batches:
        file = files.open(FILE)
        file.truncate(remaining_batches * file.size // 5)
    else:
        files.remove(FILE)
    again = with_recovery_point(files, 10, clean=clean)
    (damage,) = again.damage_errors
    first_missing = 2 * remaining_batches
    assert damage.reason == (
        f"the flushed records with the offsets {first_missing} to 9 are missing"
    )
    assert again.end_offset == 10
    with pytest.raises(OSError, match="missing"):
        append(again, b"new")
    again.close()
    if remaining_batches:
        assert records_of(again)[-1].offset == first_missing - 1


def test_a_missing_segment_is_no_loss_of_power_after_a_crash_of_the_process() -> None:
    files = MemoryFiles()
    log = filled_log(60, SPARSE, files)
    gone, after = log.segments[2:4]
    gone.remove()
    again = open_log(files, SPARSE, may_have_lost_writes=False)
    (damage,) = again.damage_errors
    assert damage.reason == (
        f"the segment with the offsets {gone.base_offset} to {after.base_offset - 1} is missing"
    )
    assert (again.end_offset, again.truncated_bytes) == (120, 0)
    lossy = open_log(files, SPARSE)
    assert (lossy.end_offset, lossy.truncated_end_offset) == (gone.base_offset, 120)
