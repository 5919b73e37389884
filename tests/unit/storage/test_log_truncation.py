"""Truncation of a log: what remains in memory and on disk, and what a failing disk leaves."""

from __future__ import annotations

import errno
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.background import run_steps
from kafkalite.ports.memory_files import InMemoryFile
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_control_batch,
)
from kafkalite.storage.compaction import plan_log_compaction
from kafkalite.storage.disk_health import DiskProblem
from kafkalite.storage.flushing import sync
from kafkalite.storage.log import Log, OffsetOutOfRangeError
from kafkalite.storage.log_cleaner import clean
from kafkalite.storage.producer_snapshot import snapshot_offsets
from kafkalite.storage.timestamps import offset_for_timestamp, offset_of_max_timestamp
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalite.ports.files import Files

COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=600,
    index_interval_bytes=150,
    min_cleanable_dirty_ratio=0.0,
)
NO_SPACE = "space"


def base_offsets(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def segment_files(files: MemoryFiles, suffix: str) -> list[int]:
    return [int(name[:20]) for name in files.list(DIRECTORY) if name.endswith(suffix)]


def assert_prefix(log: Log, whole: Log, end_offset: int) -> None:
    """Check that `log` has the records of `whole` before an offset, and no others."""
    assert log.end_offset == end_offset
    expected = [record for record in records_of(whole) if record.offset < end_offset]
    assert records_of(log) == expected


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("end_offset", range(0, 80, 2))
def test_truncated_log_is_a_prefix_in_memory_and_on_disk(end_offset: int, *, flushed: bool) -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    if flushed:
        log.flush()
    log.truncate_to(end_offset)
    assert_prefix(log, filled_log(40), end_offset)
    assert segment_files(files, ".log") == base_offsets(log)
    assert segment_files(files, ".log")[-1] <= end_offset
    assert_prefix(open_log(files), filled_log(40), end_offset)
    for number in range(30):
        assert append(log, b"new %d" % number, epoch=1) == end_offset + number
    for again in (log, open_log(files)):
        assert values_of(again)[end_offset:] == [b"new %d" % number for number in range(30)]
        assert again.epochs.end_offset_for(0, again.end_offset)[1] in {end_offset, -1}
        assert again.epochs.entries[-1] == (1, end_offset)


@pytest.mark.parametrize("clean_shutdown", [True, False])
def test_truncated_log_is_the_same_after_it_is_opened_again(*, clean_shutdown: bool) -> None:
    for end_offset in range(0, 80, 2):
        files = MemoryFiles()
        log = filled_log(40, files=files)
        log.flush()
        log.truncate_to(end_offset)
        if clean_shutdown:
            log.close()
        again = Log.open(
            files,
            DIRECTORY,
            SMALL,
            now_ms=0,
            clean_shutdown=clean_shutdown,
            recovery_point=log.recovery_point,
        )
        assert again.damage_errors == ()
        assert_prefix(again, filled_log(40), end_offset)
        assert append(again, b"new", epoch=1) == end_offset


def test_truncation_at_the_first_offset_of_a_segment_ends_the_segment_before_it() -> None:
    whole = filled_log(40)
    for segment, later in pairwise(base_offsets(whole)):
        log = filled_log(40)
        log.truncate_to(later)
        assert base_offsets(log)[-1] == segment
        assert log.segments[-1].size == whole.segments[base_offsets(log).index(segment)].size
        assert append(log, b"value", b"other") == later
        assert base_offsets(log)[-1] == later


def test_truncation_beyond_the_end_changes_nothing() -> None:
    files = FaultyFiles(MemoryFiles())
    log = filled_log(3, files=files)
    steps = files.steps
    for end_offset in (6, 7, 100):
        log.prepare_truncation(end_offset)
        log.truncate_to(end_offset)
    assert (files.steps, log.truncation_count, log.end_offset) == (steps, 0, 6)
    empty = open_log(MemoryFiles())
    empty.prepare_truncation(0)
    empty.truncate_to(0)
    assert empty.end_offset == 0


def test_truncation_ends_at_the_start_of_the_log() -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    log.delete_before(33)
    log.truncate_to(10)
    assert (log.start_offset, log.end_offset, values_of(log)) == (33, 33, [])
    assert append(log, b"new") == 33
    assert [(record.offset, record.value) for record in records_of(log)] == [(33, b"new")]
    again = Log.open(files, DIRECTORY, SMALL, now_ms=0, start_offset=33)
    assert (again.start_offset, again.end_offset, values_of(again)) == (33, 34, [b"new"])


def test_removed_offsets_cannot_be_read() -> None:
    log = filled_log(40)
    log.truncate_to(30)
    assert log.read(30, max_bytes=1000, limit_offset=30, at_least_one=True) == b""
    for offset in (31, 60, 80):
        with pytest.raises(OffsetOutOfRangeError):
            log.read(offset, max_bytes=1000, limit_offset=100, at_least_one=True)


# --- indexes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("end_offset", range(0, 60, 2))
def test_truncated_indexes_are_those_of_a_shorter_log(end_offset: int) -> None:
    """Timestamps fall after offset 30, so that the largest ones are removed, or others are."""
    config = SMALL._replace(segment_bytes=2500)

    def fill(files: MemoryFiles, count: int) -> Log:
        log = open_log(files, config)
        for number in range(count):
            append(log, b"v%02d" % number, b"other", timestamp=5000 - abs(number - 15) * 100)
        return log

    files, expected_files = MemoryFiles(), MemoryFiles()
    log, expected = fill(files, 30), fill(expected_files, end_offset // 2)
    log.flush()
    log.truncate_to(end_offset)
    for timestamp in range(3000, 5200, 50):
        assert offset_for_timestamp(log, timestamp) == offset_for_timestamp(expected, timestamp)
    assert offset_of_max_timestamp(log) == offset_of_max_timestamp(expected)
    for each in (log, expected):
        append(each, b"next", timestamp=4000)
        each.close()
    for name in (name for name in files.list(DIRECTORY) if name.endswith("index")):
        path = f"{DIRECTORY}/{name}"
        assert files.read(path) == expected_files.read(path)


def test_only_the_end_of_a_segment_is_read_to_truncate_it(monkeypatch: pytest.MonkeyPatch) -> None:
    files = MemoryFiles()
    log = filled_log(2000, SMALL._replace(segment_bytes=1 << 20), files=files)
    log.close()
    again = open_log(files, SMALL._replace(segment_bytes=1 << 20), clean_shutdown=True)
    size = again.segments[0].size
    read: list[int] = []
    pread = InMemoryFile.pread

    def counting_pread(file: InMemoryFile, size: int, position: int) -> bytes:
        data = pread(file, size, position)
        read.append(len(data))
        return data

    monkeypatch.setattr(InMemoryFile, "pread", counting_pread)
    again.segments[0].truncate_to(3000)
    assert 0 < sum(read) < size / 4


# --- producers and transactions ----------------------------------------------------------------


def produce(log: Log, sequence: int, *, producer_id: int = 7, epoch: int = 0) -> BatchView:
    """Append a record of an idempotent producer whose sequence is also its number."""
    view = batch(b"%d" % sequence, producer=BatchProducer(producer_id, 0, sequence))
    log.append([view], leader_epoch=epoch, now_ms=0)
    return view


def refusal(check: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        check()
    return refused.value.code


def test_sequences_continue_where_the_truncated_log_ends() -> None:
    for end_offset in range(1, 30):
        log = open_log(MemoryFiles(), SMALL._replace(segment_bytes=500))
        for sequence in range(30):
            produce(log, sequence)
        log.truncate_to(end_offset)
        entry = log.producers.get(7)
        assert entry is not None
        assert entry.last_sequence == end_offset - 1

        def check(sequence: int, log: Log = log) -> object:
            return log.producers.check(batch(b"v", producer=BatchProducer(7, 0, sequence)))

        duplicate = check(end_offset - 1)
        assert duplicate is not None
        assert duplicate.first_offset == end_offset - 1  # type: ignore[attr-defined]
        gap = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert refusal(lambda: check(end_offset + 1)) is gap  # noqa: B023
        # The removed batch is no duplicate: the new leader never had it.
        assert check(end_offset) is None
        produce(log, end_offset, epoch=1)
        assert log.end_offset == end_offset + 1


def test_a_producer_whose_batches_were_all_removed_is_unknown() -> None:
    log = open_log(MemoryFiles())
    produce(log, 0)
    produce(log, 0, producer_id=8)
    log.truncate_to(1)
    assert log.producers.get(8) is None
    assert log.producers.check(batch(b"v", producer=BatchProducer(8, 0, 40))) is None


def test_snapshots_of_removed_offsets_are_removed() -> None:
    files = MemoryFiles()
    log = open_log(files, SMALL._replace(segment_bytes=500))
    for sequence in range(40):
        produce(log, sequence)
    bases = base_offsets(log)
    assert snapshot_offsets(files, DIRECTORY) == bases[1:]
    log.truncate_to(bases[3] + 1)
    assert snapshot_offsets(files, DIRECTORY) == bases[1:4]
    log.truncate_to(bases[2])
    assert snapshot_offsets(files, DIRECTORY) == bases[1:3]
    log.close()
    again = open_log(files, SMALL, clean_shutdown=True)
    entry = again.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == bases[2] - 1


def end_transaction(log: Log, producer_id: int, kind: ControlKind) -> None:
    marker = build_control_batch(
        ControlMarker(kind, 0), producer_id=producer_id, producer_epoch=0, now_ms=0
    )
    log.append([BatchView(marker)], leader_epoch=0, now_ms=0)


def log_with_transactions(files: Files) -> Log:
    """Return a log with an aborted transaction of a record, a marker and a record every 3 offsets.

    Transaction n of producer n is in the offsets 3n and 3n + 1.
    """
    log = open_log(files, SMALL._replace(segment_bytes=600))
    for producer_id in range(12):
        view = batch(
            b"aborted", attributes=TRANSACTIONAL, producer=BatchProducer(producer_id, 0, 0)
        )
        log.append([view], leader_epoch=0, now_ms=0)
        end_transaction(log, producer_id, ControlKind.ABORT)
        append(log, b"value")
    return log


def aborted_offsets(log: Log) -> list[tuple[int, int]]:
    aborted = log.aborted_transactions(log.start_offset, 1000)
    return [(transaction.first_offset, transaction.last_offset) for transaction in aborted]


@pytest.mark.parametrize("reopens", ["no", "cleanly", "after a crash", "after a power loss"])
@pytest.mark.parametrize("end_offset", [3, 11, 12, 13, 14, 20, 35])
def test_aborted_transactions_with_markers_in_the_log_remain(end_offset: int, reopens: str) -> None:
    files = MemoryFiles()
    log = log_with_transactions(files)
    log.flush()
    log.truncate_to(end_offset)
    expected = [(first, first + 1) for first in range(0, end_offset - 1, 3)]
    assert aborted_offsets(log) == expected
    is_open = end_offset % 3 == 1
    assert log.producers.first_unstable_offset == (end_offset - 1 if is_open else None)
    for number in range(20):
        append(log, b"new %d" % number, epoch=1)
    if reopens != "no":
        if reopens == "cleanly":
            log.close()
        else:
            log.flush()
        disk = files.after_power_loss(lambda _: 0) if reopens.endswith("loss") else files
        log = Log.open(
            disk,
            DIRECTORY,
            log.config,
            now_ms=0,
            clean_shutdown=reopens == "cleanly",
            recovery_point=log.recovery_point,
        )
    assert aborted_offsets(log) == expected
    assert log.end_offset == end_offset + 20


def test_a_transaction_whose_marker_was_removed_can_be_ended_again() -> None:
    log = log_with_transactions(MemoryFiles())
    log.truncate_to(13)
    end_transaction(log, 4, ControlKind.COMMIT)
    assert log.producers.first_unstable_offset is None
    assert aborted_offsets(log)[-1] == (9, 10)


# --- epochs, checkpoints and marks -------------------------------------------------------------


def test_epochs_that_begin_at_removed_offsets_are_removed() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for epoch in (0, 0, 2, 2, 5):
        append(log, b"a", epoch=epoch)
    log.flush()
    log.truncate_to(3)
    assert log.epochs.entries == [(0, 0), (2, 2)]
    assert [log.leader_epoch_at(offset) for offset in (0, 2, 3, 9)] == [0, 2, -1, -1]
    assert open_log(files).epochs.entries == [(0, 0), (2, 2)]
    append(log, b"b", epoch=6)
    assert log.epochs.entries == [(0, 0), (2, 2), (6, 3)]
    # The checkpoint still has epoch 5, but the batch contains its epoch.
    assert open_log(files).epochs.entries == [(0, 0), (2, 2), (6, 3)]
    assert open_log(files).leader_epoch_at(3) == 6


def test_recovery_begins_with_the_last_remaining_segment() -> None:
    log = filled_log(40, SMALL._replace(segment_bytes=500))
    log.flush()
    bases = base_offsets(log)
    log.first_dirty_offset = 80
    for end_offset in (bases[4] + 4, bases[4], bases[3] + 2):
        expected = max(base for base in bases if base < end_offset)
        log.prepare_truncation(end_offset)
        assert (log.recovery_point, log.first_dirty_offset) == (expected, end_offset)
        log.truncate_to(end_offset)
        assert log.recovery_point == expected
    log.flush()
    assert log.recovery_point == log.end_offset
    later_end_offset = log.end_offset - 2
    append(log, b"unflushed")
    log.truncate_to(later_end_offset)
    assert log.recovery_point < later_end_offset


def test_removed_records_do_not_come_back_after_a_loss_of_power() -> None:
    for config in (SMALL, COMPACT):
        for end_offset in range(0, 80, 6):
            files = MemoryFiles()
            log = filled_log(40, config, files)
            log.flush()
            log.truncate_to(end_offset)
            append(log, b"unflushed", epoch=1)
            after = files.after_power_loss(lambda _: 0, restores_removed=True)
            again = Log.open(after, DIRECTORY, config, now_ms=0, recovery_point=log.recovery_point)
            assert_prefix(again, filled_log(40), end_offset)


def unflushed_marks(files: MemoryFiles) -> list[int]:
    return segment_files(files, ".unflushed")


def test_marks_of_removed_segments_are_removed() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    log.logs_to_flush = set()
    for number in range(40):
        append(log, b"value %d" % number)
    bases = base_offsets(log)
    assert unflushed_marks(files) == bases[1:]
    log.truncate_to(bases[2] + 1)
    assert unflushed_marks(files) == bases[1:3]
    log.truncate_to(bases[2])
    assert unflushed_marks(files) == bases[1:2]
    assert log.has_unflushed_segments
    log.flush()
    assert unflushed_marks(files) == []
    assert not log.has_unflushed_segments


# --- flushes and compactions in progress -------------------------------------------------------


def test_flush_that_began_before_a_truncation_proves_nothing() -> None:
    files = MemoryFiles()
    log = filled_log(10, SMALL._replace(segment_bytes=100_000), files)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate_to(10)
    sync(files, flush)
    append(log, b"new", epoch=1)
    log.end_flush(flush, None)
    assert log.recovery_point == 0
    append(log, b"goes on", epoch=1)
    log.flush()
    assert log.recovery_point == log.end_offset == 12


def test_missing_files_are_no_failure_of_a_flush_after_a_truncation() -> None:
    files = MemoryFiles()
    log = log_with_transactions(files)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate_to(4)
    with pytest.raises(FileNotFoundError) as missing:
        sync(files, flush)
    log.end_flush(flush, missing.value)
    assert not log.has_disk_failure
    assert append(log, b"new") == 4


@pytest.mark.parametrize("change", ["truncation", "removal"])
def test_failed_sync_is_a_failure_although_the_log_has_changed(change: str) -> None:
    """The system may have dropped bytes of the remaining records."""
    log = filled_log(40)
    flush = log.begin_flush()
    assert flush is not None
    if change == "truncation":
        log.truncate_to(30)
    else:
        log.delete_before(30)
    log.end_flush(flush, OSError(errno.EIO, "input/output error"))
    with pytest.raises(OSError, match="an earlier write to this log failed"):
        append(log, b"refused")


def compacted_log(files: Files | None = None) -> Log:
    """Return a log of a key that is in all records, and one key for each record."""
    log = open_log(files or MemoryFiles(), COMPACT)
    for number in range(30):
        keys = (b"key %d" % number, b"often")
        log.append([batch(b"%d" % number, b"%d" % number, keys=keys)], leader_epoch=0, now_ms=0)
    return log


def latest_values(log: Log) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records_of(log)}


@pytest.mark.parametrize("after_steps", [0, 1, 5, 25, 28, 30, 40, 50])
@pytest.mark.parametrize("end_offset", [2, 20, 44])
def test_compaction_ends_when_the_log_is_truncated(after_steps: int, end_offset: int) -> None:
    """A removed record may have been the latest of its key, so earlier ones must remain."""
    files = MemoryFiles()
    log = compacted_log(files)
    plan = plan_log_compaction(log, last_stable_offset=60, now_ms=0)
    assert plan is not None
    untouched = log
    for number, job in enumerate(clean(log, plan, now_ms=0)):
        if job is not None:
            job()
        if number == after_steps:
            untouched = open_log(files.after_power_loss(lambda size: size), COMPACT)
            for each in (log, untouched):
                each.truncate_to(end_offset)
                # New records begin elsewhere than the removed ones.
                append(each, b"x" * 111, epoch=1)
    assert untouched is not log
    assert log.first_dirty_offset <= end_offset
    assert records_of(log) == records_of(untouched)
    assert not log.health.failures
    assert latest_values(open_log(files, COMPACT)) == latest_values(log)


def test_plan_from_before_a_truncation_is_not_carried_out() -> None:
    log = compacted_log()
    plan = plan_log_compaction(log, last_stable_offset=60, now_ms=0)
    assert plan is not None
    log.truncate_to(44)
    before = records_of(log)
    run_steps(clean(log, plan, now_ms=0))
    assert records_of(log) == before
    assert log.first_dirty_offset == 0
    plan = plan_log_compaction(log, last_stable_offset=44, now_ms=0)
    assert plan is not None
    run_steps(clean(log, plan, now_ms=0))
    assert latest_values(log) == {
        **{b"key %d" % number: b"%d" % number for number in range(22)},
        b"often": b"21",
    }


def test_records_after_a_truncation_are_dirty() -> None:
    log = compacted_log()
    plan = plan_log_compaction(log, last_stable_offset=60, now_ms=0)
    assert plan is not None
    run_steps(clean(log, plan, now_ms=0))
    assert log.first_dirty_offset > 20
    log.truncate_to(20)
    assert log.first_dirty_offset == 20


# --- a failing disk ----------------------------------------------------------------------------


def faulty_log(fail_after: int | None = None) -> tuple[Log, FaultyFiles]:
    """Return a flushed log whose disk refuses all steps from the given one on."""
    files = FaultyFiles(MemoryFiles(), crash=False)
    log = open_log(files, COMPACT)
    log.logs_to_flush = set()
    for number in range(40):
        append(log, b"value %d" % number)
    log.flush()
    for number in range(40, 60):
        append(log, b"value %d" % number)
    if fail_after is not None:
        files.fail_from(files.steps + fail_after, failing_steps=1000)
    return log, files


def steps_of_truncation() -> int:
    log, files = faulty_log()
    steps = files.steps
    log.truncate_to(21)
    return files.steps - steps


@pytest.mark.parametrize("fail_after", range(steps_of_truncation()))
def test_refused_truncation_hides_the_records_and_refuses_others(fail_after: int) -> None:
    log, files = faulty_log(fail_after)
    expected = values_of(log)[:21]
    with pytest.raises(OSError, match=NO_SPACE):
        log.truncate_to(21)
    assert (log.end_offset, values_of(log)) == (21, expected)
    (failure,) = log.health.failures
    assert failure.problem is DiskProblem.REFUSED
    files.fail_from(None)
    for use in (lambda: append(log, b"refused"), log.flush, log.close):
        with pytest.raises(OSError, match="an earlier write to this log failed"):
            use()
    log.roll(0)
    assert log.end_offset == 21
    again = Log.open(files, DIRECTORY, COMPACT, now_ms=0, recovery_point=log.recovery_point)
    assert 21 <= again.end_offset <= 60
    assert values_of(again)[:21] == expected
    again.truncate_to(21)
    assert append(again, b"new", epoch=1) == 21


def test_log_that_failed_before_is_truncated_in_memory_only() -> None:
    log, files = faulty_log()
    expected = values_of(log)
    log.fail(OSError(errno.EIO, "the checkpoint was not written"))
    steps = files.steps
    with pytest.raises(OSError, match="an earlier write to this log failed"):
        log.truncate_to(21)
    assert (files.steps, values_of(log)) == (steps, expected[:21])
    assert values_of(open_log(files.disk, COMPACT)) == expected


def test_damaged_log_is_truncated_in_memory_only() -> None:
    files = MemoryFiles()
    log = filled_log(40, files=files)
    segment = log.segments[2]
    data = bytearray(files.read(segment.path(".log")))
    data[8] = 0x7F
    files.write(segment.path(".log"), bytes(data))
    recovery_point = segment.base_offset + 2
    again = Log.open(files, DIRECTORY, SMALL, now_ms=0, recovery_point=recovery_point)
    assert "is damaged" in str(again.damage_errors[0])
    before = {name: files.read(name) for name in files.paths}
    end_offset = again.segments[1].base_offset
    with pytest.raises(OSError, match="an earlier write to this log failed"):
        again.truncate_to(end_offset)
    assert again.end_offset == end_offset
    assert {name: files.read(name) for name in files.paths} == before
    again.close()


def test_unfinished_compaction_prevents_the_truncation_of_the_files() -> None:
    """The next start completes the compaction, which brings removed records back."""
    files = MemoryFiles()
    log = compacted_log(files)
    files.open(f"{DIRECTORY}/{0:020d}.log.swap", create=True)
    with pytest.raises(OSError, match="a failed compaction prevents the truncation"):
        log.truncate_to(20)
    assert (log.end_offset, len(base_offsets(log)) > 1) == (20, True)
    assert log.has_disk_failure


def test_unreadable_segment_is_not_truncated() -> None:
    files = MemoryFiles()
    log = filled_log(3, SMALL._replace(index_interval_bytes=100_000), files)

    def refuse(size: int, position: int) -> bytes:
        raise OSError(errno.EIO, "input/output error", (size, position))

    readable = log.segments[0]._log
    log.segments[0]._recent_positions.clear()
    log.segments[0]._log = type("Unreadable", (), {"pread": staticmethod(refuse)})()
    with pytest.raises(OSError, match="input/output"):
        log.truncate_to(2)
    log.segments[0]._log = readable
    assert len(values_of(log)) == log.end_offset == 6
    assert log.has_disk_failure
