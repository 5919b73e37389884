"""What batches leave over is there for the next, and torn by nobody unnoticed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.columnar.stitching import HALVES, Left
from kafkalite.spark.leftover import Leftover
from kafkalite.spark.places import PlaceError, place

if TYPE_CHECKING:
    from pathlib import Path


def leftover(tmp_path: Path, numbers: int = 1) -> Leftover:
    made = Leftover(place(str(tmp_path)))
    for number in range(numbers):
        made.keep(number, Left(), {"a": number})
    return made


def test_the_last_two_batches_are_remembered(tmp_path: Path) -> None:
    made = leftover(tmp_path, 4)
    assert made.numbers() == {2, 3}
    assert (made.grown(3), made.grown(2), made.grown(1)) == ({"a": 3}, {"a": 2}, {})
    assert made.of(3).requests.schema.equals(HALVES)
    assert not made.of(1).requests.num_rows


@pytest.mark.parametrize("name", ["connections", "fragments", "requests"])
def test_a_torn_table_and_one_that_is_gone_are_told(tmp_path: Path, name: str) -> None:
    made = leftover(tmp_path)
    path = tmp_path / f"_kafkalite/left/0/{name}.parquet"
    path.write_bytes(b"torn")
    with pytest.raises(PlaceError, match=rf"{name}\.parquet: not what a batch left over"):
        made.of(0)
    path.unlink()
    with pytest.raises(PlaceError, match=rf"{name}\.parquet: not what a batch left over"):
        made.of(0)


@pytest.mark.parametrize("text", ["{", "[]", "1", '{"a": null}', '{"a": "b"}'])
def test_a_torn_note_is_told(tmp_path: Path, text: str) -> None:
    made = leftover(tmp_path)
    (tmp_path / "_kafkalite/left/0/grown.json").write_text(text)
    with pytest.raises(PlaceError, match=r"grown\.json: does not say"):
        made.grown(0)
