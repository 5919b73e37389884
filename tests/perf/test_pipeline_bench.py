"""The arithmetic of the pipeline's benchmark."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from tests.perf.pipeline_bench import Measured, verdicts

TYPED, PAIRED = "Spark to typed OffsetCommits", "Spark to pairs of all APIs"


def test_targets_are_of_two_cores_and_tshark_is_met_core_by_core() -> None:
    found = [
        Measured("tshark", 1, 10.0, 500_000, 1),
        Measured(TYPED, 1, 4.0, 4_000_000, 1),
        Measured(TYPED, 2, 2.0, 4_000_000, 1),
        Measured(PAIRED, 2, 2.0, 4_000_000, 1),
    ]
    assert {name: reached for name, (reached, _) in verdicts(found).items()} == {
        "frames/s to typed OffsetCommits": 2_000_000,
        "requests/s paired": 1_000_000,
        "second core": 2.0,
        "times tshark": 20.0,
    }


def test_a_line_has_the_figures_a_second() -> None:
    line = Measured("decoder alone", 1, 2.0, 3_000_000, 64_000_000).line()
    assert "32.0 MB/s" in line
    assert "1,500,000 frames/s" in line
