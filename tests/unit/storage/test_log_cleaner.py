"""Compaction: remaining records, their offsets, and crashes at any step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.background import run_steps
from kafkalite.storage.batch import (
    TRANSACTIONAL,
    BatchProducer,
    BatchView,
    ControlKind,
    ControlMarker,
    build_control_batch,
)
from kafkalite.storage.compaction import (
    AbortedRanges,
    LatestOffsets,
    collect_latest_offsets,
    plan_log_compaction,
)
from kafkalite.storage.crc import crc32c
from kafkalite.storage.log_cleaner import clean
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles
from tests.unit.storage.logs import DIRECTORY, append, batch, open_log, records_of

if TYPE_CHECKING:
    from kafkalite.storage.log import Log

COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=600,
    index_interval_bytes=150,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)


def put(log: Log, *pairs: tuple[bytes, bytes | None], attributes: int = 0) -> None:
    keys, values = zip(*pairs, strict=True)
    view = batch(*values, keys=keys, attributes=attributes)
    log.append([view], leader_epoch=0, now_ms=0)


def compact(log: Log, now_ms: int = 5000) -> None:
    plan = plan_log_compaction(log, last_stable_offset=log.end_offset, now_ms=now_ms)
    assert plan is not None
    run_steps(clean(log, plan, now_ms=now_ms))


def contents(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records_of(log)]


def latest_values(log: Log) -> dict[bytes | None, bytes]:
    """Return the latest values, as a reader of the whole log sees them."""
    result: dict[bytes | None, bytes] = {}
    for record in records_of(log):
        if record.value is None:
            result.pop(record.key, None)
        else:
            result[record.key] = record.value
    return result


def log_with_updates(
    files: MemoryFiles | FaultyFiles | None = None, config: LogConfig = COMPACT
) -> Log:
    """Return a log of sixty records over seven keys, and an empty active segment."""
    log = open_log(files or MemoryFiles(), config)
    for number in range(30):
        first = (b"key %d" % (number % 7), b"value %d" % number)
        put(log, first, (b"often", b"value %d" % number))
    log.roll(0)
    return log


def test_unreadable_batch_stays_unchanged() -> None:
    """It was written when the topic was not compacted, and its records were not checked."""
    log = log_with_updates(config=COMPACT._replace(segment_bytes=10_000))
    garbage = bytearray(batch(b"value", keys=[b"often"]).data)
    garbage[61:] = b"\xff" * (len(garbage) - 61)
    garbage[17:21] = crc32c(bytes(garbage[21:]), 0).to_bytes(4, "big")
    log.append([BatchView(garbage)], leader_epoch=0, now_ms=0)
    put(log, (b"often", b"last"))
    log.roll(0)
    compact(log)
    readable = [view for view in log.batches() if view.data[61:] != garbage[61:]]
    assert (
        sum(view.record_count for view in log.batches())
        == sum(view.record_count for view in readable) + 1
    )
    assert [value for view in readable for key, value in view.key_values() if key == b"often"] == [
        b"last"
    ]


def test_the_last_value_of_every_key_stays_at_its_offset() -> None:
    log = log_with_updates()
    before, expected = contents(log), latest_values(log)
    compact(log)
    after = contents(log)
    assert latest_values(log) == expected
    assert len(after) == 8
    assert set(after) <= set(before)
    assert after == sorted(after)
    assert log.end_offset == 60


def test_a_compacted_log_is_the_same_after_it_is_opened_again() -> None:
    files = MemoryFiles()
    log = log_with_updates(files)
    compact(log)
    for is_clean in (False, True):
        again = open_log(files, COMPACT, clean_shutdown=is_clean)
        assert contents(again) == contents(log)
        assert again.end_offset == 60
        again.close()


def test_segments_join_without_a_gap() -> None:
    files = MemoryFiles()
    log = log_with_updates(files)
    compact(log)
    # With gaps, the tail would be treated as lost in a power failure.
    plain = open_log(files, COMPACT._replace(cleanup_policy=frozenset({"delete"})))
    assert contents(plain) == contents(log)


def test_small_segments_become_one() -> None:
    log = log_with_updates()
    assert len(log.segments) > 5
    compact(log)
    put(log, (b"new", b"value"))
    log.roll(0)
    compact(log)
    assert len(log.segments) <= 3
    assert all(segment.size <= COMPACT.segment_bytes for segment in log.segments)


@pytest.mark.parametrize("codec", range(5))
def test_rewritten_batch_has_the_same_compression(codec: int) -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"), attributes=codec)
    put(log, (b"b", b"2"))
    log.roll(0)
    compact(log)
    assert contents(log) == [(0, b"a", b"1"), (2, b"c", b"1"), (3, b"b", b"2")]
    first = next(log.batches())
    assert first.compression == codec
    assert first.has_valid_crc()
    assert [r.timestamp for r in first.records()] == [1000, 1002]
    assert (first.base_timestamp, first.max_timestamp) == (1000, 1002)


def test_batch_without_removed_records_is_copied_unchanged() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put(log, (b"a", b"1"), (b"b", b"1"), attributes=4)
    before = bytes(next(log.batches()).data)
    put(log, (b"c", b"2"))
    log.roll(0)
    compact(log)
    assert bytes(next(log.batches()).data) == before


def test_tombstone_is_removed_after_delete_retention() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    put(log, (b"gone", b"1"), (b"live", b"1"))
    put(log, (b"gone", None), (b"also", b"1"))
    log.roll(0)
    compact(log, now_ms=5000)
    assert contents(log) == [(1, b"live", b"1"), (2, b"gone", None), (3, b"also", b"1")]
    horizons = [view.delete_horizon_ms for view in log.batches()]
    assert horizons == [None, 6000]
    assert [record.timestamp for record in records_of(log)] == [1001, 1000, 1001]
    for now_ms, expected in ((5999, 3), (6000, 2)):
        put(log, (b"more", b"1"))
        log.roll(0)
        compact(log, now_ms=now_ms)
        assert len([key for _, key, _ in contents(log) if key != b"more"]) == expected
    assert latest_values(log)[b"live"] == b"1"


def test_records_without_a_key_are_removed() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    log.append([batch(b"1", b"2", keys=[None, b"a"])], leader_epoch=0, now_ms=0)
    log.roll(0)
    compact(log)
    assert contents(log) == [(1, b"a", b"2")]


def test_the_active_segment_is_not_touched() -> None:
    log = log_with_updates()
    put(log, (b"often", b"1"), (b"often", b"2"))
    compact(log)
    assert contents(log)[-2:] == [(60, b"often", b"1"), (61, b"often", b"2")]
    assert (59, b"often", b"value 29") in contents(log)


def test_last_batch_of_a_producer_is_preserved() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for number in range(3):
        view = batch(b"%d" % number, producer=BatchProducer(9, 0, number))
        log.append([view], leader_epoch=0, now_ms=0)
    put(log, (b"k", b"newest"))
    log.roll(0)
    compact(log)
    assert contents(log) == [(3, b"k", b"newest")]
    assert [view.base_sequence for view in log.batches()] == [2, -1]
    again = open_log(files, COMPACT)
    entry = again.producers.get(9)
    assert entry is not None
    assert entry.last_sequence == 2


def test_aborted_records_are_removed_before_their_marker() -> None:
    log = open_log(MemoryFiles(), COMPACT)
    for kind, value in ((ControlKind.ABORT, b"aborted"), (ControlKind.COMMIT, b"committed")):
        view = batch(value, keys=[value], attributes=TRANSACTIONAL, producer=BatchProducer(9, 0, 0))
        log.append([view], leader_epoch=0, now_ms=0)
        marker = build_control_batch(
            ControlMarker(kind, 0), producer_id=9, producer_epoch=0, now_ms=0
        )
        log.append([BatchView(marker)], leader_epoch=0, now_ms=0)
    log.roll(0)
    compact(log)
    kinds = [(view.is_control, view.record_count) for view in log.batches()]
    assert kinds == [(True, 1), (False, 1), (True, 1)]
    put(log, (b"committed", b"newer"))
    log.roll(0)
    compact(log, now_ms=5000)
    put(log, (b"other", b"1"))
    log.roll(0)
    compact(log, now_ms=6000)
    data = [view for view in log.batches() if not view.is_control]
    assert [record.value for view in data for record in view.records()] == [b"newer", b"1"]
    markers = [view for view in log.batches() if view.is_control and view.record_count]
    assert [view.base_offset for view in markers] == [3]


def test_the_marker_with_the_last_epoch_of_a_producer_is_emptied_and_stays() -> None:
    files = MemoryFiles()
    log = open_log(files, COMPACT)
    for epoch in (1, 2):
        view = batch(b"v", attributes=TRANSACTIONAL, producer=BatchProducer(9, epoch - 1, 0))
        log.append([view], leader_epoch=0, now_ms=0)
        marker = build_control_batch(
            ControlMarker(ControlKind.ABORT, 0), producer_id=9, producer_epoch=epoch, now_ms=0
        )
        log.append([BatchView(marker)], leader_epoch=0, now_ms=0)
    whole, emptied = [(1, 1), (3, 1)], [(3, 0)]
    for now_ms, live in ((5000, whole), (6000, whole), (7000, emptied), (8000, emptied)):
        put(log, (b"k", b"newest"))
        log.roll(0)
        compact(log, now_ms)
        markers = [view for view in log.batches() if view.is_control]
        assert [(view.base_offset, view.record_count) for view in markers] == live
    entry = open_log(files, COMPACT).producers.get(9)
    assert entry is not None
    assert entry.producer_epoch == 2


def test_keys_are_limited_per_compaction() -> None:
    log = log_with_updates()
    plan = plan_log_compaction(log, last_stable_offset=60, now_ms=0)
    assert plan is not None
    *_, latest = collect_latest_offsets(log, plan, AbortedRanges([]), max_keys=3)
    assert latest.end < plan.end_offset
    assert latest.is_latest(b"anything", latest.end)
    assert isinstance(latest, LatestOffsets)


def test_the_log_can_be_used_between_steps() -> None:
    log = log_with_updates()
    expected = latest_values(log)
    plan = plan_log_compaction(log, last_stable_offset=60, now_ms=0)
    assert plan is not None
    for number, job in enumerate(clean(log, plan, now_ms=0)):
        if job is not None:
            job()
        expected[b"new"] = b"%d" % number
        put(log, (b"new", expected[b"new"]))
        assert latest_values(log) == expected


@pytest.mark.parametrize("after_steps", range(7))
def test_segments_removed_during_compaction_stay_removed(after_steps: int) -> None:
    files = MemoryFiles()
    log = log_with_updates(files)
    plan = plan_log_compaction(log, last_stable_offset=60, now_ms=0)
    assert plan is not None
    for number, job in enumerate(clean(log, plan, now_ms=0)):
        if job is not None:
            job()
        if number == after_steps:
            log.delete_before(31)
    assert log.start_offset == 31
    assert all(offset >= 31 for offset, _, _ in contents(log))
    assert contents(open_log(files, COMPACT)) == [
        row for row in contents(open_log(files, COMPACT)) if row[0] >= log.segments[0].base_offset
    ]
    assert not [path for path in files.paths if path.endswith((".cleaned", ".swap"))]


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_crash_at_any_step_preserves_the_latest_values(part: float) -> None:
    steps = FaultyFiles(MemoryFiles())
    log = log_with_updates(steps)
    before = steps.steps
    expected = latest_values(log)
    compact(log)
    for fail_at in range(before, steps.steps):
        files = FaultyFiles(MemoryFiles(), fail_at=fail_at, part=part)
        with pytest.raises(CrashedError):
            compact(log_with_updates(files))
        again = open_log(files.disk, COMPACT)
        assert latest_values(again) == expected
        offsets = [offset for offset, _, _ in contents(again)]
        assert offsets == sorted(set(offsets))
        assert again.end_offset == 60
        assert append(again, b"new") == 60
        assert not [p for p in files.disk.list(DIRECTORY) if p.endswith((".cleaned", ".swap"))]
