"""Retention: the segments that are deleted."""

from __future__ import annotations

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.retention import (
    SegmentProperties,
    enforce_retention,
    plan_retention,
    segment_properties,
)
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import SMALL, append, batch, filled_log, open_log

# Four segments of ten records and a hundred bytes, the newest record of each a second apart.
SEGMENTS = [SegmentProperties(10 * n, 10 * n + 10, 100, 1000 * n) for n in range(4)]
EMPTY_LAST = [*SEGMENTS[:2], SegmentProperties(20, 20, 0, 0)]
FOREVER = LogConfig(retention_ms=-1)


@pytest.mark.parametrize(
    ("segments", "config", "now_ms", "bounds", "expected"),
    [
        pytest.param(SEGMENTS, FOREVER, 10**12, (0, 40), 0, id="nothing is asked"),
        pytest.param([], LogConfig(retention_ms=0), 10**12, (0, 0), 0, id="nothing is there"),
        pytest.param(SEGMENTS, LogConfig(retention_ms=1500), 2500, (0, 40), 1, id="age"),
        pytest.param(SEGMENTS, LogConfig(retention_ms=1500), 1500, (0, 40), 0, id="just not old"),
        pytest.param(SEGMENTS, LogConfig(retention_ms=0), 10**6, (0, 40), 4, id="all are old"),
        pytest.param(SEGMENTS, LogConfig(retention_ms=0), 10**6, (0, 25), 2, id="not replicated"),
        pytest.param(EMPTY_LAST, LogConfig(retention_ms=0), 10**6, (0, 20), 2, id="last is empty"),
        pytest.param(SEGMENTS, FOREVER._replace(retention_bytes=400), 0, (0, 40), 0, id="fits"),
        pytest.param(SEGMENTS, FOREVER._replace(retention_bytes=301), 0, (0, 40), 0, id="nearly"),
        pytest.param(SEGMENTS, FOREVER._replace(retention_bytes=300), 0, (0, 40), 1, id="too much"),
        pytest.param(SEGMENTS, FOREVER._replace(retention_bytes=0), 0, (0, 40), 4, id="no byte"),
        pytest.param(SEGMENTS, FOREVER, 0, (20, 40), 2, id="before the start"),
        pytest.param(SEGMENTS, FOREVER, 0, (25, 40), 2, id="start within a segment"),
        pytest.param(SEGMENTS, FOREVER, 0, (40, 40), 3, id="start at the end"),
        pytest.param(
            SEGMENTS,
            LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=0, retention_bytes=0),
            10**6, (10, 40), 1,
            id="a compacted log keeps what is old",
        ),
        pytest.param(
            SEGMENTS,
            LogConfig(cleanup_policy=frozenset({"compact", "delete"}), retention_ms=0),
            10**6, (0, 40), 4,
            id="compact and delete",
        ),
        pytest.param(
            SEGMENTS, LogConfig(retention_ms=1500, retention_bytes=250), 3600, (0, 40), 3,
            id="size first and then age",
        ),
    ],
)  # fmt: skip
def test_retention_plan_has_the_old_and_excess_segments(
    segments: list[SegmentProperties],
    config: LogConfig,
    now_ms: int,
    bounds: tuple[int, int],
    expected: int,
) -> None:
    """`bounds` are the log's start offset and its high watermark."""
    start, watermark = bounds
    count = plan_retention(
        segments, config, now_ms=now_ms, start_offset=start, high_watermark=watermark
    )
    assert count == expected


def test_old_segments_are_removed() -> None:
    files = MemoryFiles()
    log = filled_log(40, SMALL._replace(retention_ms=200), files)
    second = log.segments[1]
    newest = log.segments[0].max_timestamp
    removed = enforce_retention(log, now_ms=newest + 201, high_watermark=80)
    assert removed == 1
    assert log.start_offset == second.base_offset
    assert open_log(files).start_offset == second.base_offset
    assert [s.base_offset for s in log.segments] == [f.base_offset for f in segment_properties(log)]


def test_when_all_segments_are_old_an_empty_one_is_begun() -> None:
    files = MemoryFiles()
    log = filled_log(40, SMALL._replace(retention_ms=200), files)
    enforce_retention(log, now_ms=10**9, high_watermark=80)
    assert (log.start_offset, log.end_offset, log.size_bytes) == (80, 80, 0)
    again = open_log(files)
    assert (again.start_offset, again.end_offset) == (80, 80)
    assert enforce_retention(again, now_ms=10**9, high_watermark=80) == 0
    assert append(again, b"new") == 80


def test_records_without_timestamps_age_with_their_file() -> None:
    files = MemoryFiles()
    files.now_ms = 5000
    log = open_log(files, SMALL._replace(retention_ms=200))
    log.append([batch(b"v", timestamp=-1)], leader_epoch=0, now_ms=5000)
    assert enforce_retention(log, now_ms=5200, high_watermark=1) == 0
    assert enforce_retention(log, now_ms=5201, high_watermark=1) == 1
