"""Conditions for a new segment."""

from __future__ import annotations

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.storage.log import is_overdue, must_roll
from kafkalite.testing.files import MemoryFiles
from tests.unit.storage.logs import append, filled_log, open_log

CONFIG = LogConfig(segment_bytes=1000, segment_ms=100)


@pytest.mark.parametrize(
    ("size", "last_offset", "max_timestamp", "expected"),
    [
        (500, 10, 1100, False),
        (5000, 10, 1100, True),
        (500, 2**31 - 1, 1100, False),
        (500, 2**31, 1100, True),
        (500, 10, 1101, True),
        (500, 10, 900, False),
    ],
)
def test_a_segment_is_full(
    size: int,
    last_offset: int,
    max_timestamp: int,
    expected: bool,  # noqa: FBT001
) -> None:
    log = open_log(MemoryFiles(), CONFIG)
    append(log, b"v", timestamp=1000)
    active = log.segments[-1]
    assert must_roll(active, CONFIG, size, last_offset, max_timestamp, 0) is expected


def test_empty_segment_accepts_any_batch() -> None:
    log = filled_log(1)
    log.roll(0)
    assert not must_roll(log.segments[-1], CONFIG, 5000, 2**40, 2**40, 2**40)


def test_a_compacted_log_rolls_in_time_to_be_compacted() -> None:
    log = open_log(MemoryFiles(), CONFIG)
    append(log, b"v", timestamp=1000)
    compacted = CONFIG._replace(cleanup_policy=frozenset({"compact"}), max_compaction_lag_ms=50)
    assert is_overdue(log.segments[-1], compacted, 1051, 0)
    assert not is_overdue(log.segments[-1], compacted, 1050, 0)
    assert not is_overdue(log.segments[-1], CONFIG._replace(max_compaction_lag_ms=50), 1051, 0)
