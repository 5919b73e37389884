"""Names of directories."""

from __future__ import annotations

import pytest

from kafkalite.storage.naming import (
    deleted_directory,
    is_deleted_directory,
    parse_partition_directory,
    partition_directory,
)


@pytest.mark.parametrize(("topic", "index"), [("t", 0), ("a-1.b_c-2", 17), ("x" * 249, 99)])
def test_a_partition_is_named_and_known_again(topic: str, index: int) -> None:
    assert parse_partition_directory(partition_directory(topic, index)) == (topic, index)


@pytest.mark.parametrize("name", ["t", "-1", "t-", "t-x", "", "meta.properties", "t-1x"])
def test_other_names_are_for_no_partition(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize("name", ["t-0", "x" * 249 + "-10000"])
def test_a_deleted_directory_is_for_no_partition_and_fits_a_file_system(name: str) -> None:
    parent, _, deleted = deleted_directory(f"data/{name}").rpartition("/")
    assert parent == "data"
    assert len(deleted) <= 255
    assert is_deleted_directory(deleted)
    assert parse_partition_directory(deleted) is None


def test_a_topic_may_be_called_delete() -> None:
    assert not is_deleted_directory("delete-0")
    assert not is_deleted_directory("some-delete-0")
    assert is_deleted_directory("t-0.3c0a7fa0a1b24d05a8b7a8c2c4e7ba31-delete")
