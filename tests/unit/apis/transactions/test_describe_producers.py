"""DescribeProducers returns the producers of a partition and their open transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.duplicates import MAX_DUPLICATES
from kafkalite.apis.transactions.describe_producers import APIS
from kafkalite.protocol._generated.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
)
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.rows import refusal
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path

(API,) = APIS


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)


def describe(
    plane: DataPlane, name: str = "t", *indexes: int, node_id: int = 0
) -> list[DescribeProducersResponse.PartitionResponse]:
    topic = DescribeProducersRequest.TopicRequest(name=name, partition_indexes=list(indexes or [0]))
    response = plane.ask(API, DescribeProducersRequest(topics=[topic]), 0, node_id=node_id)
    (answer,) = response.topics
    assert answer.name == name
    partitions: list[DescribeProducersResponse.PartitionResponse] = answer.partitions
    return partitions


def test_an_invalid_name_is_explained(plane: DataPlane) -> None:
    (answer,) = describe(plane, "bad name")
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert answer.error_message is not None
    assert "'bad name' contains" in answer.error_message


def test_an_offline_partition_has_an_error(plane: DataPlane) -> None:
    plane.create_offline()
    assert describe(plane)[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_refusal_lists_every_partition() -> None:
    topic = DescribeProducersRequest.TopicRequest(name="t", partition_indexes=[0, 1])
    request = DescribeProducersRequest(topics=[topic])
    response = refusal(ApiKey.DESCRIBE_PRODUCERS, request, ErrorCode.UNKNOWN_SERVER_ERROR, "why")
    assert [
        (one.partition_index, one.error_code, one.error_message)
        for one in response.topics[0].partitions
    ] == [(0, -1, "why"), (1, -1, "why")]


def test_duplicates_of_a_partition_are_limited(plane: DataPlane) -> None:
    plane.create(partitions=2)
    answers = describe(plane, "t", *[1] * (MAX_DUPLICATES + 3), 0)
    assert [each.error_code for each in answers] == [
        *[ErrorCode.NONE] * (MAX_DUPLICATES + 1),
        *[ErrorCode.INVALID_REQUEST] * 2,
        ErrorCode.NONE,
    ]
