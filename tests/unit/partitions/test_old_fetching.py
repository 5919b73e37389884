"""Answers of Fetch for clients before version 10 are converted, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.data import fetch, produce
from kafkalite.config.releases import emulated_release
from kafkalite.protocol._generated.messages.fetch import FetchRequest, FetchResponse
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.message_sets import Message, described
from tests.unit.data_plane import DataPlane, values_in

if TYPE_CHECKING:
    from pathlib import Path

(FETCH,), (PRODUCE,) = fetch.APIS, produce.APIS


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


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_batches_are_sent_as_messages(plane: DataPlane, version: int, magic: int) -> None:
    plane.create()
    plane.append(b"0", b"1")
    (first, second, *_) = described(bytes(answer_of(plane, version).records or b""))
    assert first.startswith(f"0: format {magic}, attributes 0")
    assert second.endswith("value b'1'")


def test_batches_are_sent_unchanged_since_version_4(plane: DataPlane) -> None:
    plane.create()
    plane.append(b"0", b"1")
    assert values_in(answer_of(plane, 4).records) == [b"0", b"1"]


def test_a_batch_above_the_limit_is_sent_since_version_3(plane: DataPlane) -> None:
    plane.create()
    plane.append(b"0")
    sent = [bool(answer_of(plane, version, max_bytes=10).records) for version in range(4)]
    assert sent == [False, False, False, True]


def test_topics_with_zstd_are_refused_before_version_10_and_kafka_4(plane: DataPlane) -> None:
    plane.create()
    plane.configure("t", {"compression.type": "zstd"})
    assert answer_of(plane, 9).error_code == ErrorCode.NONE
    plane.config.release = emulated_release("3.9")
    codes = [answer_of(plane, version).error_code for version in (0, 3, 4, 9, 10)]
    refused = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert codes == [refused] * 4 + [ErrorCode.NONE]


def test_a_message_set_is_appended_as_a_batch(plane: DataPlane) -> None:
    plane.create()
    rows = [
        ProduceRequest.PartitionProduceData(index=0, records=records)
        for records in (Message(value=b"0").encode() + Message(value=b"1", key=None).encode(),)
    ]
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=rows)
    for version in (0, 1, 2):
        response = plane.ask(PRODUCE, ProduceRequest(acks=-1, topic_data=[topic]), version)
        (answer,) = response.responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 2 * version)
    assert values_in(answer_of(plane, 4).records) == [b"0", b"1"] * 3
