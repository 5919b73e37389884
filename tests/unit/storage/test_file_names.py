"""Names of directories."""

from __future__ import annotations

import pytest

from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.storage.file_names import (
    deleted_directory,
    is_deleted_directory,
    parse_file_name,
    parse_partition_directory,
    partition_directory,
    stray_directory,
)


@pytest.mark.parametrize(("topic", "index"), [("t", 0), ("a-1.b_c-2", 17), ("x" * 249, 99)])
def test_partition_directory_name_is_parsed_back(topic: str, index: int) -> None:
    assert parse_partition_directory(partition_directory(topic, index)) == (topic, index)


@pytest.mark.parametrize("name", ["t", "-1", "t-", "t-x", "", "meta.properties", "t-1x", "t-٣"])
def test_other_names_are_not_partitions(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize("name", ["t-0", "x" * 249 + "-10000"])
def test_deleted_directory_name_is_no_partition_and_not_too_long(name: str) -> None:
    topic_id = uuid_to_text(bytes([255]) * 16)
    parent, _, deleted = deleted_directory(f"data/{name}", topic_id).rpartition("/")
    assert parent == "data"
    assert len(deleted) <= 255
    assert is_deleted_directory(deleted)
    assert parse_partition_directory(deleted) is None


@pytest.mark.parametrize("name", ["t-0", "x" * 249 + "-10000"])
def test_stray_directory_name_is_no_partition_and_unused(name: str) -> None:
    taken: list[str] = []
    for _ in range(12):
        stray = stray_directory(name, taken)
        assert len(stray) <= 255
        assert stray not in taken
        assert parse_partition_directory(stray) is None
        assert not is_deleted_directory(stray)
        taken.append(stray)


def test_log_file_names_have_offset_and_suffix() -> None:
    assert parse_file_name("00000000000000000042.log") == (42, ".log")
    assert parse_file_name("00000000000000000042.log.swap") == (42, ".log.swap")
    assert parse_file_name("00000000000000000042") == (42, "")


@pytest.mark.parametrize(
    "name", ["", ".log", "1.log", "-0000000000000000001.log", "9" * 21 + ".log", "٣" * 20 + ".log"]
)
def test_other_file_names_are_not_log_files(name: str) -> None:
    assert parse_file_name(name) is None


def test_a_topic_may_be_called_delete() -> None:
    assert not is_deleted_directory("delete-0")
    assert not is_deleted_directory("some-delete-0")
    assert is_deleted_directory("t-0.3c0a7fa0a1b24d05a8b7a8c2c4e7ba31-delete")
