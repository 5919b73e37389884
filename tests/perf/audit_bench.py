"""Measures how many requests the audits process per second, from Parquet to their tables.

    python -m tests.perf.audit_bench [--check] [--events 4000000] [--cores 2] [--audits fencing]

An event is a request with its response: two frames of a capture. The fencing audit reads heartbeats
and commits of many groups; for other audits, produce and fetch requests are added.

The first round warms up Java. The second round audits a quarter of the requests, the third round
all of them. The difference is the cost of further requests. The remainder is the fixed cost of
planning and compiling. The CPU time includes Java and the Python workers. With --check the exit
status is 1 if the rate of further requests is below the minimum.
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

    from kafkalite.traffic.spark.requests import Requests

MIN_PER_SECOND = 600_000
FENCING = "fencing"
_SMALL_DIVISOR = 4
_BYTES_PER_EVENT = 220
"""The approximate size in bytes of a request and its response in a capture."""


class Measurement(NamedTuple):
    """The result of one round."""

    events: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Requests audited per second."""
        return self.events / self.seconds

    def minus(self, smaller: Measurement) -> Measurement:
        """Return the cost of the requests that a smaller round does not have."""
        return Measurement(
            self.events - smaller.events,
            self.seconds - smaller.seconds,
            self.cpu_seconds - smaller.cpu_seconds,
        )

    def __str__(self) -> str:
        """Return the result as one line."""
        us_per_request = self.cpu_seconds / self.events * 1e6
        return (
            f"{self.events:,} requests in {self.seconds:.2f} s: {self.per_second:,.0f} requests/s,"
            f" {2 * self.per_second:,.0f} frames/s; {self.cpu_seconds:.1f} s of CPU time:"
            f" {us_per_request:.2f} us per request,"
            f" {2e6 / us_per_request:,.0f} requests/s on two cores"
        )


def measure(spark: SparkSession, folder: Path, audits: Sequence[str], events: int) -> Measurement:
    """Run these audits on all requests in a directory, and write their states and tables."""
    from kafkalite.traffic.spark.audits import AUDITS, STATES, AuditOptions  # noqa: PLC0415 - heavy
    from kafkalite.traffic.spark.locations import location  # noqa: PLC0415 - heavy
    from kafkalite.traffic.spark.requests import Requests  # noqa: PLC0415 - heavy

    def write_and_read(frame: DataFrame, path_in_folder: str) -> DataFrame:
        url = str(folder / path_in_folder)
        frame.write.mode("overwrite").parquet(url)
        return spark.read.schema(frame.schema).parquet(url)

    def derive(every: Requests, name: str) -> DataFrame:
        return write_and_read(STATES[name](every, AuditOptions()), f"state/{name}")

    cpu_before, started = _cpu_seconds_of_tree(os.getpid()), time.perf_counter()
    requests = Requests.read(spark, location(str(folder)), derive)
    for audit in audits:
        before = time.perf_counter()
        for name, frame in AUDITS[audit].compute(requests, AuditOptions()).items():
            write_and_read(frame, f"audits/{name}")
        sys.stdout.write(f"  {audit}: {time.perf_counter() - before:.1f} s\n")
    measurement = Measurement(
        events, time.perf_counter() - started, _cpu_seconds_of_tree(os.getpid()) - cpu_before
    )
    if FENCING in audits:
        commits = events // (2 if len(audits) == 1 else len(audit_traffic.ALL_APIS))
        _check(spark.read.parquet(str(folder / "audits/fencing_totals")), commits)
    return measurement


def _check(totals: DataFrame, commits: int) -> None:
    rows = {row["rule"]: row for row in totals.where("fenced_by = 'epoch'").collect()}
    assert rows["strict"]["commits"] == commits
    assert 0.002 < rows["strict"]["commits_failed"] / commits < 0.004, rows
    assert rows["assignment-epoch"]["commits_failed"] == 0, rows


def _cpu_seconds_of_tree(pid: int) -> float:
    """Return the CPU time of a process and all its descendants."""
    processes = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        # A process may end meanwhile; its time is then counted for its parent.
        with contextlib.suppress(OSError):
            number, _, fields_text = path.read_text().partition(" (")
            fields = fields_text.rpartition(") ")[2].split()
            processes[int(number)] = (int(fields[1]), sum(map(int, fields[11:15])) / 100)

    def cpu_seconds_with_descendants(parent: int) -> float:
        return processes[parent][1] + sum(
            cpu_seconds_with_descendants(child)
            for child, (ppid, _) in processes.items()
            if ppid == parent
        )

    return cpu_seconds_with_descendants(pid)


def main() -> None:
    """Measure and print; with `--check`, exit with 1 if the rate is below the minimum."""
    from kafkalite.traffic.spark.session import start  # noqa: PLC0415 - heavy
    from kafkalite.traffic.spark.tuning import settings_for_size  # noqa: PLC0415 - heavy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--events", type=int, default=4_000_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--audits", default=FENCING, help="names, or `all`")
    options = parser.parse_args()
    audits = _ALL_AUDITS if options.audits == "all" else tuple(options.audits.split(","))
    apis = audit_traffic.GROUP_APIS if audits == (FENCING,) else audit_traffic.ALL_APIS
    spark = start(f"local[{options.cores}]", {"spark.driver.memory": "4g"})
    with tempfile.TemporaryDirectory() as scratch:
        rounds: list[Measurement] = []
        for events in (options.events, options.events // _SMALL_DIVISOR, options.events):
            folder = Path(scratch) / str(len(rounds))
            audit_traffic.write(folder, apis, events)
            # The same settings for both sizes, so that both have the same query plan.
            with settings_for_size(spark, options.events * _BYTES_PER_EVENT):
                rounds.append(measure(spark, folder, audits, events))
            sys.stdout.write(f"{rounds[-1]}\n")
            sys.stdout.flush()
    spark.stop()
    _, small, large = rounds
    further = large.minus(small)
    fixed_s = small.seconds - small.events / further.per_second
    sys.stdout.write(f"further requests: {further}\nfixed cost, Java warm: {fixed_s:.1f} s\n")
    if options.check and further.per_second < MIN_PER_SECOND:
        sys.exit(f"below {MIN_PER_SECOND:,}/s")


_ALL_AUDITS = ("fencing", "members", "offsets", "metadata", "producers", "health")

if __name__ == "__main__":
    main()
