"""Measures the log compared with bare system calls: `python -m tests.perf.storage_bench`.

Each row has the CPU time of one operation in microseconds, and that of the required `writev` or
`pread`, measured in alternating rounds in one process. The ratio depends less on the machine than
the times.
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
from kafkalite.storage.batch import BatchProducer, build_batch, split_batches
from kafkalite.storage.log import Log
from kafkalite.storage.record_format import NewRecord
from kafkalite.storage.validation import validate_and_convert

if TYPE_CHECKING:
    from collections.abc import Callable

MEGABYTE = 1 << 20
SIZES = {"100 B": 100, "1 KB": 1024, "16 KB": 16 * 1024, "1 MB": MEGABYTE - 200}
ROUNDS = 9
BYTES_PER_ROUND = 32 << 20
MAX_CALLS_PER_ROUND = 20_000


def microseconds(action: Callable[[], object], count: int) -> float:
    """Return the CPU time per call of `action` over `count` calls."""
    started = time.thread_time_ns()
    for _ in range(count):
        action()
    return (time.thread_time_ns() - started) / count / 1000


def produced(size: int, *, idempotent: bool) -> bytes:
    """Return one batch of about `size` bytes as a producer sends it."""
    producer = BatchProducer(1, 0, 0) if idempotent else BatchProducer()
    return build_batch([NewRecord(None, os.urandom(size), 1_700_000_000_000)], producer=producer)


class Bench:
    """The benchmark of one batch size: a log, and a bare file with the same bytes."""

    def __init__(self, directory: str, size: int) -> None:
        self.count = max(20, min(MAX_CALLS_PER_ROUND, BYTES_PER_ROUND // size))
        self.megabytes = 40
        self.config = LogConfig(segment_bytes=2**31 - 1)
        self.plain = bytearray(produced(size, idempotent=False))
        self.idempotent = bytearray(produced(size, idempotent=True))
        self.directory = f"{directory}/t-0"
        self.log = self.open_log()
        self.append(self.plain)
        self.path = f"{directory}/bare"
        self.bare_file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self.sequence = 0
        self.next_read = 0
        self.next_bare = 0

    def open_log(self) -> Log:
        """Open the log."""
        return Log.open(OsFiles(), self.directory, self.config, now_ms=0)

    def append(self, buffer: bytearray) -> None:
        """Do everything the broker does with a produced batch."""
        batches = validate_and_convert(
            split_batches(buffer), self.config, now_ms=2**41, partition="t-0"
        )
        batches[0].base_sequence = self.sequence if batches[0].producer_id >= 0 else -1
        if batches[0].producer_id >= 0:
            self.sequence += 1
            assert self.log.producers.check(batches[0]) is None
        self.log.append(batches, leader_epoch=0, now_ms=0)

    def bare_write(self) -> None:
        """Write the bytes of an append."""
        os.writev(self.bare_file, (self.plain[:16], memoryview(self.plain)[16:]))

    def read_tail(self) -> None:
        """Read the last batch, like a consumer without lag."""
        log = self.log
        end = log.end_offset
        data = log.read(end - 1, max_bytes=MEGABYTE, limit_offset=end, at_least_one=True)
        assert len(data) == len(self.plain)

    def read_through(self) -> None:
        """Read a megabyte of batches, like a consumer that reads the whole log."""
        log = self.log
        data = log.read(
            self.next_read, max_bytes=MEGABYTE, limit_offset=log.end_offset, at_least_one=True
        )
        self.next_read += len(data) // len(self.plain)
        if self.next_read + MEGABYTE // len(self.plain) >= log.end_offset:
            self.next_read = 0

    def bare_tail(self) -> None:
        """Read as many bytes as one batch has."""
        os.pread(self.bare_file, len(self.plain), len(self.plain))

    def bare_through(self) -> None:
        """Read the next megabyte."""
        size = MEGABYTE // len(self.plain) * len(self.plain)
        if len(os.pread(self.bare_file, size, self.next_bare)) < size:
            self.next_bare = 0
        else:
            self.next_bare += size

    def reset(self) -> None:
        """Empty both files, so that the disk does not fill up."""
        self.log.delete()
        self.log = self.open_log()
        self.append(self.plain)
        os.ftruncate(self.bare_file, 0)

    def run(self) -> dict[str, tuple[float, float]]:
        """Return the median times of each operation and of its system call."""
        names = ("append", "append idempotent", "read the tail", "read a megabyte")
        times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in names}

        def measure(name: str, operation: Callable[[], object], bare: float) -> None:
            count = self.megabytes if operation == self.read_through else self.count
            times[name][0].append(microseconds(operation, count))
            times[name][1].append(bare)

        for _ in range(ROUNDS):
            self.reset()
            bare = microseconds(self.bare_write, self.count)
            bare_tail = microseconds(self.bare_tail, self.count)
            bare_through = microseconds(self.bare_through, self.megabytes)
            self.reset()
            measure("append", lambda: self.append(self.plain), bare)
            measure("read the tail", self.read_tail, bare_tail)
            self.next_read = 0
            measure("read a megabyte", self.read_through, bare_through)
            self.reset()
            self.sequence = 0
            measure("append idempotent", lambda: self.append(self.idempotent), bare)
        return {
            name: (statistics.median(ours), statistics.median(bare))
            for name, (ours, bare) in times.items()
        }


def main() -> None:
    """Print the table."""
    print(f"{'operation':<20}{'batch':>8}{'µs':>10}{'bare_us':>10}{'ratio':>8}{'GB/s':>8}")  # noqa: T201
    for label, size in SIZES.items():
        directory = tempfile.mkdtemp(prefix="kafkalite-bench-")
        try:
            for name, (operation_us, bare_us) in Bench(directory, size).run().items():
                moved_bytes = MEGABYTE if name.endswith("megabyte") else size
                rate = moved_bytes / operation_us / 1000
                ratio = operation_us / bare_us
                times = f"{operation_us:>10.2f}{bare_us:>10.2f}{ratio:>8.2f}{rate:>8.2f}"
                print(f"{name:<20}{label:>8}{times}")  # noqa: T201
        finally:
            shutil.rmtree(directory)


if __name__ == "__main__":
    main()
