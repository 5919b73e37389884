"""The log of one partition: append, read, roll, truncate, reopen."""

from __future__ import annotations

import errno

import pytest

from kafkalite.storage.batch import BatchProducer, BatchView, split_batches
from kafkalite.storage.disk_health import DiskProblem
from kafkalite.storage.file_names import remove_directory_and_files
from kafkalite.storage.flushing import sync
from kafkalite.storage.log import Log, OffsetOutOfRangeError
from kafkalite.testing.files import FaultyFiles, MemoryFiles
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


def read(
    log: object, offset: int, max_bytes: int = 1 << 20, limit: int = 1 << 40, *, one: bool = True
) -> list[BatchView]:
    data = log.read(offset, max_bytes=max_bytes, limit_offset=limit, at_least_one=one)  # type: ignore[attr-defined]
    return split_batches(data)


def test_log_without_batches_has_no_files() -> None:
    files = MemoryFiles()
    log = open_log(files)
    assert read(log, 0) == []
    log.flush()
    log.close()
    assert files.paths == []
    assert log.end_offset == log.start_offset == log.size_bytes == 0


def test_first_batch_creates_kafkas_files() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, b"a")
    assert [path.rpartition("/")[2] for path in files.paths] == [
        "00000000000000000000.log",
    ]
    log.close()
    assert [path.rpartition("/")[2] for path in files.paths] == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.snapshot",
        "leader-epoch-checkpoint",
    ]


def test_offsets_are_assigned_in_order_and_returned() -> None:
    log = open_log(MemoryFiles())
    first = log.append([batch(b"a", b"b"), batch(b"c")], leader_epoch=3, now_ms=0)
    second = log.append([batch(b"d")], leader_epoch=3, now_ms=0)
    assert (first.base_offset, first.last_offset, first.max_timestamp) == (0, 2, 1001)
    assert (second.base_offset, second.last_offset, second.append_time_ms) == (3, 3, -1)
    assert [(r.offset, r.value) for r in records_of(log)] == [
        (0, b"a"), (1, b"b"), (2, b"c"), (3, b"d"),
    ]  # fmt: skip
    assert [view.leader_epoch for view in read(log, 0)] == [3, 3, 3]


def test_payload_is_written_unchanged() -> None:
    log = open_log(MemoryFiles())
    append(log, b"a")
    view = batch(b"b", attributes=1)
    before = bytes(view.data)
    log.append([view], leader_epoch=7, now_ms=0)
    after = log.read(1, max_bytes=1000, limit_offset=2, at_least_one=True)
    assert after[16:] == before[16:]
    assert after[:8] == bytes(7) + b"\x01"


def test_append_time_is_returned_for_log_append_time() -> None:
    log = open_log(MemoryFiles())
    info = log.append([batch(b"a").with_log_append_time(5000)], leader_epoch=0, now_ms=5000)
    assert (info.append_time_ms, info.max_timestamp) == (5000, 5000)
    assert [record.timestamp for record in records_of(log)] == [5000]


def test_read_begins_with_the_batch_that_contains_the_offset() -> None:
    log = filled_log(40)
    for offset in range(80):
        assert read(log, offset)[0].base_offset == offset // 2 * 2


def test_a_read_stays_below_the_limit() -> None:
    log = filled_log(40)
    for limit in range(1, 81):
        views = read(log, 0, limit=limit)
        assert all(view.last_offset < limit for view in views)
        assert bool(views) == (limit >= 2)
    assert read(log, 10, limit=10) == []


def test_read_returns_complete_batches_up_to_its_size() -> None:
    log = filled_log(40, SMALL._replace(segment_bytes=100_000))
    size = batch(b"value 0", b"other").size
    assert [view.base_offset for view in read(log, 4, max_bytes=3 * size + 5)] == [4, 6, 8]


def test_first_batch_is_returned_even_if_larger() -> None:
    log = filled_log(3)
    assert [view.base_offset for view in read(log, 2, max_bytes=10)] == [2]
    assert read(log, 2, max_bytes=10, one=False) == []
    assert read(log, 2, max_bytes=0, one=False) == []


def test_a_batch_larger_than_any_chunk_is_read_back() -> None:
    log = open_log(MemoryFiles(), SMALL._replace(segment_bytes=10_000_000))
    append(log, b"small")
    append(log, b"x" * 3_000_000)
    append(log, b"after")
    reopened = open_log(log.files, SMALL._replace(segment_bytes=10_000_000))
    assert [len(value or b"") for value in values_of(reopened)] == [5, 3_000_000, 5]


def test_offsets_outside_of_the_log_are_refused() -> None:
    log = filled_log(3)
    assert read(log, 6) == []
    log.delete_before(2)
    for offset in (1, 7, -1):
        with pytest.raises(OffsetOutOfRangeError):
            read(log, offset)


def test_latest_values_are_read_between_two_offsets() -> None:
    log = open_log(MemoryFiles())
    for number in range(30):
        values = [batch(bytes(100), keys=[b"%d" % number])]
        log.append(values, leader_epoch=0, now_ms=0)
    assert len(log.segments) > 2
    for start, end in ((0, 30), (0, 0), (0, 17), (11, 12), (11, 30), (12, 11)):
        keys = [
            key
            for run in log.read_latest_by_key(start, end)
            if isinstance(run, dict)
            for key in run
        ]
        assert keys == [b"%d" % number for number in range(start, end)]


def test_a_segment_rolls_when_the_next_batch_would_exceed_its_size() -> None:
    log = filled_log(40)
    assert len(log.segments) > 2
    assert all(segment.size <= SMALL.segment_bytes for segment in log.segments)
    one_more = batch(b"value 0", b"other").size + 10
    assert all(segment.size + one_more > SMALL.segment_bytes for segment in log.segments[:-1])


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = filled_log(40, SMALL._replace(segment_bytes=100_000, segment_index_bytes=36))
    assert len(log.segments) > 3
    assert all(segment.index_bytes <= 36 for segment in log.segments)


def test_a_segment_rolls_when_records_are_too_far_apart_in_time() -> None:
    log = open_log(MemoryFiles(), SMALL._replace(segment_ms=100))
    for timestamp in (1000, 1100, 1101, 1150):
        append(log, b"v", timestamp=timestamp)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_without_timestamps_rolls_by_the_clock() -> None:
    log = open_log(MemoryFiles(), SMALL._replace(segment_ms=100))
    for now_ms in (0, 100, 101):
        view = batch(b"v", timestamp=-1)
        log.append([view], leader_epoch=0, now_ms=now_ms)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_jitter_rolls_earlier_but_never_later() -> None:
    config = SMALL._replace(segment_ms=1000, segment_jitter_ms=900)
    rolls = set()
    for name in range(8):
        log = type(filled_log(0)).open(MemoryFiles(), f"data/t-{name}", config, now_ms=0)
        append(log, b"v", timestamp=0)
        timestamp = 0
        while len(log.segments) == 1:
            timestamp += 50
            append(log, b"v", timestamp=timestamp)
        rolls.add(timestamp)
    assert len(rolls) > 1
    assert max(rolls) <= 1050


def test_segment_spans_at_most_an_int32_of_offsets() -> None:
    log = open_log(MemoryFiles())
    append(log, b"v")
    far = batch(b"v")
    far.last_offset_delta = 2**31 - 1
    log._segment_for(100, 2**31, 1000, 0)
    assert [segment.base_offset for segment in log.segments] == [0, 1]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_is_the_same_after_it_is_opened_again(clean: bool) -> None:  # noqa: FBT001
    files = MemoryFiles()
    log = filled_log(40, files=files)
    append(log, b"last", epoch=5)
    if clean:
        log.close()
    again = open_log(files, clean_shutdown=clean)
    assert records_of(again) == records_of(log)
    assert again.epochs.entries == [(0, 0), (5, 80)]
    assert [s.base_offset for s in again.segments] == [s.base_offset for s in log.segments]
    assert [s.max_timestamp for s in again.segments] == [s.max_timestamp for s in log.segments]
    assert append(again, b"more", epoch=5) == 81


def test_lost_indexes_are_built_again() -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    log.close()
    indexes = {path: files.read(path) for path in files.paths if path.endswith("index")}
    for path in indexes:
        files.remove(path)
    again = open_log(files, clean_shutdown=True)
    assert records_of(again) == records_of(log)
    for segment in again.segments:
        segment.seal()
    assert {path: files.read(path) for path in indexes} == indexes


def test_index_without_a_log_is_removed() -> None:
    files = MemoryFiles()
    filled_log(2, files=files).close()
    files.open(f"{DIRECTORY}/00000000000000000777.index", create=True)
    open_log(files, clean_shutdown=True)
    assert not [path for path in files.paths if "777" in path]


def test_delete_before_removes_segments_entirely_before_the_offset() -> None:
    log = filled_log(40)
    first_bases = [segment.base_offset for segment in log.segments]
    log.delete_before(first_bases[2] + 1)
    assert log.start_offset == first_bases[2] + 1
    assert [segment.base_offset for segment in log.segments] == first_bases[2:]
    assert records_of(log)[0].offset == first_bases[2] + 1
    log.delete_before(3)
    assert log.start_offset == first_bases[2] + 1


def test_deleting_all_records_preserves_the_end_offset() -> None:
    log = filled_log(40)
    log.delete_before(80)
    assert (log.start_offset, log.end_offset) == (80, 80)
    assert values_of(log) == []
    assert append(log, b"new") == 80
    with pytest.raises(OffsetOutOfRangeError):
        log.delete_before(82)


def test_epochs_begin_at_the_first_batch_of_a_leader() -> None:
    log = open_log(MemoryFiles())
    for epoch in (0, 0, 2, 5):
        append(log, b"a", epoch=epoch)
    assert log.epochs.entries == [(0, 0), (2, 2), (5, 3)]


def test_full_disk_refuses_only_the_batch() -> None:
    disk = MemoryFiles()
    log = filled_log(3, files=disk)
    log.files = FaultyFiles(disk, fail_at=0, part=0.7, crash=False)
    faulty = log.files.open(f"{DIRECTORY}/00000000000000000000.log")
    log.segments[0]._log = faulty
    with pytest.raises(OSError, match="space") as refused:
        append(log, b"does not fit")
    assert refused.value.errno == errno.ENOSPC
    assert log.end_offset == 6
    assert append(log, b"fits") == 6
    assert values_of(log)[-1] == b"fits"
    assert values_of(open_log(disk)) == values_of(log)


def test_remains_of_a_failed_write_are_not_read_and_truncated_before_the_next_write() -> None:
    disk = MemoryFiles()
    log = filled_log(3, files=disk)
    path = f"{DIRECTORY}/00000000000000000000.log"
    size = disk.open(path).size
    faulty = FaultyFiles(disk, fail_at=0, part=0.7, crash=False, failing_steps=3)
    log.segments[0]._log = faulty.open(path)
    for _ in range(2):
        with pytest.raises(OSError, match="space"):
            append(log, b"does not fit")
        assert disk.open(path).size > size
        assert len(values_of(log)) == 6
        assert log.size_bytes == size
    assert append(log, b"fits") == 6
    assert values_of(log)[-1] == b"fits"
    assert values_of(open_log(disk)) == values_of(log)


def test_flushing_moves_the_recovery_point() -> None:
    log = filled_log(10)
    assert log.recovery_point == 0
    log.flush()
    assert log.recovery_point == 20
    assert open_log(log.files, clean_shutdown=True).recovery_point == 20


def test_flush_messages_flushes_while_appending() -> None:
    disk = MemoryFiles()
    log = filled_log(7, SMALL._replace(flush_messages=4), files=disk)
    assert log.recovery_point == 12
    assert len(values_of(open_log(disk.after_power_loss(lambda _: 0)))) == 12


def test_log_refuses_appends_after_a_failed_flush() -> None:
    """The refused batch is in the file, but its writer never replayed it: nothing may follow it."""
    disk = MemoryFiles()
    log = filled_log(3, SMALL._replace(flush_messages=100), files=disk)
    log.config = SMALL._replace(flush_messages=1)
    log.files = FaultyFiles(disk, fail_at=1, crash=False)
    with pytest.raises(OSError, match="space"):
        append(log, b"refused")
    with pytest.raises(OSError, match="an earlier write to this log failed"):
        append(log, b"after it")
    assert values_of(log)[-1] == b"refused"
    again = open_log(disk)
    assert values_of(again) == values_of(log)
    assert append(again, b"fits") == 7


def test_the_first_append_syncs_nothing() -> None:
    files = MemoryFiles()
    synced: list[str] = []
    files.sync = synced.append  # type: ignore[assignment,method-assign]
    files.sync_directory = synced.append  # type: ignore[assignment,method-assign]
    log = Log.open(files, DIRECTORY, SMALL, now_ms=0, topic_id="AAAAAAAAAAAAAAAAAAAAEg")
    append(log, b"a")
    log.roll(0)
    append(log, b"b", epoch=8)
    assert synced == []
    log.flush()
    names = [path.removeprefix(f"{DIRECTORY}/") for path in synced]
    assert names == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000001.index",
        "00000000000000000001.log",
        "00000000000000000001.snapshot",
        "00000000000000000001.timeindex",
        "leader-epoch-checkpoint",
        "partition.metadata",
        DIRECTORY,
        "data",
    ]
    append(log, b"c")
    synced.clear()
    log.flush()
    assert "partition.metadata" not in {path.rpartition("/")[2] for path in synced}
    assert synced[-1] == DIRECTORY


def test_flush_covers_batches_appended_before_it_began() -> None:
    disk = MemoryFiles()
    log = filled_log(3, files=disk)
    flush = log.begin_flush()
    assert flush is not None
    append(log, b"later")
    sync(disk, flush)
    assert log.recovery_point == 0
    log.end_flush(flush, None)
    assert log.recovery_point == log.end_offset - 1
    assert len(values_of(open_log(disk.after_power_loss(lambda _: 0)))) >= log.recovery_point


def test_flush_of_removed_segments_is_no_failure() -> None:
    disk = MemoryFiles()
    log = filled_log(40, files=disk)
    flush = log.begin_flush()
    assert flush is not None
    log.delete_before(log.segments[1].base_offset)
    with pytest.raises(FileNotFoundError):
        sync(disk, flush)
    log.end_flush(flush, FileNotFoundError())
    assert log.recovery_point == 0
    append(log, b"goes on")
    log.flush()
    assert log.recovery_point == log.end_offset


def test_a_log_that_did_not_change_since_a_clean_start_is_closed_without_a_write() -> None:
    disk = MemoryFiles()
    filled_log(7, files=disk).close()
    files = FaultyFiles(disk)
    log = Log.open(files, DIRECTORY, SMALL, now_ms=0, clean_shutdown=True)
    log.close()
    assert files.steps == 0
    log = Log.open(files, DIRECTORY, SMALL, now_ms=0, clean_shutdown=True)
    log.delete_before(3)
    log.close()
    assert files.steps > 0


def test_deleted_log_leaves_no_files() -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    removed = log.delete()
    assert removed is not None
    assert files.list(DIRECTORY) == []
    remove_directory_and_files(files, removed)
    assert files.paths == []
    assert log.delete() is None
    assert files.list("data") == []


def make_disk_refuse(log: Log, disk: MemoryFiles, refusals: int) -> FaultyFiles:
    """Make the next steps on the last segment fail."""
    faulty = FaultyFiles(disk, fail_at=0, crash=False, failing_steps=refusals)
    log.files = faulty
    log.segments[-1]._log = faulty.open(log.segments[-1].path(".log"))
    return faulty


def test_a_refused_append_is_reported_until_one_succeeds() -> None:
    disk = MemoryFiles()
    log = filled_log(1, SMALL._replace(segment_bytes=100_000), files=disk)
    # The append, the truncation of the partial write, and that again before the next append.
    make_disk_refuse(log, disk, refusals=3)
    for _ in range(2):
        with pytest.raises(OSError, match="space"):
            append(log, b"refused")
        (failure,) = log.health.failures
        assert failure == (DiskProblem.REFUSED, DIRECTORY, "no space left on device")
    assert append(log, b"fits") == 2
    assert not log.health.failures


def test_failure_ends_when_a_probe_of_the_same_size_succeeds() -> None:
    disk = MemoryFiles()
    log = filled_log(1, SMALL._replace(segment_bytes=100_000), files=disk)
    faulty = make_disk_refuse(log, disk, refusals=4)
    with pytest.raises(OSError, match="space"):
        append(log, b"refused")
    names = disk.paths
    while faulty.steps < 4:
        log.health.retry_all()
        assert log.health.failures
    log.health.retry_all()
    assert not log.health.failures
    assert disk.paths == names


def test_failed_flush_remains_reported() -> None:
    disk = MemoryFiles()
    log = filled_log(1, files=disk)
    log.files = FaultyFiles(disk, fail_at=0, crash=False, failing_steps=100)
    with pytest.raises(OSError, match="space"):
        log.flush()
    log.health.retry_all()
    (failure,) = log.health.failures
    assert failure.path == DIRECTORY


def test_damaged_log_refuses_records_and_is_not_changed() -> None:
    files = MemoryFiles()
    config = SMALL._replace(segment_bytes=100_000, index_interval_bytes=100_000)
    log = filled_log(3, config, files)
    log.close()
    path = log.segments[0].path(".log")
    data = bytearray(files.read(path))
    data[len(data) // 3 + 8] = 0x7F
    files.write(path, bytes(data))
    before = {name: files.read(name) for name in files.paths}
    again = Log.open(
        files, DIRECTORY, config, now_ms=0, clean_shutdown=True, recovery_point=log.recovery_point
    )
    assert again.end_offset == 6
    with pytest.raises(OSError, match=r"position \d+ \(offset 2\) is damaged"):
        append(again, b"refused")
    again.roll(10**15)
    again.close()
    assert {name: files.read(name) for name in files.paths} == before
    (failure,) = again.health.failures
    assert (failure.problem, failure.path) == (DiskProblem.DAMAGED, path)


def test_batches_after_skipped_offsets_have_later_offsets() -> None:
    log = open_log(MemoryFiles())
    log.skip_to(5)
    append(log, b"a")
    log.skip_to(6)
    append(log, b"b")
    log.skip_to(9)
    append(log, b"c")
    assert (log.start_offset, log.end_offset) == (5, 10)
    assert [(record.offset, record.value) for record in records_of(log)] == [
        (5, b"a"), (6, b"b"), (9, b"c"),
    ]  # fmt: skip


def test_a_copy_in_copied_files_equals_a_log_that_is_opened_there() -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    transaction = BatchProducer(7, 0, 0)
    log.append([batch(b"p", producer=transaction)], leader_epoch=3, now_ms=0)
    flush = log.begin_close()
    assert flush is not None
    log.end_flush(flush, None)
    copied_files = files.copy()
    copy = log.copy_to(copied_files)
    opened = open_log(files.copy(), clean_shutdown=True)
    append(log, b"only in the source", timestamp=9000)
    for each in (copy, opened):
        append(each, b"later", timestamp=5000, epoch=4)
    assert records_of(copy) == records_of(opened)
    assert (copy.end_offset, copy.epochs.entries) == (opened.end_offset, opened.epochs.entries)
    assert [
        (each.base_offset, each.size, each.max_timestamp, each.max_timestamp_offset)
        for each in copy.segments
    ] == [
        (each.base_offset, each.size, each.max_timestamp, each.max_timestamp_offset)
        for each in opened.segments
    ]
    assert [each.producer_id for each in copy.producers.entries] == [7]
    copy.close()
    opened.close()
    assert values_of(open_log(copied_files, clean_shutdown=True)) == values_of(copy)
    assert {each: copied_files.read(each) for each in copied_files.paths} == {
        each: opened.files.read(each)
        for each in opened.files.paths  # type: ignore[attr-defined]
    }
