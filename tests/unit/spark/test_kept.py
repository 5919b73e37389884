"""A batch begins where the one before it ended, however often it is begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from kafkalite.spark.kept import Kept, Known
from kafkalite.spark.places import PlaceError, place
from kafkalite.spark.state.extent import EXTENT

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

NOBODYS = cast("SparkSession", None)


def test_a_batch_begins_with_what_the_last_whole_one_before_it_knew(tmp_path: Path) -> None:
    out = place(str(tmp_path))
    first = Kept(NOBODYS, out, ()).begin(0)
    assert first.before == Known()
    first.counts["ghosts"] += 3
    first.end(10, 20)
    Kept(NOBODYS, out, ()).begin(1).end(10, 30)
    # Nothing notes that batch 2 was whole, so that batch 3 never began: 2 comes again.
    (out / "_kafkalite/state/2/epochs/part.parquet").write_text("torn")
    again = Kept(NOBODYS, out, ()).begin(2)
    assert (again.before.first_us, again.before.last_us) == (10, 30)
    assert not (out / "_kafkalite/state/2").exists()
    before = Kept(NOBODYS, out, ()).begin(1).before
    assert (before.last_us, before.counts) == (20, {"ghosts": 3})


def test_what_a_batch_found_is_taken_back_with_all_that_came_after(tmp_path: Path) -> None:
    out = place(str(tmp_path))
    for name in ("batch=0", "batch=1", "batch=12", "somebody's"):
        (out / f"{EXTENT.name}/{name}/part.parquet").write_text("rows")
    Kept(NOBODYS, out, (EXTENT,)).begin(1)
    assert list((out / EXTENT.name).walk()) == ["batch=0/part.parquet", "somebody's/part.parquet"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"first_us": 1, "nothing": 2}'])
def test_a_note_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    out = place(str(tmp_path))
    (out / "_kafkalite/state/4/note.json").write_text(text)
    with pytest.raises(PlaceError, match=r"4/note\.json: not a note of a batch"):
        Kept(NOBODYS, out, ()).begin(5)
