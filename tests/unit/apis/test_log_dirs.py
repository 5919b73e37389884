"""DescribeLogDirs: what each node's replicas weigh, as the disk has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.log_dirs import APIS
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
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


def described(plane: DataPlane, wanted: dict[str, list[int]] | None, *, node_id: int = 0) -> Any:  # noqa: ANN401 - a generated result
    topics = None
    if wanted is not None:
        topics = [
            DescribeLogDirsRequest.DescribableLogDirTopic(topic=name, partitions=indexes)
            for name, indexes in wanted.items()
        ]
    (result,) = plane.ask(API, DescribeLogDirsRequest(topics=topics), node_id=node_id).results
    return result


def sizes(result: Any) -> dict[tuple[str, int], int]:  # noqa: ANN401 - a generated result
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in result.topics
        for partition in topic.partitions
    }


def test_sizes_are_those_of_the_files(plane: DataPlane, tmp_path: Path) -> None:
    result = described(plane, None)
    told = sizes(result)
    assert set(told) == {("t", 0), ("t", 1), ("u", 0)}
    for (name, index), size in told.items():
        assert size == sum(each.stat().st_size for each in tmp_path.glob(f"{name}-{index}/*.log"))
    assert told["t", 1] > 0
    assert result.log_dir == str(tmp_path)
    assert 0 < result.usable_bytes <= result.total_bytes


def test_a_node_tells_of_its_own_replicas(plane: DataPlane) -> None:
    assert set(sizes(described(plane, None, node_id=1))) == {("u", 0)}


def test_only_what_is_asked_for_and_there_is_told(plane: DataPlane) -> None:
    assert set(sizes(described(plane, {"t": [1, 7], "nope": [0]}))) == {("t", 1)}
    assert sizes(described(plane, {})) == {}


def test_a_refusal_has_no_directories() -> None:
    refused = API.refuse(DescribeLogDirsRequest(), ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert (refused.error_code, refused.results) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
