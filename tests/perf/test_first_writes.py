"""First writes to many partitions delay no other client; a broker with many logs stops fast."""

from __future__ import annotations

import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from kafkalite.config.log_config import LogConfig
from kafkalite.ports.files import OsFiles
from kafkalite.storage.data_directory import DataDirectory
from tests.perf.first_writes import TOPIC, Writer, first_writes, observe, serve

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.endurance

PARTITIONS = 5000
WORST_MS, P99_MS = 100.0, 30.0
STOP_S = 2.0


def disk_s(directory: Path) -> float:
    """Return the seconds for creating and removing the files of all logs, by the disk load."""
    directory.mkdir()
    started = time.perf_counter()
    for number in range(PARTITIONS):
        (directory / str(number)).mkdir()
        for name in ("index", "timeindex", "snapshot"):
            (directory / str(number) / name).write_bytes(b"content")
    shutil.rmtree(directory)
    return time.perf_counter() - started


@pytest.mark.parametrize("is_temporary", [False, True])
def test_first_writes_to_many_partitions_and_a_stop_are_fast(
    tmp_path: Path, *, is_temporary: bool
) -> None:
    before = disk_s(tmp_path / "disk")
    data = tmp_path / "data"
    process, port = serve(PARTITIONS, [] if is_temporary else ["--data-dir", str(data)])
    try:
        delays = observe(port, Writer(port, list(first_writes(PARTITIONS, 1)), in_flight=5))
        started = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        stop_s = time.perf_counter() - started
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    # The load changes while the test runs.
    slowness = max(1.0, before, disk_s(tmp_path / "disk"))
    assert stop_s <= STOP_S * slowness
    assert delays.worst <= WORST_MS * slowness, delays
    assert delays.p99 <= P99_MS * slowness, delays
    if not is_temporary:
        directory = DataDirectory(OsFiles(), str(data))
        assert directory.was_shut_down_cleanly
        for index in range(PARTITIONS):
            assert directory.open_log(TOPIC, index, LogConfig(), now_ms=0).end_offset == 1
