"""Writes docs/images/audit-report.png: the report of all audits over generated traffic.

`python -m tests.spark.report_picture` needs the extra `test-spark` and Chromium, and takes minutes.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from kafkalite.lab.spark.audits import AUDITS, AuditOptions
from kafkalite.lab.spark.locations import location
from kafkalite.lab.spark.report import FILE, write_report
from kafkalite.lab.spark.session import start
from tests.architecture.source import ROOT
from tests.spark.truth.all_scenarios import run_scenarios
from tests.spark.truth.requests_in_files import interpreted, laid_out

PICTURE = ROOT / "docs" / "images" / "audit-report.png"
_WIDTH, _HEIGHT = 1040, 1495
_PAGE_LOAD_MS = 10_000


def main() -> int:
    """Audit one seed of every scenario, and take a picture of the report's first sections."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        spark = start("local[2]", quick=True)
        exchanges, _ = run_scenarios(directory / "brokers", [1])
        options = AuditOptions()
        out = directory / "out"
        with interpreted(spark):
            requests = laid_out(spark, exchanges, directory / "laid-out", options)
            for audit in AUDITS.values():
                for table, frame in audit.compute(requests, options).items():
                    frame.write.parquet(str(out / "audits" / table))
            write_report(spark, location(str(out)), [*location(str(out)).walk()])
        spark.stop()
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
