"""What compaction would do, and when it is worth doing."""

from __future__ import annotations

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.compaction import CompactionPlan, plan_compaction
from kafkalite.storage.retention import SegmentFacts

COMPACT = LogConfig(cleanup_policy=frozenset({"compact"}))
SEGMENTS = [SegmentFacts(10 * n, 10 * n + 10, 100, 1000 * n) for n in range(4)]


def plan(
    config: LogConfig = COMPACT,
    segments: list[SegmentFacts] = SEGMENTS,
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


def test_all_but_the_active_segment_can_be_cleaned() -> None:
    assert plan() == CompactionPlan(0, 30, 1.0, is_due=True)


@pytest.mark.parametrize(("dirty", "ratio", "is_due"), [(10, 2 / 3, True), (20, 1 / 3, False)])
def test_it_is_due_when_dirty_enough(dirty: int, ratio: float, is_due: bool) -> None:  # noqa: FBT001
    assert plan(dirty=dirty) == CompactionPlan(dirty, 30, ratio, is_due=is_due)


def test_it_is_due_when_anything_waited_too_long() -> None:
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
def test_nothing_can_be_cleaned(config: LogConfig, segments: list[SegmentFacts]) -> None:
    assert plan(config, segments) is None


def test_what_is_young_stays() -> None:
    assert plan(COMPACT._replace(min_compaction_lag_ms=1500)) == CompactionPlan(
        0, 20, 1.0, is_due=True
    )


def test_nothing_beyond_the_last_stable_offset_is_touched() -> None:
    assert plan(stable=25) == CompactionPlan(0, 20, 1.0, is_due=True)
    assert plan(stable=5) is None


def test_what_was_cleaned_is_not_dirty() -> None:
    assert plan(dirty=30) is None


def test_a_checkpoint_that_does_not_fit_begins_at_the_start() -> None:
    assert plan(dirty=5, start=10) == CompactionPlan(10, 30, 2 / 3, is_due=True)
    assert plan(dirty=99) == CompactionPlan(0, 30, 1.0, is_due=True)
