"""Measures how fast the columnar reader converts captures to tables on one core, without Spark.

`python -m tests.perf.columnar_bench [--megabytes N] [--check]` writes a capture, reads it in
alternating rounds, and prints the speeds by CPU time, with tshark for comparison. With `--check` it
fails if a speed is below its minimum.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Final

from kafkalite.lab.columnar.exchanges.typed_exchanges import decode_pairs
from kafkalite.lab.columnar.options import Options, Table
from kafkalite.lab.columnar.reading import read_file
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.perf.big_capture import WrittenCapture

MIN_SPEEDUP_OVER_TSHARK: Final = 20
"""The minimum speedup of typed commits compared with tshark, both on one core."""
MIN_FRAMES_PER_S: Final = {"paired requests": 1_800_000, "typed OffsetCommit": 2_000_000}
"""The minimum speeds; they leave Spark half of the CPU time to reach them on two cores."""

_OFFSET_COMMIT: Final = 8
_TSHARK_BYTES: Final = 4_000_000
"""tshark reads a smaller capture, because it is slow and its time is linear in the packets."""


@dataclass(frozen=True)
class Speed:
    """The speed of one reader."""

    name: str
    seconds: float
    frames: int
    size: int

    @property
    def frames_per_s(self) -> float:
        """Frames per second of CPU time."""
        return self.frames / self.seconds


def main() -> int:
    """Measure and print; with `--check`, exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        capture = write(Path(directory) / "big", options.megabytes * 1_000_000)
        small = write(Path(directory) / "small", _TSHARK_BYTES)
        speeds = measure(capture, small, options.rounds)
    sys.stdout.write(table(speeds))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(f"peak memory {peak} MB\n")
    failures = missed_targets(speeds) if options.check else []
    sys.stderr.writelines(f"missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


def measure(capture: WrittenCapture, small: WrittenCapture, rounds: int) -> list[Speed]:
    """Run the readers in alternating rounds, and return the best speed of each."""
    readers: dict[str, Callable[[], None]] = {
        "paired requests": lambda: read_pairs(capture.files, Options()),
        "paired, no payload": lambda: read_pairs(capture.files, Options(payload=False)),
        "typed OffsetCommit": lambda: read_commits(capture.files),
    }
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, reader in readers.items():
            started = process_time()
            reader()
            best[name] = min(best.get(name, float("inf")), process_time() - started)
    speeds = [Speed(name, seconds, capture.frames, capture.size) for name, seconds in best.items()]
    tshark = shutil.which("tshark")
    if tshark:
        speeds.append(
            Speed("tshark", tshark_cpu_seconds(tshark, small.files), small.frames, small.size)
        )
    return speeds


def read_pairs(paths: Sequence[Path], options: Options) -> None:
    """Read captures to pairs, and discard them."""
    for path in paths:
        with path.open("rb") as file:
            for _ in read_file(file, path.name, options):
                pass


def read_commits(paths: Sequence[Path]) -> None:
    """Read captures to typed OffsetCommit requests and responses."""
    options = Options(api_keys=frozenset({_OFFSET_COMMIT}))
    for path in paths:
        with path.open("rb") as file:
            for kind, batch in read_file(file, path.name, options):
                if kind is Table.PAIRS:
                    decode_pairs(_OFFSET_COMMIT, batch)


def tshark_cpu_seconds(tshark: str, paths: Sequence[Path]) -> float:
    """Return the CPU time of tshark for the same kind of traffic."""
    fields = ["-Y", "kafka", "-T", "fields", "-e", "kafka.api_key", "-e", "kafka.correlation_id"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for path in paths:
        command = [tshark, "-r", str(path), "-d", "tcp.port==9092,kafka", *fields]
        subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def missed_targets(speeds: Sequence[Speed]) -> list[str]:
    """Return one line for each speed below its minimum."""
    by_name = {speed.name: speed for speed in speeds}
    failures = [
        f"{name}: {by_name[name].frames_per_s:,.0f} frames/s, not {minimum:,}"
        for name, minimum in MIN_FRAMES_PER_S.items()
        if by_name[name].frames_per_s < minimum
    ]
    if "tshark" in by_name:
        times = by_name["typed OffsetCommit"].frames_per_s / by_name["tshark"].frames_per_s
        if times < MIN_SPEEDUP_OVER_TSHARK:
            failures.append(f"{times:.1f} times tshark, not {MIN_SPEEDUP_OVER_TSHARK}")
    return failures


def table(speeds: Sequence[Speed]) -> str:
    """Return the speeds as Markdown."""
    lines = ["| one core | s CPU | MB/s | M frames/s |\n| --- | --- | --- | --- |\n"]
    lines += [
        f"| {speed.name} | {speed.seconds:.2f} | {speed.size / speed.seconds / 1e6:.0f} "
        f"| {speed.frames_per_s / 1e6:.3f} |\n"
        for speed in speeds
    ]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
