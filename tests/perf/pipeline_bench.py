"""How fast captures become typed rows: by the decoder alone, by Spark on 1 and 2 cores, by tshark.

`python -m tests.perf.pipeline_bench [--megabytes N] [--check]` makes a capture, has all of them
read it in one run, and prints frames and megabytes a second; with `--check` it fails below the
targets. What Spark does is measured the second time it does it, in one session: a capture worth a
cluster takes minutes at least, and Java has compiled what it runs long before. Audits are not
measured here.

A run on one core has no other: Spark's tasks, their workers and Java's compilers share it. Each
number of cores has a process of its own, since PySpark keeps one Java machine as long as it lives,
and that machine the cores it was started with. Beside
what the clock says stands what processor time comes to, as if no core had ever waited: on a machine
that does other things meanwhile this alone can be compared.

`--memory-megabytes N` has Spark on 2 cores read a capture of that size instead, and a tenth of it,
and prints how much memory its processes use for each; with `--check` it fails where that is more
for the large one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kafkalite.cli.ending import put
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from kafkalite.spark import register
from kafkalite.spark.pipeline import Job, audit
from kafkalite.spark.quiet import quietly
from kafkalite.spark.session import start
from kafkalite.spark.sources.capture import NAME
from kafkalite.spark.stages.typed import typed
from tests.perf.big_capture import write
from tests.perf.process_memory import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tests.perf.big_capture import Made

COMMIT: Final = 8

TYPED_FRAMES_A_SECOND: Final = 2_000_000
PAIRED_A_SECOND: Final = 1_000_000
TIMES_TSHARK: Final = 20
SCALING: Final = 1.6
"""The floors: the first two on two cores, the third a core."""

TYPED: Final = "Spark to typed OffsetCommits"
PAIRED: Final = "Spark to pairs of all APIs"
PARQUET: Final = "pipeline to Parquet of all APIs"

GROWTH: Final = 1.25
"""How much more memory ten times the capture may take: what a heap is left to grow to."""

TSHARK_FILES: Final = 1
TURNS: Final = 2
"""How often each thing is done, of which the last is measured."""

_HEAP: Final = "1g"
_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Measured:
    """One reader's run."""

    name: str
    cores: int
    seconds: float
    frames: int
    size: int
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0

    @property
    def frames_a_second(self) -> float:
        """How many frames it read in a second."""
        return self.frames / self.seconds

    @property
    def at_best(self) -> float:
        """How many frames a second its processor time comes to, on as many cores."""
        return self.cores * self.frames / self.cpu_seconds

    def line(self) -> str:
        """Return it for people."""
        speed = self.size / self.seconds / _MB
        told = (
            f"{self.name:<34} {self.cores} core{'s' if self.cores > 1 else ' '}"
            f" {self.seconds:8.2f} s {speed:8.1f} MB/s {speed / self.cores:8.1f} MB/s a core"
            f" {self.frames_a_second:12,.0f} frames/s"
        )
        if not self.cpu_seconds:
            return told
        return (
            f"{told} {self.cpu_seconds:8.2f} s of CPU: {self.at_best:12,.0f} frames/s at best"
            f" {self.peak_mb:8,.0f} MB of memory"
        )


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Have no more cores than these, nor what is started meanwhile."""
    whole = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(whole)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, whole)


def say(line: str) -> None:
    """Print a line; SystemExit where nobody reads on."""
    if not put(f"{line}\n"):
        sys.exit(0)


def timed(work: Callable[[], object]) -> float:
    """Return how long it took, in seconds."""
    began = perf_counter()
    work()
    return perf_counter() - began


def decoded(path: Path) -> int:
    """Read one file to typed commits, without Spark; returns their number."""
    options = Options(tables=frozenset({Table.PAIRS, Table.UNPAIRED}), api_keys=frozenset({COMMIT}))
    with path.open("rb") as stream:
        return sum(
            found.requests.num_rows
            for table, batch in read_file(stream, str(path), options)
            if table is Table.PAIRS
            for found in typed(batch)
            if found.requests is not None
        )


def alone(files: Sequence[Path]) -> int:
    """Read files one after the other in this process."""
    return sum(decoded(path) for path in files)


def dissected(files: Sequence[Path]) -> None:
    """Let tshark decode files, and print what it makes of commits."""
    for path in files:
        subprocess.run(
            ["tshark", "-r", path, "-d", "tcp.port==9092,kafka", "-Y", "kafka.api_key==8",
             "-T", "fields", "-e", "kafka.correlation_id"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip


def read_by_spark(session: SparkSession, *paths: Path, **options: str) -> None:
    """Read all rows of a table, and keep none."""
    frame = session.read.format(NAME).options(**options, paths=",".join(map(str, paths))).load()
    frame.write.format("noop").mode("overwrite").save()


def of_spark(made: Made, folder: Path, out: Path, cores: int) -> list[Measured]:
    """Measure Spark on some cores, in this process and a session of its own."""
    with quietly(sys.stderr), on_cores(cores):
        session = start(f"local[{cores}]", {"spark.driver.memory": _HEAP})
        try:
            register(session)
            return [
                [spent(name, cores, made, partial(work, str(turn))) for turn in range(TURNS)][-1]
                for name, work in _works(session, folder, out).items()
            ]
        finally:
            session.stop()


def _works(session: SparkSession, folder: Path, out: Path) -> dict[str, Callable[[str], object]]:
    """Return what is measured; each is given a name that no other turn has."""

    def to_parquet(turn: str) -> None:
        audit(session, Job(inputs=(str(folder),), out=str(out / turn), audits=()))
        shutil.rmtree(out / turn)

    return {
        TYPED: lambda _: read_by_spark(session, folder, api="OffsetCommit"),
        PAIRED: lambda _: read_by_spark(session, folder, table="envelopes"),
        PARQUET: to_parquet,
    }


def spent(name: str, cores: int, made: Made, work: Callable[[], object]) -> Measured:
    """Measure what Spark's processes do: how long, on how much processor time and memory."""
    with watched() as usage:
        took = timed(work)
    return Measured(name, cores, took, made.frames, made.size, usage.cpu_s, usage.peak_mb)


def in_memory(files: Sequence[Path], work: Path) -> dict[str, float]:
    """Return how much memory Spark on 2 cores takes for files: the JVM, and its largest worker."""
    session = start("local[2]", {"spark.driver.memory": _HEAP})
    try:
        register(session)
        with watched() as usage:
            read_by_spark(session, *files, api="OffsetCommit")
            job = Job(inputs=tuple(map(str, files)), out=str(work), audits=())
            audit(session, job)
    finally:
        session.stop()
    size = sum(path.stat().st_size for path in files)
    written = sum(path.stat().st_size for path in work.rglob("*.parquet"))
    shutil.rmtree(work)
    say(
        f"{size / _MB:10,.0f} MB: JVM {usage.java_mb:,.0f} MB, a worker {usage.python_mb:,.0f} MB,"
        f" all processes {usage.peak_mb:,.0f} MB, {usage.cpu_s:,.1f} s of CPU;"
        f" tables {written / size:.2f} of the capture"
    )
    return {"JVM": usage.java_mb, "worker": usage.python_mb, "all": usage.peak_mb}


def flat(files: Sequence[Path], work: Path) -> dict[str, tuple[float, float]]:
    """Return for each kind of process how much more it takes for ten times the files."""
    few = in_memory(files[: max(1, len(files) // 10)], work)
    many = in_memory(files, work)
    return {f"memory, {name}": (many[name] / few[name], GROWTH) for name in few}


def measured(made: Made, folder: Path, work: Path) -> Iterator[Measured]:
    """Let every reader read the same capture."""
    some = made.files[:TSHARK_FILES]
    size = sum(path.stat().st_size for path in some)
    share = made.frames * size // made.size
    with on_cores(1):
        if shutil.which("tshark"):
            yield Measured("tshark", 1, timed(lambda: dissected(some)), share, size)
        alone(some)
        yield Measured("decoder alone", 1, timed(lambda: alone(made.files)), made.frames, made.size)
    for cores in (1, 2):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            yield from pool.submit(of_spark, made, folder, work / "out", cores).result()


def verdicts(found: Sequence[Measured]) -> dict[str, tuple[float, float]]:
    """Return for each target what was reached, and what is to be."""
    by = {(each.name, each.cores): each for each in found}
    typed_2 = by[TYPED, 2]
    paired_2 = by[PAIRED, 2]
    reached = {
        "frames/s to typed OffsetCommits": (typed_2.frames_a_second, float(TYPED_FRAMES_A_SECOND)),
        "requests/s paired": (paired_2.frames_a_second / 2, float(PAIRED_A_SECOND)),
        "second core": (
            typed_2.frames_a_second / by[TYPED, 1].frames_a_second,
            SCALING,
        ),
    }
    if ("tshark", 1) in by:
        one = by[TYPED, 1].frames_a_second
        reached["times tshark"] = (one / by["tshark", 1].frames_a_second, float(TIMES_TSHARK))
    return reached


def main() -> None:
    """Measure and print; with `--check`, exit with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_600)
    parser.add_argument("--memory-megabytes", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        size = (asked.memory_megabytes or asked.megabytes) * _MB
        # Made by a process of its own, that its memory is not counted as a reader's.
        with ProcessPoolExecutor(1) as pool:
            made = pool.submit(write, work / "in", size).result()
        if asked.memory_megabytes:
            missed = _told_growth(flat(made.files, work / "out"))
        else:
            missed = _told_speed(made, work)
    if asked.check and missed:
        sys.exit(1)


def _told_growth(found: Mapping[str, tuple[float, float]]) -> bool:
    for name, (grown, most) in found.items():
        say(f"{name}: {grown:.2f} times for ten times the capture, at most {most}")
    return any(grown > most for grown, most in found.values())


def _told_speed(made: Made, work: Path) -> bool:
    found = []
    for each in measured(made, work / "in", work):
        found.append(each)
        say(each.line())
    reached = verdicts(found)
    for target, (got, wanted) in reached.items():
        say(f"{target}: {got:,.1f}, to reach {wanted:,.1f}")
    at_best = {each.name: each.at_best for each in found if each.cores > 1}
    say(
        f"at best, by processor time: {at_best[TYPED]:,.0f} frames/s to typed OffsetCommits,"
        f" {at_best[PAIRED] / 2:,.0f} requests/s paired"
    )
    return any(got < wanted for got, wanted in reached.values())


if __name__ == "__main__":
    with quietly(sys.stderr):
        main()
