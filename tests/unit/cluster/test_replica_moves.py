"""Replicas that move to another directory: at once, or as fast as a rate allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster.replica_moves import MOVES_FILE
from kafkalite.metadata.configs import AlterOperation, ConfigChange
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.storage.batch import BatchView
from kafkalite.testing.files import MemoryFiles
from tests.cluster.cluster import TestCluster
from tests.unit.data_plane import batch_of

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalite.metadata.image import MetadataDelta
    from kafkalite.partitions.partition import Partition

_VALUE = b"v" * 10_000
_FETCH = {"replica.fetch.max.bytes": "1024"}


@pytest.fixture
def wire(tmp_path: Path) -> TestCluster:
    wire = TestCluster(tmp_path, config={"log.dirs": "/a,/b", **_FETCH})
    wire.cluster.metadata.create_topics([NewTopic(name="t", partitions=1, replication_factor=1)])
    return wire


def partition_of(wire: TestCluster) -> Partition:
    topic = wire.cluster.partitions.topic("t")
    assert topic is not None
    partition = topic.partition(0)
    assert partition is not None
    return partition


def place(wire: TestCluster) -> str:
    return wire.cluster.log_directories.path_of(
        1, wire.cluster.metadata.image.topics["t"].partitions[0]
    )


def limit(wire: TestCluster, rate: str | None) -> None:
    operation = AlterOperation.DELETE if rate is None else AlterOperation.SET
    key = "replica.alter.log.dirs.io.max.bytes.per.second"
    resource = ConfigResource(ResourceType.BROKER, "1")
    wire.cluster.metadata.alter_configs({resource: [ConfigChange(key, operation, rate)]})


def append(wire: TestCluster, count: int) -> None:
    for _ in range(count):
        partition_of(wire).append(BatchView(batch_of(_VALUE)), wire.clock.now_ms())


def test_a_move_without_a_limit_ends_at_once(wire: TestCluster) -> None:
    append(wire, 3)
    assert place(wire) == "/a"
    moves = wire.cluster.log_directories.moves
    moves.begin(1, partition_of(wire), "/b")
    assert (place(wire), moves.future(1, partition_of(wire))) == ("/b", None)


def test_a_limited_move_copies_as_fast_as_its_rate(wire: TestCluster) -> None:
    append(wire, 3)
    limit(wire, "2000")
    moves, partition = wire.cluster.log_directories.moves, partition_of(wire)
    moves.begin(1, partition, "/b")
    future = moves.future(1, partition)
    assert future is not None
    assert (place(wire), future.path, future.end_offset) == ("/a", "/b", 1)
    assert 0 < future.size_bytes < partition.log.size_bytes / 2
    assert list(moves.targets(1)) == ["/b"]
    wire.clock.advance(7_000)
    assert future.end_offset == 2
    wire.clock.advance(15_000)
    assert (place(wire), moves.future(1, partition)) == ("/b", None)


def test_a_limited_move_ends_when_the_limit_is_removed(wire: TestCluster) -> None:
    append(wire, 3)
    limit(wire, "1")
    moves = wire.cluster.log_directories.moves
    moves.begin(1, partition_of(wire), "/b")
    limit(wire, None)
    assert (place(wire), moves.future(1, partition_of(wire))) == ("/b", None)


def test_a_cancelled_move_leaves_the_replica(wire: TestCluster) -> None:
    append(wire, 3)
    limit(wire, "1")
    moves = wire.cluster.log_directories.moves
    moves.begin(1, partition_of(wire), "/b")
    moves.cancel(1, partition_of(wire))
    limit(wire, None)
    assert place(wire) == "/a"


def test_moves_of_deleted_topics_end(wire: TestCluster) -> None:
    append(wire, 3)
    limit(wire, "1")
    moves, partition = wire.cluster.log_directories.moves, partition_of(wire)
    moves.begin(1, partition, "/b")
    wire.cluster.metadata.delete_topics([partition.topic_id])
    assert moves.future(1, partition) is None


def has_file(files: MemoryFiles, path: Path) -> bool:
    return MOVES_FILE in files.list(str(path))


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles()


@pytest.fixture
def slowed(tmp_path: Path, files: MemoryFiles) -> TestCluster:
    """Return a cluster with a replica that moves slowly."""
    wire = TestCluster(tmp_path, config={"log.dirs": "/a,/b", **_FETCH}, files=files)
    wire.cluster.metadata.create_topics([NewTopic(name="t", partitions=1, replication_factor=1)])
    append(wire, 6)
    limit(wire, "2000")
    wire.cluster.log_directories.moves.begin(1, partition_of(wire), "/b")
    wire.cluster.log_directories.moves.save()
    return wire


def test_a_limited_move_continues_after_a_restart(
    slowed: TestCluster, files: MemoryFiles, tmp_path: Path
) -> None:
    slowed.clock.advance(7_000)
    slowed.restart()
    moves, partition = slowed.cluster.log_directories.moves, partition_of(slowed)
    future = moves.future(1, partition)
    assert future is not None
    assert (place(slowed), future.path) == ("/a", "/b")
    # The meter of the rate is new.
    assert future.end_offset == 3
    slowed.clock.advance(40_000)
    assert (place(slowed), moves.future(1, partition)) == ("/b", None)
    assert not has_file(files, tmp_path)


def test_a_cancelled_move_does_not_continue(
    slowed: TestCluster, files: MemoryFiles, tmp_path: Path
) -> None:
    assert has_file(files, tmp_path)
    slowed.cluster.log_directories.moves.cancel(1, partition_of(slowed))
    slowed.cluster.log_directories.moves.save()
    assert not has_file(files, tmp_path)
    slowed.restart()
    assert slowed.cluster.log_directories.moves.future(1, partition_of(slowed)) is None


def test_a_move_of_a_deleted_topic_does_not_continue(
    slowed: TestCluster, files: MemoryFiles, tmp_path: Path
) -> None:
    path = f"{tmp_path}/{MOVES_FILE}"
    content = files.read(path)
    topic = slowed.cluster.metadata.image.topics["t"]
    slowed.cluster.metadata.delete_topics([topic.topic_id])
    slowed.end()
    files.write(path, content)
    wire = TestCluster(tmp_path, config={"log.dirs": "/a,/b", **_FETCH}, files=files)
    assert list(wire.cluster.log_directories.moves.targets(1)) == []


@pytest.mark.parametrize(
    "content", [b"", b'[[1, "ab', b"\0" * 40, b"5", b"[null]", b"[[1,2,3,4,5,6]]"]
)
def test_a_damaged_file_has_no_moves(
    slowed: TestCluster, files: MemoryFiles, tmp_path: Path, content: bytes
) -> None:
    slowed.end()
    files.write(f"{tmp_path}/{MOVES_FILE}", content)
    wire = TestCluster(tmp_path, config={"log.dirs": "/a,/b", **_FETCH}, files=files)
    assert list(wire.cluster.log_directories.moves.targets(1)) == []
    assert (place(wire), has_file(files, tmp_path)) == ("/a", False)


def test_many_moves_end_in_one_change(tmp_path: Path) -> None:
    count = 500
    wire = TestCluster(tmp_path, config={"log.dirs": "/a,/b", **_FETCH})
    new = NewTopic(name="t", partitions=count, replication_factor=1)
    wire.cluster.metadata.create_topics([new])
    limit(wire, "1")
    topic = wire.cluster.partitions.topic("t")
    assert topic is not None
    moves = wire.cluster.log_directories.moves
    for partition in topic.partitions:
        partition.append(BatchView(batch_of(b"v")), wire.clock.now_ms())
        partition.append(BatchView(batch_of(_VALUE)), wire.clock.now_ms())
        moves.begin(1, partition, "/b")
    assert list(moves.targets(1)) == ["/b"] * count
    changes: list[MetadataDelta] = []
    wire.cluster.metadata.subscribe(lambda _, delta: changes.append(delta))
    limit(wire, None)
    assert list(moves.targets(1)) == []
    images = wire.cluster.metadata.image.topics["t"].partitions
    assert {wire.cluster.log_directories.path_of(1, image) for image in images} == {"/b"}
    assert len(changes) == 2
