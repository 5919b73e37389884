"""The table of everything that users notice."""

from __future__ import annotations

from tests.perf.everyday import ROWS, Results, missed_targets, table


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
    assert "| resident memory when idle, MB | 27.5 | | | | ≤ 28 |" in lines
    assert "| transactions, one librdkafka producer, /s | not measured | | | | |" in lines
    assert sum("not measured" in line for line in lines) == len(ROWS) - 2
    (missed,) = missed_targets(results)
    assert missed == "pipelined OffsetCommits, one core: 0.84, the target is 1.3"
