"""Uses a made-up audit; `test_new_audit` adds it to a copy."""

from __future__ import annotations

import sys
from pathlib import Path

from pyarrow import parquet

import kafkalite
from kafkalite.cli.main import main
from kafkalite.lab.spark.audits import AUDITS
from kafkalite.lab.spark.table_descriptions import describe_tables


def run(capture: str, out: Path, audits: str) -> list[dict[str, object]]:
    """Return the rows of the audit's table after a run of the command."""
    main(["audit", capture, "--out", str(out), "--audits", audits, "--engine", "local"])
    files = (out / "audits" / "greetings").rglob("*.parquet")
    rows = [row for file in files for row in parquet.read_table(file).to_pylist()]
    return sorted(rows, key=str)


if __name__ == "__main__":
    root, recorded = sys.argv[1:]
    assert kafkalite.__file__.startswith(root)
    assert AUDITS["greeted"].summary == "clients that asked for versions"
    alone = run(recorded, Path(root) / "alone", "greeted")
    assert alone
    assert alone[0].keys() == {"client", "requests"}
    assert run(recorded, Path(root) / "with-another", "health,greeted") == alone
    text = describe_tables([8])
    assert "## audits/greetings\n" in text
    assert "| `requests` | bigint | number of its requests |" in text
    assert (Path(root) / "alone" / "report.html").exists()
