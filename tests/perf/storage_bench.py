"""How close the log comes to the bare system calls: `python -m tests.perf.storage_bench`.

Every row is the CPU time of one operation in microseconds, beside that of the `writev` or `pread`
it cannot do without, measured in turns in one process. The ratio is what counts: it does not
depend on the machine as the times do.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from typing import TYPE_CHECKING

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.files import OsFiles
from kafkalite.storage.batch import Producer, build_batch, split_batches
from kafkalite.storage.log import Log
from kafkalite.storage.records import NewRecord
from kafkalite.storage.validation import prepare

if TYPE_CHECKING:
    from collections.abc import Callable

MEGABYTE = 1 << 20
SIZES = {"100 B": 100, "1 KB": 1024, "16 KB": 16 * 1024, "1 MB": MEGABYTE - 200}
ROUNDS = 9
BYTES_PER_ROUND = 32 << 20
MOST_PER_ROUND = 20_000


def microseconds(action: Callable[[], object], count: int) -> float:
    """Return the CPU time of `action`, called `count` times, per call."""
    begun = time.thread_time_ns()
    for _ in range(count):
        action()
    return (time.thread_time_ns() - begun) / count / 1000


def produced(size: int, *, idempotent: bool) -> bytes:
    """Return one batch of about `size` bytes as a producer sends it."""
    producer = Producer(1, 0, 0) if idempotent else Producer()
    return build_batch([NewRecord(None, os.urandom(size), 1_700_000_000_000)], producer=producer)


class Bench:
    """One size of batch: a log, and a bare file of the same bytes."""

    def __init__(self, directory: str, size: int) -> None:
        self.count = max(20, min(MOST_PER_ROUND, BYTES_PER_ROUND // size))
        self.megabytes = 40
        self.config = LogConfig(segment_bytes=2**31 - 1)
        self.plain = bytearray(produced(size, idempotent=False))
        self.idempotent = bytearray(produced(size, idempotent=True))
        self.directory = f"{directory}/t-0"
        self.log = self.open_log()
        self.append(self.plain)
        self.path = f"{directory}/floor"
        self.floor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.sequence = 0
        self.next_read = 0
        self.next_bare = 0

    def open_log(self) -> Log:
        """Return the log as its directory has it."""
        return Log.open(OsFiles(), self.directory, self.config, now_ms=0)

    def append(self, buffer: bytearray) -> None:
        """Do all that a produced batch meets on its way to the file."""
        batches = prepare(split_batches(buffer), self.config, now_ms=2**41, partition="t-0")
        batches[0].base_sequence = self.sequence if batches[0].producer_id >= 0 else -1
        if batches[0].producer_id >= 0:
            self.sequence += 1
            assert self.log.producers.check(batches[0]) is None
        self.log.append(batches, leader_epoch=0, now_ms=0)

    def bare_write(self) -> None:
        """Write what an append writes."""
        os.writev(self.floor, (self.plain[:16], memoryview(self.plain)[16:]))

    def read_tail(self) -> None:
        """Read the last batch, as a consumer that keeps up."""
        log = self.log
        end = log.end_offset
        data = log.read(end - 1, max_bytes=MEGABYTE, limit_offset=end, at_least_one=True)
        assert len(data) == len(self.plain)

    def read_through(self) -> None:
        """Read a megabyte of batches, as a consumer that goes through the log."""
        log = self.log
        data = log.read(
            self.next_read, max_bytes=MEGABYTE, limit_offset=log.end_offset, at_least_one=True
        )
        self.next_read += len(data) // len(self.plain)
        if self.next_read + MEGABYTE // len(self.plain) >= log.end_offset:
            self.next_read = 0

    def bare_tail(self) -> None:
        """Read as many bytes as the last batch has."""
        os.pread(self.floor, len(self.plain), len(self.plain))

    def bare_through(self) -> None:
        """Read a megabyte, and the next one the next time."""
        size = MEGABYTE // len(self.plain) * len(self.plain)
        if len(os.pread(self.floor, size, self.next_bare)) < size:
            self.next_bare = 0
        else:
            self.next_bare += size

    def reset(self) -> None:
        """Let both files be empty again, so that neither fills the disk."""
        self.log.delete()
        self.log = self.open_log()
        self.append(self.plain)
        os.ftruncate(self.floor, 0)

    def run(self) -> dict[str, tuple[float, float]]:
        """Return per operation the medians of its time and of the bare call's."""
        names = ("append", "append idempotent", "read the tail", "read a megabyte")
        times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}

        def measure(name: str, ours: Callable[[], object], bare: float) -> None:
            count = self.megabytes if ours == self.read_through else self.count
            times[name][0].append(microseconds(ours, count))
            times[name][1].append(bare)

        for _ in range(ROUNDS):
            self.reset()
            bare = microseconds(self.bare_write, self.count)
            bare_tail = microseconds(self.bare_tail, self.count)
            bare_whole = microseconds(self.bare_through, self.megabytes)
            self.reset()
            measure("append", lambda: self.append(self.plain), bare)
            measure("read the tail", self.read_tail, bare_tail)
            self.next_read = 0
            measure("read a megabyte", self.read_through, bare_whole)
            self.reset()
            self.sequence = 0
            measure("append idempotent", lambda: self.append(self.idempotent), bare)
        return {
            name: (statistics.median(ours), statistics.median(bare))
            for name, (ours, bare) in times.items()
        }


def main() -> None:
    """Print the table."""
    print(f"{'operation':<20}{'batch':>8}{'µs':>10}{'bare':>10}{'ratio':>8}{'GB/s':>8}")  # noqa: T201
    for label, size in SIZES.items():
        directory = tempfile.mkdtemp(prefix="kafkalite-bench-")
        try:
            for name, (ours, bare) in Bench(directory, size).run().items():
                moved = MEGABYTE if name.endswith("megabyte") else size
                rate = moved / ours / 1000
                row = (
                    f"{name:<20}{label:>8}{ours:>10.2f}{bare:>10.2f}{ours / bare:>8.2f}{rate:>8.2f}"
                )
                print(row)  # noqa: T201
        finally:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
