"""The arithmetic of the benchmark of the pipeline."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from tests.perf.pipeline_bench import PAIRED, TYPED, Measurement, target_results
from tests.perf.process_memory import Usage, children


def test_targets_apply_to_two_cores_and_tshark_is_compared_per_core() -> None:
    measurements = [
        Measurement("tshark", 1, 10.0, 500_000, 1),
        Measurement(TYPED, 1, 4.0, 4_000_000, 1),
        Measurement(TYPED, 2, 2.0, 4_000_000, 1),
        Measurement(PAIRED, 2, 2.0, 4_000_000, 1),
    ]
    assert {name: results for name, (results, _) in target_results(measurements).items()} == {
        "frames/s to typed OffsetCommits": 2_000_000,
        "requests/s paired": 1_000_000,
        "second core": 2.0,
        "times tshark": 20.0,
    }


def test_a_line_has_the_rates() -> None:
    line = Measurement("decoder alone", 1, 2.0, 3_000_000, 64_000_000).line()
    assert "32.0 MB/s" in line
    assert "1,500,000 frames/s" in line


def test_a_line_of_spark_has_its_resources() -> None:
    line = Measurement(TYPED, 2, 2.0, 3_000_000, 64_000_000, 3.5, 1_234.0).line()
    assert "16.0 MB/s per core" in line
    assert line.endswith("3.50 s of CPU:    1,714,286 frames/s at best    1,234 MB of memory")


def test_memory_is_the_peak_of_all_samples() -> None:
    usage = Usage()
    usage.add_sample([("java", 500.0), ("python", 100.0), ("python", 150.0)])
    usage.add_sample([("java", 600.0), ("python", 120.0)])
    assert (usage.peak_mb, usage.java_mb, usage.python_mb) == (750.0, 600.0, 150.0)


def test_children_include_all_descendants() -> None:
    inner = "print(flush=True); input()"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        processes = children(os.getpid())
        child.stdin.write(b"\n")
    assert len(processes) >= 2
    assert sum(process.size_mb for process in processes) > 5
