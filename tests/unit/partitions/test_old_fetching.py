"""Answers of Fetch for clients before version 10 are converted, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.data import fetch
from kafkalite.config.releases import emulated_release
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.data_plane import DataPlane

if TYPE_CHECKING:
    from pathlib import Path

(FETCH,) = fetch.APIS


@pytest.fixture
def plane(tmp_path: Path) -> DataPlane:
    return DataPlane(tmp_path)


def answer_of(
    plane: DataPlane, version: int, max_bytes: int = 10_000
) -> FetchResponse.PartitionData:
    partition = FetchRequest.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=max_bytes
    )
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])])
    response: FetchResponse = plane.ask(FETCH, request, version)
    return response.responses[0].partitions[0]


def test_topics_with_zstd_are_refused_before_version_10_and_kafka_4(plane: DataPlane) -> None:
    plane.create()
    plane.configure("t", {"compression.type": "zstd"})
    assert answer_of(plane, 9).error_code == ErrorCode.NONE
    plane.config.of_node(0).release = emulated_release("3.9")
    codes = [answer_of(plane, version).error_code for version in (0, 3, 4, 9, 10)]
    refused = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert codes == [refused] * 4 + [ErrorCode.NONE]
