"""Merging the output of small splits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from kafkalite.lab.columnar.options import DEFAULT_OPTIONS
from kafkalite.lab.spark.compaction import MIN_SPLITS, groups_to_merge, merge, write_merged
from kafkalite.lab.spark.locations import InputFile, location
from kafkalite.lab.spark.manifest import InputSplit
from kafkalite.lab.spark.stages.decoding import Task

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def split(number: int, size: int = 1, **fields: Any) -> InputSplit:  # noqa: ANN401 - those of a split
    made = InputSplit(
        inputs=(InputFile(url=str(number), size=size, modified_ns=0),), rows=2, decoder="1"
    )
    return replace(made, **fields)


def small(count: int, start: int = 0, **fields: Any) -> list[InputSplit]:  # noqa: ANN401 - see above
    return [split(start + number, **fields) for number in range(count)]


def test_only_many_small_splits_of_one_decoder_are_merged() -> None:
    few, many = small(MIN_SPLITS - 1), small(MIN_SPLITS, 100)
    assert groups_to_merge(few, 128 * MIB) == []
    assert groups_to_merge([*many, *small(5, 200, decoder="2")], 128 * MIB) == [tuple(many)]
    assert groups_to_merge([*few, *small(9, 300, is_retained=True)], 128 * MIB) == []
    assert groups_to_merge([split(number, 9 * MIB) for number in range(99)], 128 * MIB) == []


def test_merged_splits_are_not_larger_than_those_of_other_tasks() -> None:
    splits = [split(number, 2 * MIB) for number in range(140)]
    assert [len(group) for group in groups_to_merge(splits, 128 * MIB)] == [64, 64]


def test_small_splits_between_large_ones_are_merged() -> None:
    large = split(0, 127 * MIB)
    some = small(20 * (MIN_SPLITS - 1), 100)
    mixed = [
        each
        for number, one in enumerate(some)
        for each in ((one, large) if number % 31 == 0 else (one,))
    ]
    assert groups_to_merge(mixed, 128 * MIB) == [tuple(some)]


def test_merged_files_have_the_rows_of_all(tmp_path: Path) -> None:
    out = location(str(tmp_path / "out"))
    folders = ("requests/api=Fetch/date=2026-11-22", "problems", "_kafkalite/loose/frames")
    group = []
    for number in range(3):
        paths = [f"{folder}/{number}.parquet" for folder in folders]
        for path in paths[: 3 if number else 1]:
            with (out / path).create() as stream:
                parquet.write_table(pa.table({"row": [10 * number, 10 * number + 1]}), stream)
        requests, *others = paths
        problems, incomplete = others if number else ("", "")
        group.append(
            replace(
                split(number),
                requests=(requests,),
                problems=(problems,) if problems else (),
                incomplete=(incomplete,) if incomplete else (),
                quarantined=(str(number),) if number == 1 else (),
                skipped=(str(number),) if number == 0 else (),
            )
        )
    staged = location(str(tmp_path / "staged"))
    task = Task(staged=staged, name="7", options=DEFAULT_OPTIONS)
    merged = merge(group, write_merged(group, out, task, 0, 0))
    assert [file.url for file in merged.inputs] == ["0", "1", "2"]
    assert (merged.rows, merged.quarantined, merged.decoder) == (6, ("1",), "1")
    assert merged.skipped == ("0",)
    assert [path.rpartition("/")[0] for path in merged.outputs] == [*folders]
    rows = [parquet.read_table((staged / path).path)["row"].to_pylist() for path in merged.outputs]
    assert rows == [[0, 1, 10, 11, 20, 21], [10, 11, 20, 21], [10, 11, 20, 21]]
