"""Merges the output of many small splits, so that the number of files stays small after many runs.

A split is the unit whose output is deleted together, so whole splits are merged: the result has the
input files of all of them. Nothing here depends on Spark.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyarrow import parquet

from kafkalite.lab.spark.stages.decoding import TaskReport, attempt_id, report_rows
from kafkalite.lab.spark.stages.plain_requests import PLAIN
from kafkalite.lab.spark.stages.writing import TableWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from kafkalite.lab.spark.locations import Location
    from kafkalite.lab.spark.manifest import InputSplit
    from kafkalite.lab.spark.stages.decoding import Task

MIN_SPLITS: Final = 32
"""Minimum number of splits that are merged, so that a row is seldom written again."""


def groups_to_merge(
    splits: Iterable[InputSplit], largest_bytes: int
) -> list[tuple[InputSplit, ...]]:
    """Return groups of at least `MIN_SPLITS` splits with at most `largest_bytes` of input each.

    The splits of a group were written by the same decoder, so that their tables have the same
    columns.
    """
    groups: list[tuple[InputSplit, ...]] = []
    by_kind: defaultdict[tuple[str, bool], list[InputSplit]] = defaultdict(list)
    bytes_by_kind: Counter[tuple[str, bool]] = Counter()
    for split in splits:
        size = sum(file.size for file in split.inputs)
        if size > largest_bytes // MIN_SPLITS * 2:
            continue
        kind = (split.decoder, split.is_retained)
        if bytes_by_kind[kind] + size > largest_bytes:
            groups.append(tuple(by_kind.pop(kind)))
            del bytes_by_kind[kind]
        by_kind[kind].append(split)
        bytes_by_kind[kind] += size
    groups.extend(map(tuple, by_kind.values()))
    return [group for group in groups if len(group) >= MIN_SPLITS]


def merge(group: Sequence[InputSplit], report: TaskReport) -> InputSplit:
    """Return the split of the merged files that a task reports."""
    return replace(
        group[0],
        inputs=tuple(file for split in group for file in split.inputs),
        requests=report.requests,
        problems=report.problems,
        connections=report.connections,
        incomplete=report.incomplete,
        rows=sum(split.rows for split in group),
        quarantined=tuple(dict.fromkeys(name for split in group for name in split.quarantined)),
        skipped=tuple(dict.fromkeys(name for split in group for name in split.skipped)),
    )


def write_merged(
    group: Sequence[InputSplit], out: Location, task: Task, number: int, attempt: int
) -> TaskReport:
    """Write one file for each table and day of a group, and one with its plain requests.

    Returns the paths by kind.
    """
    by_kind: dict[str, Any] = {}
    with TableWriter(task.staged, f"{task.name}-merged-{number:05}-{attempt}") as writer:
        for kind in ("requests", "problems", "connections", "incomplete"):
            first = len(writer.written)
            for path in sorted(path for split in group for path in getattr(split, kind)):
                file = out / path
                with file.files.open_input_file(file.path) as stream:
                    for batch in parquet.ParquetFile(stream).iter_batches():
                        end = PLAIN if path.endswith(PLAIN) else ".parquet"
                        writer.write(path.rpartition("/")[0], batch, end)
            by_kind[kind] = tuple(writer.written[first:])
    return TaskReport(**by_kind)


def merge_in_task(
    batches: Iterable[pa.RecordBatch],
    out: Location,
    task: Task,
    groups: Sequence[Sequence[InputSplit]],
) -> Iterator[pa.RecordBatch]:
    """Merge the groups whose indexes are in the first column; yields reports in this order."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            report = write_merged(groups[number], out, task, number, attempt_id())
            yield report_rows([report.to_json()])
