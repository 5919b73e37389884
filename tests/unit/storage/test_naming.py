"""Names of directories."""

from __future__ import annotations

import pytest

from kafkalite.storage.naming import (
    deleted_directory,
    is_deleted_directory,
    parse_file_name,
    parse_partition_directory,
    partition_directory,
    stray_directory,
)


@pytest.mark.parametrize(("topic", "index"), [("t", 0), ("a-1.b_c-2", 17), ("x" * 249, 99)])
def test_a_partition_is_named_and_known_again(topic: str, index: int) -> None:
    assert parse_partition_directory(partition_directory(topic, index)) == (topic, index)


@pytest.mark.parametrize("name", ["t", "-1", "t-", "t-x", "", "meta.properties", "t-1x", "t-٣"])
def test_other_names_are_for_no_partition(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize("name", ["t-0", "x" * 249 + "-10000"])
def test_a_deleted_directory_is_for_no_partition_and_fits_a_file_system(name: str) -> None:
    parent, _, deleted = deleted_directory(f"data/{name}").rpartition("/")
    assert parent == "data"
    assert len(deleted) <= 255
    assert is_deleted_directory(deleted)
    assert parse_partition_directory(deleted) is None


@pytest.mark.parametrize("name", ["t-0", "x" * 249 + "-10000"])
def test_a_stray_is_for_no_partition_and_fits_beside_the_others(name: str) -> None:
    taken: list[str] = []
    for _ in range(12):
        stray = stray_directory(name, taken)
        assert len(stray) <= 255
        assert stray not in taken
        assert parse_partition_directory(stray) is None
        assert not is_deleted_directory(stray)
        taken.append(stray)


def test_files_of_a_log_are_named_for_an_offset() -> None:
    assert parse_file_name("00000000000000000042.log") == (42, ".log")
    assert parse_file_name("00000000000000000042.log.swap") == (42, ".log.swap")
    assert parse_file_name("00000000000000000042") == (42, "")


@pytest.mark.parametrize(
    "name", ["", ".log", "1.log", "-0000000000000000001.log", "9" * 21 + ".log", "٣" * 20 + ".log"]
)
def test_other_files_are_not_of_a_log(name: str) -> None:
    assert parse_file_name(name) is None


def test_a_topic_may_be_called_delete() -> None:
    assert not is_deleted_directory("delete-0")
    assert not is_deleted_directory("some-delete-0")
    assert is_deleted_directory("t-0.3c0a7fa0a1b24d05a8b7a8c2c4e7ba31-delete")
