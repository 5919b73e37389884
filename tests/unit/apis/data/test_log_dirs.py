"""DescribeLogDirs: the sizes of each node's replicas on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.data.log_dirs import APIS
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path

(API,) = APIS


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


def test_only_existing_requested_partitions_are_reported(plane: DataPlane) -> None:
    assert set(sizes(described(plane, {"t": [1, 7], "nope": [0]}))) == {("t", 1)}
    assert sizes(described(plane, {})) == {}


def test_a_refusal_has_no_directories() -> None:
    refused = API.refuse(DescribeLogDirsRequest(), ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert (refused.error_code, refused.results) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
