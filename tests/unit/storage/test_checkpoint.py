"""Small files that are replaced atomically, in Kafka's formats."""

from __future__ import annotations

import pytest

from kafkalite.protocol.uuids import uuid_to_text
from kafkalite.storage.checkpoint import (
    CheckpointError,
    read_offsets,
    read_partition_metadata,
    read_properties,
    write_atomically,
    write_offsets,
    write_partition_metadata,
    write_properties,
)
from kafkalite.testing.files import CrashedError, FaultyFiles, MemoryFiles

PATH = "d/file"


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.makedirs("d")
    return files


def put(files: MemoryFiles, content: bytes) -> None:
    files.open(PATH, create=True).append([content])


def test_offset_checkpoint_has_version_count_and_rows(files: MemoryFiles) -> None:
    offsets = {("b-topic", 10): 2**40, ("a.topic", 0): 0, ("b-topic", 9): 3}
    write_offsets(files, PATH, offsets)
    assert files.read(PATH) == b"0\n3\na.topic 0 0\nb-topic 9 3\nb-topic 10 1099511627776\n"
    assert read_offsets(files, PATH) == offsets
    assert read_offsets(files, "d/absent") == {}


def test_kafka_creates_an_empty_checkpoint(files: MemoryFiles) -> None:
    put(files, b"")
    assert read_offsets(files, PATH) == {}


@pytest.mark.parametrize(
    "content", [b"0\n", b"9\n0\n", b"0\n2\nt 0 5\n", b"0\n1\nt 0\n", b"0\n1\nt x 5\n", b"\xff"]
)
def test_damaged_checkpoint_raises_checkpoint_error(files: MemoryFiles, content: bytes) -> None:
    put(files, content)
    with pytest.raises(CheckpointError):
        read_offsets(files, PATH)


def test_properties_are_read_as_kafka_writes_them(files: MemoryFiles) -> None:
    put(files, b"#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=abc=\nversion=1\n\n")
    assert read_properties(files, PATH) == {"cluster.id": "abc=", "version": "1"}
    write_properties(files, PATH, {"version": "1", "node.id": "7"})
    assert files.read(PATH) == b"version=1\nnode.id=7\n"
    assert read_properties(files, "d/absent") == {}


def test_the_topic_id_of_a_partition_is_written_and_read_back(files: MemoryFiles) -> None:
    topic_id = uuid_to_text(bytes(range(16)))
    write_partition_metadata(files, PATH, topic_id)
    assert read_partition_metadata(files, PATH) == topic_id
    assert read_partition_metadata(files, "d/absent") is None
    files.remove(PATH)
    put(files, b"version: 0\n")
    assert read_partition_metadata(files, PATH) is None
    put(files, b"topic_id: " + topic_id[:-3].encode())
    assert read_partition_metadata(files, PATH) is None


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_crash_leaves_old_or_new_content(part: float) -> None:
    for fail_at in range(9):
        disk = MemoryFiles()
        disk.makedirs("d")
        put(disk, b"old")
        disk.sync(PATH)
        files = FaultyFiles(disk, fail_at=fail_at, part=part)
        try:
            write_atomically(files, PATH, b"the new")
        except CrashedError:
            assert disk.after_power_loss(lambda _: 0).read(PATH) in {b"old", b"the new"}
        else:
            assert fail_at == files.steps
            break
    assert disk.after_power_loss(lambda _: 0).read(PATH) == b"the new"
