"""A followed capture whose command is killed twice has the results of one audit of the capture."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pyarrow import parquet

from kafkalite.lab.spark.audits import TABLES
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.endurance, pytest.mark.timeout(1_500)]


def command(folder: Path, out: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "kafkalite", "audit", str(folder / "in"),
            "--out", str(folder / out), *options]  # fmt: skip


def follow_until(folder: Path, step: str, number: signal.Signals) -> int:
    """Follow until a step is printed, then send a signal; returns the status."""
    arguments = command(folder, "out", "--follow", "--period", "1d")
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.startswith(step):
                running.send_signal(number)
                break
        running.stderr.read()
    return running.returncode


def audit_tables(folder: Path) -> dict[str, list[str]]:
    return {
        table.name: sorted(map(str, parquet.read_table(table).to_pylist()))
        for table in folder.glob("audits/*")
    }


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_killed_stream_continues_without_loss_or_duplicates(tmp_path: Path) -> None:
    write(tmp_path / "in", 600_000, connections=3, file_bytes=200_000)
    kills = ("batch 0", "auditing the period")
    assert [follow_until(tmp_path, step, signal.SIGKILL) for step in kills] == [-9, -9]
    assert follow_until(tmp_path, "report: ", signal.SIGTERM) == 0
    subprocess.run(command(tmp_path, "whole"), check=True, capture_output=True)
    period = min((tmp_path / "out/follow/periods").iterdir())  # the next one has no requests
    expected = audit_tables(tmp_path / "whole")
    assert expected.keys() == TABLES.keys()
    assert audit_tables(period) == expected
