"""The table of everything that users notice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.perf import everyday
from tests.perf.everyday import ROWS, Results, missed_targets, start_rows, table
from tests.perf.start import COMMANDS

if TYPE_CHECKING:
    import pytest


def test_rows_are_ratios_or_values_and_missing_ones_are_named() -> None:
    results = Results()
    for value in (42.0, 40.0):
        results.add("commits", value)
    results.add("commits", 50.0, is_other=True)
    results.add("client", 90.0)
    results.add("idle", 27.5)
    lines = table(results).splitlines()
    commits = "| pipelined OffsetCommits, one core, /s | 42.0 | kfake | 50.0 | 0.84 | ≥ 1.3 |"
    assert commits in lines
    assert "| resident memory when idle, with `--memory`, MB | 27.5 | | | | ≤ 28 |" in lines
    assert "| transactions, one librdkafka producer, /s | not measured | | | | |" in lines
    assert sum("not measured" in line for line in lines) == len(ROWS) - 2
    (missed,) = missed_targets(results)
    assert missed == "pipelined OffsetCommits, one core: 0.84, the target is 1.3"


def test_starts_by_all_commands_have_the_same_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    floors_s = iter([0.1, 0.08])
    monkeypatch.setattr(everyday, "floor_seconds", lambda: next(floors_s))
    monkeypatch.setattr(everyday, "start_seconds", lambda _: 0.12)
    results = Results()
    start_rows(results)
    assert [results.best(f"start {name}") for name in COMMANDS] == [(120.0, 80.0)] * 2
