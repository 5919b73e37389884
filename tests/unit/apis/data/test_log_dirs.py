"""DescribeLogDirs and AlterReplicaLogDirs: each node's replicas in the log directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.data.log_dirs import APIS
from kafkalite.protocol._generated.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
)
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path

API, ALTER = APIS


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    plane = DataPlane(tmp_path)
    plane.create("t", partitions=2)
    plane.create("u", replicas=(0, 1))
    plane.append(b"value", name="t", index=1)
    return plane


def described(plane: DataPlane, requested: dict[str, list[int]] | None, *, node_id: int = 0) -> Any:  # noqa: ANN401 - a generated result
    topics = None
    if requested is not None:
        topics = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in requested.items()
        ]
    (result,) = plane.ask(API, DescribeLogDirsRequest(topics=topics), node_id=node_id).results
    return result


def sizes(result: Any) -> dict[tuple[str, int], int]:  # noqa: ANN401 - a generated result
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


def test_sizes_are_the_sizes_of_the_files(plane: DataPlane, tmp_path: Path) -> None:
    result = described(plane, None)
    found = sizes(result)
    assert set(found) == {("t", 0), ("t", 1), ("u", 0)}
    for (name, index), size in found.items():
        assert size == sum(each.stat().st_size for each in tmp_path.glob(f"{name}-{index}/*.log"))
    assert found["t", 1] > 0
    assert result.log_dir == str(tmp_path)
    assert 0 < result.usable_bytes <= result.total_bytes


def test_a_node_reports_its_own_replicas(plane: DataPlane) -> None:
    assert set(sizes(described(plane, None, node_id=1))) == {("u", 0)}


def test_a_refusal_has_no_directories() -> None:
    refused = API.refuse(DescribeLogDirsRequest(), ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert (refused.error_code, refused.results) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


LONG_NAME = "n" * 213


def moved(
    plane: DataPlane, *moves: tuple[str, str, list[int]], node_id: int = 0
) -> dict[tuple[str, int], int]:
    """Request moves, (path, topic, indexes); return the error code of each partition."""
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path=path,
                topics=[
                    AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(
                        name=name, partitions=indexes
                    )
                ],
            )
            for path, name, indexes in moves
        ]
    )
    return {
        (result.topic_name, each.partition_index): each.error_code
        for result in plane.ask(ALTER, request, node_id=node_id).results
        for each in result.partitions
    }


def test_other_directories_are_unknown(plane: DataPlane, tmp_path: Path) -> None:
    for path in (f"{tmp_path}/", "/nowhere", ""):
        assert moved(plane, (path, "t", [0]), (path, "nope", [0])) == {
            ("t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
            ("nope", 0): ErrorCode.LOG_DIR_NOT_FOUND,
        }


def test_partitions_without_a_replica_cannot_be_moved(plane: DataPlane, tmp_path: Path) -> None:
    path = str(tmp_path)
    assert moved(plane, (path, "t", [0, 7]), (path, "u", [0]), (path, "x", [0]), node_id=1) == {
        ("t", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("u", 0): ErrorCode.NONE,
        ("x", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_the_last_directory_of_a_partition_counts(plane: DataPlane, tmp_path: Path) -> None:
    moves = [(str(tmp_path), "t", [0, 1]), ("/nowhere", "t", [1])]
    assert moved(plane, *moves) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.LOG_DIR_NOT_FOUND,
    }


def test_topics_with_very_long_names_cannot_be_moved(plane: DataPlane) -> None:
    assert moved(plane, ("/nowhere", LONG_NAME, [0, 10])) == {
        (LONG_NAME, 0): ErrorCode.LOG_DIR_NOT_FOUND,
        (LONG_NAME, 10): ErrorCode.INVALID_TOPIC_EXCEPTION,
    }


def test_a_refusal_has_the_error_of_every_partition() -> None:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path="/a",
                topics=[
                    AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(name="t", partitions=[3])
                ],
            )
        ]
    )
    (result,) = ALTER.refuse(request, ErrorCode.KAFKA_STORAGE_ERROR, None).results
    (row,) = result.partitions
    assert (result.topic_name, row.partition_index) == ("t", 3)
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
