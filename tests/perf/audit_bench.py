"""How many requests a second the audits judge, from Parquet to their tables.

    python -m tests.perf.audit_bench [--check] [--events 4000000] [--cores 2] [--audits fencing]

The fencing audit has heartbeats and commits of many groups; where others are asked for, there is
as much produced and fetched. Rounds after the first find Java warm. The processor time is that of
Java's threads by what they do. With --check the exit status is 1 below the floor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.perf import audit_traffic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kafkalite.spark.requests import Requests

FLOOR_PER_SECOND = 45_000
FENCING = "fencing"
_CAPTURED = 220
"""How many bytes of a capture one request and its answer are, about."""


class Measured(NamedTuple):
    """What was done, and how fast."""

    events: int
    seconds: float
    processor_seconds: float

    @property
    def per_second(self) -> float:
        """Requests audited in a second."""
        return self.events / self.seconds

    def __str__(self) -> str:
        """Say it in a line."""
        of_two = 2 * self.events / self.processor_seconds
        return (
            f"{self.events:,} requests audited in {self.seconds:.2f} s: {self.per_second:,.0f}/s;"
            f" {self.processor_seconds:.1f} s of processors: {of_two:,.0f}/s of two"
        )


def measure(spark: SparkSession, folder: Path, audits: Sequence[str], events: int) -> Measured:
    """Make these audits of all requests in a folder, states and tables written as in any run."""
    from kafkalite.spark.audits import AUDITS, STATES, AuditOptions  # noqa: PLC0415 - heavy
    from kafkalite.spark.places import place  # noqa: PLC0415 - heavy
    from kafkalite.spark.requests import Requests  # noqa: PLC0415 - heavy

    def written(made: DataFrame, where: str) -> DataFrame:
        url = str(folder / where)
        made.write.mode("overwrite").parquet(url)
        return spark.read.schema(made.schema).parquet(url)

    def derive(every: Requests, name: str) -> DataFrame:
        return written(STATES[name](every, AuditOptions()), f"state/{name}")

    gateway = spark.sparkContext._gateway
    assert gateway is not None
    java = gateway.proc.pid
    worked, begun = _processor_seconds(java), time.perf_counter()
    requests = Requests.read(spark, place(str(folder)), derive)
    for audit in audits:
        before = time.perf_counter()
        for name, made in AUDITS[audit].tables(requests, AuditOptions()).items():
            written(made, f"audits/{name}")
        sys.stdout.write(f"  {audit}: {time.perf_counter() - before:.1f} s\n")
    took = Measured(events, time.perf_counter() - begun, _processor_seconds(java) - worked)
    if FENCING in audits:
        commits = events // (2 if len(audits) == 1 else len(audit_traffic.ALL))
        _check(spark.read.parquet(str(folder / "audits/fencing_totals")), commits)
    return took


def _check(totals: DataFrame, commits: int) -> None:
    rows = {row["rule"]: row for row in totals.where("fenced_by = 'epoch'").collect()}
    assert rows["strict"]["commits"] == commits
    assert 0.002 < rows["strict"]["commits_failed"] / commits < 0.004, rows
    assert rows["assignment-epoch"]["commits_failed"] == 0, rows


def _processor_seconds(pid: int) -> float:
    told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / 100


def main() -> None:
    """Measure, print, and with --check judge."""
    from kafkalite.spark.session import start  # noqa: PLC0415 - heavy
    from kafkalite.spark.sizing import sized  # noqa: PLC0415 - heavy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--audits", default=FENCING, help="names, or `all`")
    asked = parser.parse_args()
    audits = _ALL if asked.audits == "all" else tuple(asked.audits.split(","))
    apis = audit_traffic.GROUPS_ALONE if audits == (FENCING,) else audit_traffic.ALL
    spark = start(f"local[{asked.cores}]", {"spark.driver.memory": "4g"})
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        audit_traffic.write(folder, apis, asked.events)
        rounds = []
        with sized(spark, asked.events * _CAPTURED):
            for _ in range(asked.rounds):
                rounds.append(measure(spark, folder, audits, asked.events))
                sys.stdout.write(f"{rounds[-1]}\n")
                sys.stdout.flush()
    spark.stop()
    if asked.check and max(each.per_second for each in rounds) < FLOOR_PER_SECOND:
        sys.exit(f"below {FLOOR_PER_SECOND:,}/s")


_ALL = ("fencing", "members", "offsets", "metadata", "producers", "health")

if __name__ == "__main__":
    main()
