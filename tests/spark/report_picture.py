"""Writes docs/images/audit-report.png: the report of all audits over generated traffic.

`python -m tests.spark.report_picture` needs the extra `spark` and Chromium, but no Java.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkalite.lab.spark.dataframes import local_engine
from kafkalite.lab.spark.pipeline import Job, audit
from kafkalite.lab.spark.progress import SilentReporter
from kafkalite.lab.spark.report import FILE
from tests.architecture.source import ROOT
from tests.spark.truth.all_scenarios import run_scenarios
from tests.spark.truth.recorded_exchanges import record

PICTURE = ROOT / "docs" / "images" / "audit-report.png"
_WIDTH, _HEIGHT = 1040, 1495
_PAGE_LOAD_MS = 10_000


def main() -> int:
    """Audit one seed of every scenario, and take a picture of the report's first sections."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        exchanges, _ = run_scenarios(directory / "brokers", [1])
        capture, out = directory / "capture", directory / "out"
        capture.mkdir()
        record(exchanges, capture)
        with local_engine() as session:
            audit(session, Job(inputs=(str(capture),), out=str(out)), SilentReporter())
        return subprocess.run(
            [
                "chromium",
                "--headless=new",
                "--no-sandbox",
                "--hide-scrollbars",
                f"--window-size={_WIDTH},{_HEIGHT}",
                f"--virtual-time-budget={_PAGE_LOAD_MS}",
                f"--screenshot={PICTURE}",
                (out / FILE).as_uri(),
            ],
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
