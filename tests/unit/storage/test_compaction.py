"""Plans of compactions: the part to clean, and when it is due."""

from __future__ import annotations

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.compaction import CompactionPlan, plan_compaction
from kafkalite.storage.retention import SegmentProperties

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))
SEGMENTS = [SegmentProperties(10 * n, 10 * n + 10, 100, 1000 * n) for n in range(4)]


def plan(
    config: LogConfig = COMPACT,
    segments: list[SegmentProperties] = SEGMENTS,
    *,
    dirty: int = 0,
    start: int = 0,
    stable: int = 40,
    now_ms: int = 3000,
) -> CompactionPlan | None:
    return plan_compaction(
        segments,
        config,
        first_dirty_offset=dirty,
        start_offset=start,
        last_stable_offset=stable,
        now_ms=now_ms,
    )


def test_all_segments_except_the_active_one_can_be_cleaned() -> None:
    assert plan() == CompactionPlan(0, 30, 1.0, is_due=True)


@pytest.mark.parametrize(("dirty", "ratio", "is_due"), [(10, 2 / 3, True), (20, 1 / 3, False)])
def test_compaction_is_due_above_dirty_ratio(dirty: int, ratio: float, is_due: bool) -> None:  # noqa: FBT001
    assert plan(dirty=dirty) == CompactionPlan(dirty, 30, ratio, is_due=is_due)


def test_compaction_is_due_after_max_compaction_lag() -> None:
    waiting = plan(COMPACT._replace(max_compaction_lag_ms=999), dirty=20)
    assert waiting is not None
    assert waiting.is_due


@pytest.mark.parametrize(
    ("config", "segments"),
    [
        pytest.param(LogConfig(), SEGMENTS, id="the topic is not compacted"),
        pytest.param(COMPACT, [], id="nothing is there"),
        pytest.param(COMPACT, SEGMENTS[:1], id="only an active segment"),
        pytest.param(COMPACT._replace(min_compaction_lag_ms=3001), SEGMENTS, id="all is young"),
    ],
)
def test_no_plan_when_nothing_can_be_cleaned(
    config: LogConfig, segments: list[SegmentProperties]
) -> None:
    assert plan(config, segments) is None


def test_records_younger_than_min_compaction_lag_are_not_cleaned() -> None:
    assert plan(COMPACT._replace(min_compaction_lag_ms=1500)) == CompactionPlan(
        0, 20, 1.0, is_due=True
    )


def test_records_after_the_last_stable_offset_are_not_cleaned() -> None:
    assert plan(stable=25) == CompactionPlan(0, 20, 1.0, is_due=True)
    assert plan(stable=5) is None


def test_cleaned_segments_are_not_dirty() -> None:
    assert plan(dirty=30) is None


def test_checkpoint_outside_of_the_log_starts_at_the_log_start() -> None:
    assert plan(dirty=5, start=10) == CompactionPlan(10, 30, 2 / 3, is_due=True)
    assert plan(dirty=99) == CompactionPlan(0, 30, 1.0, is_due=True)
