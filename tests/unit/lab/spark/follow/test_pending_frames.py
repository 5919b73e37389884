"""Incomplete frames of batches, stored for the next batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.lab.columnar.exchanges.stitching import PENDING_FRAMES, Pending
from kafkalite.lab.spark.follow.pending_frames import PendingFrames
from kafkalite.lab.spark.locations import LocationError, location

if TYPE_CHECKING:
    from pathlib import Path


def stored(tmp_path: Path, numbers: int = 1) -> PendingFrames:
    made = PendingFrames(location(str(tmp_path)))
    for number in range(numbers):
        made.store(number, Pending(), {"a": number})
    return made


def test_data_of_the_last_two_batches_is_stored(tmp_path: Path) -> None:
    made = stored(tmp_path, 4)
    assert made.numbers() == {2, 3}
    assert (made.sizes_read(3), made.sizes_read(2), made.sizes_read(1)) == ({"a": 3}, {"a": 2}, {})
    assert made.load(3).requests.schema.equals(PENDING_FRAMES)
    assert not made.load(1).requests.num_rows


@pytest.mark.parametrize("name", ["connections", "fragments", "requests"])
def test_damaged_or_missing_table_is_reported(tmp_path: Path, name: str) -> None:
    made = stored(tmp_path)
    path = tmp_path / f"_kafkalite/left/0/{name}.parquet"
    path.write_bytes(b"torn")
    with pytest.raises(LocationError, match=rf"{name}\.parquet: invalid data of a batch"):
        made.load(0)
    path.unlink()
    with pytest.raises(LocationError, match=rf"{name}\.parquet: invalid data of a batch"):
        made.load(0)


@pytest.mark.parametrize("text", ["{", "[]", "1", '{"a": null}', '{"a": "b"}'])
def test_invalid_sizes_are_reported(tmp_path: Path, text: str) -> None:
    made = stored(tmp_path)
    (tmp_path / "_kafkalite/left/0/grown.json").write_text(text)
    with pytest.raises(LocationError, match=r"grown\.json: invalid sizes"):
        made.sizes_read(0)
