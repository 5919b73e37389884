"""How fast captures become typed rows: by the decoder alone, by Spark on 1 and 2 cores, by tshark.

`python -m tests.perf.pipeline_bench [--megabytes N] [--check]` makes a capture, has all of them
read it in one run, and prints frames and megabytes a second; with `--check` it fails below the
targets. Spark's runs begin when its workers are warm. Audits are not measured here.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from kafkalite.spark import register
from kafkalite.spark.pipeline import Job, audit
from kafkalite.spark.session import start
from kafkalite.spark.sources.capture import NAME
from kafkalite.spark.stages.typed import typed
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from tests.perf.big_capture import Made

COMMIT: Final = 8

TYPED_FRAMES_A_SECOND: Final = 2_000_000
PAIRED_A_SECOND: Final = 1_000_000
TIMES_TSHARK: Final = 20
SCALING: Final = 1.6
"""The floors: the first two on two cores, the third a core."""

TSHARK_FILES: Final = 1
_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Measured:
    """One reader's run."""

    name: str
    cores: int
    seconds: float
    frames: int
    size: int

    @property
    def frames_a_second(self) -> float:
        """How many frames it read in a second."""
        return self.frames / self.seconds

    def line(self) -> str:
        """Return it for people."""
        return (
            f"{self.name:<34} {self.cores} core{'s' if self.cores > 1 else ' '}"
            f" {self.seconds:8.2f} s {self.size / self.seconds / _MB:8.1f} MB/s"
            f" {self.frames_a_second:12,.0f} frames/s"
        )


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


def read_by_spark(session: SparkSession, folder: Path, **options: str) -> None:
    """Read all rows of a table, and keep none."""
    frame = session.read.format(NAME).options(**options).load(str(folder))
    frame.write.format("noop").mode("overwrite").save()


def of_spark(made: Made, folder: Path, out: Path, cores: int) -> list[Measured]:
    """Measure Spark on some cores, in a session of its own."""
    session = start(f"local[{cores}]", {"spark.driver.memory": "2g"})
    try:
        register(session)
        read_by_spark(session, made.files[0], api="OffsetCommit")
        tables = {
            "Spark to typed OffsetCommits": {"api": "OffsetCommit"},
            "Spark to pairs of all APIs": {"table": "envelopes"},
        }
        found = [
            Measured(
                name,
                cores,
                timed(lambda options=options: read_by_spark(session, folder, **options)),  # type: ignore[misc]
                made.frames,
                made.size,
            )
            for name, options in tables.items()
        ]
        job = Job(inputs=(str(folder),), out=str(out), audits=())
        took = timed(lambda: audit(session, job))
        return [
            *found,
            Measured("pipeline to Parquet of all APIs", cores, took, made.frames, made.size),
        ]
    finally:
        session.stop()


def measured(made: Made, folder: Path, work: Path) -> Iterator[Measured]:
    """Let every reader read the same capture."""
    some = made.files[:TSHARK_FILES]
    size = sum(path.stat().st_size for path in some)
    share = made.frames * size // made.size
    if shutil.which("tshark"):
        yield Measured("tshark", 1, timed(lambda: dissected(some)), share, size)
    alone(some)
    yield Measured("decoder alone", 1, timed(lambda: alone(made.files)), made.frames, made.size)
    for cores in (1, 2):
        yield from of_spark(made, folder, work / f"out-{cores}", cores)


def verdicts(found: Sequence[Measured]) -> dict[str, tuple[float, float]]:
    """Return for each target what was reached, and what is to be."""
    by = {(each.name, each.cores): each for each in found}
    typed_2 = by["Spark to typed OffsetCommits", 2]
    paired_2 = by["Spark to pairs of all APIs", 2]
    reached = {
        "frames/s to typed OffsetCommits": (typed_2.frames_a_second, float(TYPED_FRAMES_A_SECOND)),
        "requests/s paired": (paired_2.frames_a_second / 2, float(PAIRED_A_SECOND)),
        "second core": (
            typed_2.frames_a_second / by["Spark to typed OffsetCommits", 1].frames_a_second,
            SCALING,
        ),
    }
    if ("tshark", 1) in by:
        one = by["Spark to typed OffsetCommits", 1].frames_a_second
        reached["times tshark"] = (one / by["tshark", 1].frames_a_second, float(TIMES_TSHARK))
    return reached


def main() -> None:
    """Measure and print; with `--check`, exit with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        # Made by a process of its own, that its memory is not counted as a reader's.
        with ProcessPoolExecutor(1) as pool:
            made = pool.submit(write, work / "in", asked.megabytes * _MB).result()
        found = []
        for each in measured(made, work / "in", work):
            found.append(each)
            sys.stdout.write(f"{each.line()}\n")
            sys.stdout.flush()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    sys.stdout.write(f"largest process: {peak:,.0f} MB\n")
    missed = False
    for target, (reached, wanted) in verdicts(found).items():
        missed |= reached < wanted
        sys.stdout.write(f"{target}: {reached:,.1f}, to reach {wanted:,.1f}\n")
    if asked.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
