"""How many requests a second the audits judge, from Parquet to their tables.

    python -m tests.perf.audit_bench [--check] [--events 4000000] [--cores 2] [--audits fencing]

An event is a request with its answer: two frames of a capture. The fencing audit has heartbeats and
commits of many groups; where others are asked for, there is as much produced and fetched.

The first round finds Java cold. Then a quarter of it all is audited, and all of it: what the
two differ in is what each further request costs, and the rest is what is paid once, however much
there is: planning, and compilers. The processor time is that of Java and of Python's workers.
With --check the exit status is 1 below the floor, by what further requests cost.
"""

from __future__ import annotations

import argparse
import contextlib
import os
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

FLOOR_PER_SECOND = 600_000
FENCING = "fencing"
_PART = 4
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

    def beyond(self, less: Measured) -> Measured:
        """Return what the requests cost that there are more of than in another."""
        return Measured(
            self.events - less.events,
            self.seconds - less.seconds,
            self.processor_seconds - less.processor_seconds,
        )

    def __str__(self) -> str:
        """Say it in a line."""
        each_us = self.processor_seconds / self.events * 1e6
        return (
            f"{self.events:,} requests in {self.seconds:.2f} s: {self.per_second:,.0f} requests/s,"
            f" {2 * self.per_second:,.0f} frames/s; {self.processor_seconds:.1f} s of processors:"
            f" {each_us:.2f} us a request, {2e6 / each_us:,.0f} requests/s of two"
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

    worked, begun = _processor_seconds(os.getpid()), time.perf_counter()
    requests = Requests.read(spark, place(str(folder)), derive)
    for audit in audits:
        before = time.perf_counter()
        for name, made in AUDITS[audit].tables(requests, AuditOptions()).items():
            written(made, f"audits/{name}")
        sys.stdout.write(f"  {audit}: {time.perf_counter() - before:.1f} s\n")
    took = Measured(events, time.perf_counter() - begun, _processor_seconds(os.getpid()) - worked)
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
    """Return what a process has worked, and all that it started or that these did."""
    told = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        # Some end while they are looked at; their parents have their time then.
        with contextlib.suppress(OSError):
            number, _, rest = each.read_text().partition(" (")
            fields = rest.rpartition(") ")[2].split()
            told[int(number)] = (int(fields[1]), sum(map(int, fields[11:15])) / 100)

    def of(parent: int) -> float:
        return told[parent][1] + sum(of(each) for each, (its, _) in told.items() if its == parent)

    return of(pid)


def main() -> None:
    """Measure, print, and with --check judge."""
    from kafkalite.spark.session import start  # noqa: PLC0415 - heavy
    from kafkalite.spark.sizing import sized  # noqa: PLC0415 - heavy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--audits", default=FENCING, help="names, or `all`")
    asked = parser.parse_args()
    audits = _ALL if asked.audits == "all" else tuple(asked.audits.split(","))
    apis = audit_traffic.GROUPS_ALONE if audits == (FENCING,) else audit_traffic.ALL
    spark = start(f"local[{asked.cores}]", {"spark.driver.memory": "4g"})
    with tempfile.TemporaryDirectory() as scratch:
        rounds: list[Measured] = []
        for each in (asked.events, asked.events // _PART, asked.events):
            folder = Path(scratch) / str(len(rounds))
            audit_traffic.write(folder, apis, each)
            # The settings of the whole for its part, too: else the two would differ in their plans.
            with sized(spark, asked.events * _CAPTURED):
                rounds.append(measure(spark, folder, audits, each))
            sys.stdout.write(f"{rounds[-1]}\n")
            sys.stdout.flush()
    spark.stop()
    _, part, whole = rounds
    further = whole.beyond(part)
    once = part.seconds - part.events / further.per_second
    sys.stdout.write(f"each further: {further}\nonce, with Java warm: {once:.1f} s\n")
    if asked.check and further.per_second < FLOOR_PER_SECOND:
        sys.exit(f"below {FLOOR_PER_SECOND:,}/s")


_ALL = ("fencing", "members", "offsets", "metadata", "producers", "health")

if __name__ == "__main__":
    main()
