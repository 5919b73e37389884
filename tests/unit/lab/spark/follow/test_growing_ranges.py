"""Ranges of growing files: a decoder continues in another process where it ended."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkalite.lab.columnar.options import DEFAULT_OPTIONS, Table
from kafkalite.lab.spark.follow.growing_ranges import freeze, new_rows, restarted, thaw
from kafkalite.lab.spark.sources.folder_stream import FileRange
from tests.perf.big_capture import write

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.lab.columnar.growing_files import GrowingFile


def take(file: GrowingFile, range_: FileRange, rows: Counter[Table]) -> None:
    for table, batch in new_rows(file, range_):
        rows[table] += batch.num_rows


def test_decoder_continues_after_it_was_sent_or_restarted(tmp_path: Path) -> None:
    path = str(write(tmp_path, 60_000, connections=3).files[0])
    whole, sent, again = Counter[Table](), Counter[Table](), Counter[Table]()
    take(restarted(FileRange(path), DEFAULT_OPTIONS), FileRange(path), whole)
    first, last = FileRange(path, 0, 30_007), FileRange(path, 30_007)
    file = restarted(first, DEFAULT_OPTIONS)
    take(file, first, sent)
    again.update(sent)
    take(thaw(freeze(file)), last, sent)
    take(restarted(last, DEFAULT_OPTIONS), last, again)
    assert sent[Table.PAIRS] == again[Table.PAIRS] == whole[Table.PAIRS] > 100
    assert freeze(None) == b""
