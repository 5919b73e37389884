"""Tables of the metadata: images share one copy until a row changes."""

from __future__ import annotations

import pytest

from kafkalite.metadata.image_table import ImageTable


def test_images_are_one_object_until_a_row_changes() -> None:
    table: ImageTable[str, int] = ImageTable()
    empty = table.image()
    assert table.image() is empty
    table.replay_set("a", 1)
    table.replay_set("b", 2)
    first = table.image()
    assert table.image() is first
    assert table.replay_remove("a") == 1
    table.replay_set("b", 3)
    assert (empty, first) == ({}, {"a": 1, "b": 2})
    assert table.image() == table.rows == {"b": 3}


def test_a_missing_row_cannot_be_removed() -> None:
    table: ImageTable[str, int] = ImageTable()
    with pytest.raises(KeyError):
        table.replay_remove("a")


def test_rows_and_images_cannot_be_changed_from_outside() -> None:
    table: ImageTable[str, int] = ImageTable()
    table.replay_set("a", 1)
    for mapping in (table.rows, table.image()):
        with pytest.raises(TypeError):
            mapping["a"] = 2  # type: ignore[index]
