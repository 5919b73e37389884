"""Splitting of huge files into parts."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kafkalite.lab.spark.locations import InputFile
from kafkalite.lab.spark.stages.file_splitting import (
    MIN_PART_BYTES,
    find_parts,
    is_huge,
    load_parts,
    part_bytes,
    parts_in,
)
from kafkalite.lab.spark.tuning import TASKS_PER_CORE
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from pathlib import Path

MB = 1 << 20


@pytest.mark.parametrize(
    ("size", "tasks", "largest", "expected"),
    [
        (10_000 * MB, 6, 128 * MB, 128 * MB),
        (600 * MB, 6, 128 * MB, 100 * MB),
        (60 * MB, 6, 128 * MB, MIN_PART_BYTES),
        (60 * MB, 6, 1, MIN_PART_BYTES),
        (0, 0, 0, MIN_PART_BYTES),
    ],
)
def test_part_size_gives_work_to_all_tasks_within_limits(
    size: int, tasks: int, largest: int, expected: int
) -> None:
    assert part_bytes(size, tasks, largest) == expected


def test_two_gigabytes_have_four_parts_for_each_of_16_cores() -> None:
    size = 2_000_000_000
    assert size // part_bytes(size, TASKS_PER_CORE * 16, 128 * MB) >= TASKS_PER_CORE * 16


def test_file_of_several_parts_is_huge() -> None:
    assert is_huge(InputFile(url="a", size=151, modified_ns=0), 100)
    assert not is_huge(InputFile(url="a", size=150, modified_ns=0), 100)


def test_task_finds_the_parts_of_its_files(tmp_path: Path) -> None:
    [path] = write(tmp_path, 300_000, connections=3).files[:1]
    packed = tmp_path / "packed.pcapng.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    names = [str(path), str(packed), str(tmp_path), str(tmp_path / "gone")]
    files = [InputFile(url=name, size=300_000, modified_ns=0) for name in names]
    numbers = pa.RecordBatch.from_pydict({"id": [3, 2, 1, 0]})
    found = {
        row["file"]: load_parts(row["parts"])
        for batch in find_parts([numbers], files, 100_000)
        for row in batch.to_pylist()
    }
    assert found == {names[0]: parts_in(names[0], 100_000), **{name: [] for name in names[1:]}}
    parts = found[names[0]]
    assert [part.start for part in parts] == [0, *(part.stop for part in parts[:-1])]
    assert len(parts) > 1
    assert parts[-1].stop is None


def test_small_file_is_not_split(tmp_path: Path) -> None:
    [path] = write(tmp_path, 100_000, connections=3).files[:1]
    assert parts_in(str(path), MB) == []
