"""How fast captures become tables, in columns and on one core, without Spark; and tshark beside.

`python -m tests.perf.columnar_bench [--megabytes N] [--check]` makes a capture and prints what one
core does with it, in turns, by CPU time. With `--check` it fails where a floor is missed.
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

from kafkalite.columnar.exchanges import typed
from kafkalite.columnar.options import Options, Table
from kafkalite.columnar.reading import read_file
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.perf.big_capture import Made

TIMES_TSHARK: Final = 20
"""How many times as fast as tshark the way to typed commits has to be at least, core by core."""
FRAMES_PER_S: Final = {"paired requests": 1_800_000, "typed OffsetCommit": 2_000_000}
"""The floors, which leave as much time for Spark where two cores are to do as much together."""

_OFFSET_COMMIT: Final = 8
_TSHARK_BYTES: Final = 4_000_000
"""tshark gets a part: its time grows with the packets, and it is the slow one."""


@dataclass(frozen=True)
class Speed:
    """What one way of reading does."""

    name: str
    seconds: float
    frames: int
    size: int

    @property
    def frames_per_s(self) -> float:
        """Frames a second of CPU time."""
        return self.frames / self.seconds


def main() -> int:
    """Measure, print, and judge when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        made = write(Path(directory) / "big", asked.megabytes * 1_000_000)
        small = write(Path(directory) / "small", _TSHARK_BYTES)
        speeds = measured(made, small, asked.rounds)
    sys.stdout.write(table(speeds))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(f"peak memory {peak} MB\n")
    failures = missed(speeds) if asked.check else []
    sys.stderr.writelines(f"missed: {failure}\n" for failure in failures)
    return 1 if failures else 0


def measured(made: Made, small: Made, rounds: int) -> list[Speed]:
    """Run every way in turns; the best of each is what the machine's company left alone."""
    ways: dict[str, Callable[[], None]] = {
        "paired requests": lambda: to_pairs(made.files, Options()),
        "paired, no payload": lambda: to_pairs(made.files, Options(payload=False)),
        "typed OffsetCommit": lambda: to_commits(made.files),
    }
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            started = process_time()
            way()
            best[name] = min(best.get(name, float("inf")), process_time() - started)
    speeds = [Speed(name, seconds, made.frames, made.size) for name, seconds in best.items()]
    tshark = shutil.which("tshark")
    if tshark:
        speeds.append(Speed("tshark", by_tshark(tshark, small.files), small.frames, small.size))
    return speeds


def to_pairs(paths: Sequence[Path], options: Options) -> None:
    """Read captures to pairs, and forget these."""
    for path in paths:
        with path.open("rb") as file:
            for _ in read_file(file, path.name, options):
                pass


def to_commits(paths: Sequence[Path]) -> None:
    """Read captures to typed OffsetCommit requests and responses."""
    options = Options(api_keys=frozenset({_OFFSET_COMMIT}))
    for path in paths:
        with path.open("rb") as file:
            for part, batch in read_file(file, path.name, options):
                if part is Table.PAIRS:
                    typed(_OFFSET_COMMIT, batch)


def by_tshark(tshark: str, paths: Sequence[Path]) -> float:
    """Return the CPU time in which tshark decodes the same kind of traffic."""
    fields = ["-Y", "kafka", "-T", "fields", "-e", "kafka.api_key", "-e", "kafka.correlation_id"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for path in paths:
        command = [tshark, "-r", str(path), "-d", "tcp.port==9092,kafka", *fields]
        subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def missed(speeds: Sequence[Speed]) -> list[str]:
    """Name the floors that are missed."""
    by_name = {speed.name: speed for speed in speeds}
    failures = [
        f"{name}: {by_name[name].frames_per_s:,.0f} frames/s, not {floor:,}"
        for name, floor in FRAMES_PER_S.items()
        if by_name[name].frames_per_s < floor
    ]
    if "tshark" in by_name:
        times = by_name["typed OffsetCommit"].frames_per_s / by_name["tshark"].frames_per_s
        if times < TIMES_TSHARK:
            failures.append(f"{times:.1f} times tshark, not {TIMES_TSHARK}")
    return failures


def table(speeds: Sequence[Speed]) -> str:
    """Return the figures as Markdown."""
    lines = ["| one core | s CPU | MB/s | M frames/s |\n| --- | --- | --- | --- |\n"]
    lines += [
        f"| {each.name} | {each.seconds:.2f} | {each.size / each.seconds / 1e6:.0f} "
        f"| {each.frames_per_s / 1e6:.3f} |\n"
        for each in speeds
    ]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
