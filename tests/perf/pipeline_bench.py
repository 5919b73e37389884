"""Compares the decoder alone, Spark on 1 and 2 cores, and tshark in reading captures to typed rows.

`python -m tests.perf.pipeline_bench [--megabytes N] [--check]` writes a capture, reads it with all
of them, and prints frames and megabytes per second; with `--check` it fails if a target is missed.
For Spark, the second run in a session counts: a large capture takes minutes, and Java has then
compiled its code long before the end. Audits are not measured here.

In a run on one core, Spark tasks, Python workers and Java compilers share this core. Each number of
cores is measured in a separate process, because PySpark uses one JVM for its whole life, and the
JVM the number of cores it was started with. The table has the rate by elapsed time, and the rate by
CPU time, as if no core had waited; with other load on the machine, only the latter is comparable.

With `--memory-megabytes N`, Spark on 2 cores reads a capture of that size and a tenth of it, and
the benchmark prints the memory of its processes for both. With `--check` it fails if the memory
grows with the capture.
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

from kafkalite.cli.output import print_output
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from kafkalite.lab.spark import register
from kafkalite.lab.spark.jvm_output import filtered_stderr
from kafkalite.lab.spark.pipeline import Job, audit
from kafkalite.lab.spark.session import start
from kafkalite.lab.spark.sources.capture import NAME
from kafkalite.lab.spark.stages.typed import decode_typed
from tests.perf.big_capture import write
from tests.perf.process_memory import sample_children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from tests.perf.big_capture import WrittenCapture

COMMIT: Final = 8

MIN_TYPED_FRAMES_PER_SECOND: Final = 2_000_000
MIN_PAIRED_PER_SECOND: Final = 1_000_000
MIN_SPEEDUP_OVER_TSHARK: Final = 20
MIN_SPEEDUP_OF_SECOND_CORE: Final = 1.6
"""The targets: the first two on two cores, the third per core."""

TYPED: Final = "Spark to typed OffsetCommits"
PAIRED: Final = "Spark to pairs of all APIs"
PARQUET: Final = "pipeline to Parquet of all APIs"

MAX_MEMORY_GROWTH: Final = 1.25
"""The permitted growth of memory for a capture of ten times the size; the heap grows a little."""

TSHARK_FILES: Final = 1
RUNS: Final = 2
"""The number of runs, of which the last is measured."""

_HEAP: Final = "1g"
_MB: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Measurement:
    """The result of one reader."""

    name: str
    cores: int
    seconds: float
    frames: int
    size: int
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0

    @property
    def frames_per_second(self) -> float:
        """Frames per second."""
        return self.frames / self.seconds

    @property
    def frames_per_busy_second(self) -> float:
        """Frames per second by CPU time, as if all cores were always busy."""
        return self.cores * self.frames / self.cpu_seconds

    def line(self) -> str:
        """Return the result as one line."""
        speed = self.size / self.seconds / _MB
        text = (
            f"{self.name:<34} {self.cores} core{'s' if self.cores > 1 else ' '}"
            f" {self.seconds:8.2f} s {speed:8.1f} MB/s {speed / self.cores:8.1f} MB/s per core"
            f" {self.frames_per_second:12,.0f} frames/s"
        )
        if not self.cpu_seconds:
            return text
        return (
            f"{text} {self.cpu_seconds:8.2f} s of CPU:"
            f" {self.frames_per_busy_second:12,.0f} frames/s at best"
            f" {self.peak_mb:8,.0f} MB of memory"
        )


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Restrict this process, and processes it starts meanwhile, to some cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_cores)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def print_line(line: str) -> None:
    """Print a line; raises SystemExit if stdout is closed."""
    if not print_output(f"{line}\n"):
        sys.exit(0)


def timed(work: Callable[[], object]) -> float:
    """Return the duration in seconds."""
    started = perf_counter()
    work()
    return perf_counter() - started


def decode_file(path: Path) -> int:
    """Decode the typed commits of one file without Spark; returns their number."""
    options = Options(tables=frozenset({Table.PAIRS, Table.UNPAIRED}), api_keys=frozenset({COMMIT}))
    with path.open("rb") as stream:
        return sum(
            decoded.requests.num_rows
            for table, batch in read_file(stream, str(path), options)
            if table is Table.PAIRS
            for decoded in decode_typed(batch)
            if decoded.requests is not None
        )


def decode_files(files: Sequence[Path]) -> int:
    """Decode files one after another in this process."""
    return sum(decode_file(path) for path in files)


def dissect_files(files: Sequence[Path]) -> None:
    """Let tshark decode files and print the commits."""
    for path in files:
        subprocess.run(
            ["tshark", "-r", path, "-d", "tcp.port==9092,kafka", "-Y", "kafka.api_key==8",
             "-T", "fields", "-e", "kafka.correlation_id"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip


def read_by_spark(session: SparkSession, *paths: Path, **options: str) -> None:
    """Read and discard all rows of a table."""
    frame = session.read.format(NAME).options(**options, paths=",".join(map(str, paths))).load()
    frame.write.format("noop").mode("overwrite").save()


def measure_spark(
    capture: WrittenCapture, folder: Path, out: Path, cores: int
) -> list[Measurement]:
    """Measure Spark on some cores, in this process and a new session."""
    with filtered_stderr(sys.stderr), on_cores(cores):
        session = start(f"local[{cores}]", {"spark.driver.memory": _HEAP})
        try:
            register(session)
            return [
                [
                    measure_work(name, cores, capture, partial(work, str(run_name)))
                    for run_name in range(RUNS)
                ][-1]
                for name, work in _jobs(session, folder, out).items()
            ]
        finally:
            session.stop()


def _jobs(session: SparkSession, folder: Path, out: Path) -> dict[str, Callable[[str], object]]:
    """Return the jobs to measure; each takes a unique name for its turn."""

    def to_parquet(run_name: str) -> None:
        audit(session, Job(inputs=(str(folder),), out=str(out / run_name), audits=()))
        shutil.rmtree(out / run_name)

    return {
        TYPED: lambda _: read_by_spark(session, folder, api="OffsetCommit"),
        PAIRED: lambda _: read_by_spark(session, folder, table="envelopes"),
        PARQUET: to_parquet,
    }


def measure_work(
    name: str, cores: int, capture: WrittenCapture, work: Callable[[], object]
) -> Measurement:
    """Measure the duration, CPU time and memory of the Spark processes."""
    with sample_children() as usage:
        seconds = timed(work)
    return Measurement(
        name, cores, seconds, capture.frames, capture.size, usage.cpu_s, usage.peak_mb
    )


def measure_memory(files: Sequence[Path], work: Path) -> dict[str, float]:
    """Return the memory of Spark on 2 cores: of the JVM, the largest worker, and all processes."""
    session = start("local[2]", {"spark.driver.memory": _HEAP})
    try:
        register(session)
        with sample_children() as usage:
            read_by_spark(session, *files, api="OffsetCommit")
            job = Job(inputs=tuple(map(str, files)), out=str(work), audits=())
            audit(session, job)
    finally:
        session.stop()
    size = sum(path.stat().st_size for path in files)
    written = sum(path.stat().st_size for path in work.rglob("*.parquet"))
    shutil.rmtree(work)
    print_line(
        f"{size / _MB:10,.0f} MB: JVM {usage.java_mb:,.0f} MB,"
        f" largest worker {usage.python_mb:,.0f} MB,"
        f" all processes {usage.peak_mb:,.0f} MB, {usage.cpu_s:,.1f} s of CPU;"
        f" tables {written / size:.2f} of the capture size"
    )
    return {"JVM": usage.java_mb, "worker": usage.python_mb, "all": usage.peak_mb}


def memory_growth(files: Sequence[Path], work: Path) -> dict[str, tuple[float, float]]:
    """Return the memory growth of each kind of process for ten times the files."""
    small = measure_memory(files[: max(1, len(files) // 10)], work)
    large = measure_memory(files, work)
    return {f"memory, {name}": (large[name] / small[name], MAX_MEMORY_GROWTH) for name in small}


def measure_all(capture: WrittenCapture, folder: Path, work: Path) -> Iterator[Measurement]:
    """Measure all readers on the same capture."""
    tshark_files = capture.files[:TSHARK_FILES]
    size = sum(path.stat().st_size for path in tshark_files)
    tshark_frames = capture.frames * size // capture.size
    with on_cores(1):
        if shutil.which("tshark"):
            yield Measurement(
                "tshark", 1, timed(lambda: dissect_files(tshark_files)), tshark_frames, size
            )
        decode_files(tshark_files)
        yield Measurement(
            "decoder alone",
            1,
            timed(lambda: decode_files(capture.files)),
            capture.frames,
            capture.size,
        )
    for cores in (1, 2):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            yield from pool.submit(measure_spark, capture, folder, work / "out", cores).result()


def target_results(measurements: Sequence[Measurement]) -> dict[str, tuple[float, float]]:
    """Return the measured value and the target value, by name of the target."""
    by_name_and_cores = {
        (measurement.name, measurement.cores): measurement for measurement in measurements
    }
    typed_2 = by_name_and_cores[TYPED, 2]
    paired_2 = by_name_and_cores[PAIRED, 2]
    results = {
        "frames/s to typed OffsetCommits": (
            typed_2.frames_per_second,
            float(MIN_TYPED_FRAMES_PER_SECOND),
        ),
        "requests/s paired": (paired_2.frames_per_second / 2, float(MIN_PAIRED_PER_SECOND)),
        "second core": (
            typed_2.frames_per_second / by_name_and_cores[TYPED, 1].frames_per_second,
            MIN_SPEEDUP_OF_SECOND_CORE,
        ),
    }
    if ("tshark", 1) in by_name_and_cores:
        one_core = by_name_and_cores[TYPED, 1].frames_per_second
        results["times tshark"] = (
            one_core / by_name_and_cores["tshark", 1].frames_per_second,
            float(MIN_SPEEDUP_OVER_TSHARK),
        )
    return results


def main() -> None:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_600)
    parser.add_argument("--memory-megabytes", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        size = (options.memory_megabytes or options.megabytes) * _MB
        # Written in a separate process, so that its memory is not counted for a reader.
        with ProcessPoolExecutor(1) as pool:
            capture = pool.submit(write, work / "in", size).result()
        if options.memory_megabytes:
            missed = _report_growth(memory_growth(capture.files, work / "out"))
        else:
            missed = _report_speed(capture, work)
    if options.check and missed:
        sys.exit(1)


def _report_growth(measurements: Mapping[str, tuple[float, float]]) -> bool:
    for name, (grown, maximum) in measurements.items():
        print_line(f"{name}: {grown:.2f} times for ten times the capture, permitted {maximum}")
    return any(grown > maximum for grown, maximum in measurements.values())


def _report_speed(capture: WrittenCapture, work: Path) -> bool:
    measurements = []
    for measurement in measure_all(capture, work / "in", work):
        measurements.append(measurement)
        print_line(measurement.line())
    results = target_results(measurements)
    for name, (value, target) in results.items():
        print_line(f"{name}: {value:,.1f}, target {target:,.1f}")
    frames_per_busy_second = {
        measurement.name: measurement.frames_per_busy_second
        for measurement in measurements
        if measurement.cores > 1
    }
    print_line(
        "at best, by CPU time:"
        f" {frames_per_busy_second[TYPED]:,.0f} frames/s to typed OffsetCommits,"
        f" {frames_per_busy_second[PAIRED] / 2:,.0f} requests/s paired"
    )
    return any(value < target for value, target in results.values())


if __name__ == "__main__":
    with filtered_stderr(sys.stderr):
        main()
