"""A request for the controller whose time is over changes nothing; some others time out, too."""

# ruff: noqa: ANN401 - requests and responses of several APIs
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalite.apis.table import TABLE
from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol import catalogue, codec
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol.api_keys import ApiKey
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.conformance.batches import Batch, batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalite.metadata.image import MetadataImage

TOPIC: Final = "t"
NO_TIME: Final = (0, -1)
TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path, nodes=3)
    wire.cluster.metadata.create_topics([NewTopic(name=TOPIC, assignments=((0, (2, 1)),))])
    wire.cluster.metadata.move_leader(TOPIC, 0, 1)
    yield wire
    wire.end()


def create(request: Any, version: int, timeout_ms: int, *names: str) -> Any:
    del version
    row = request.CreatableTopic
    topics = [row(name=name, num_partitions=1, replication_factor=1) for name in names or ("new",)]
    return request(topics=topics, timeout_ms=timeout_ms)


def delete(request: Any, version: int, timeout_ms: int, *names: str | None) -> Any:
    names = names or (TOPIC,)
    if version < 6:
        return request(topic_names=list(names), timeout_ms=timeout_ms)
    states = [request.DeleteTopicState(name=name) for name in names]
    return request(topics=states, timeout_ms=timeout_ms)


def grow(request: Any, version: int, timeout_ms: int, *names: str) -> Any:
    del version
    row = request.CreatePartitionsTopic
    topics = [row(name=name, count=2, assignments=None) for name in names or (TOPIC,)]
    return request(topics=topics, timeout_ms=timeout_ms)


def elect(request: Any, version: int, timeout_ms: int) -> Any:
    del version
    row = request.TopicPartitions(topic=TOPIC, partitions=[0])
    return request(topic_partitions=[row], timeout_ms=timeout_ms)


def reassign(request: Any, version: int, timeout_ms: int) -> Any:
    del version
    row = request.ReassignablePartition(partition_index=0, replicas=[1, 2, 3])
    topic = request.ReassignableTopic(name=TOPIC, partitions=[row])
    return request(topics=[topic], timeout_ms=timeout_ms)


def state(image: MetadataImage) -> dict[str, Any]:
    return {name: topic.partitions for name, topic in image.topics.items()}


CHANGES: Final[tuple[tuple[ApiKey, Any], ...]] = (
    (ApiKey.CREATE_TOPICS, create),
    (ApiKey.DELETE_TOPICS, delete),
    (ApiKey.CREATE_PARTITIONS, grow),
    (ApiKey.ELECT_LEADERS, elect),
    (ApiKey.ALTER_PARTITION_REASSIGNMENTS, reassign),
)
"""API key and request: the changes that Kafka's controller makes in time only."""


def versions(key: ApiKey) -> range:
    return range(TABLE[key].lowest, TABLE[key].highest + 1)


def errors(key: ApiKey, response: Any) -> list[int]:
    return [code for code in catalogue.error_codes(key, response) if code]


@pytest.mark.parametrize("timeout_ms", NO_TIME)
@pytest.mark.parametrize(("key", "build"), CHANGES, ids=lambda each: getattr(each, "name", ""))
def test_a_change_without_time_is_not_made(
    wire: TestCluster, key: ApiKey, build: Any, timeout_ms: int
) -> None:
    before = state(wire.cluster.metadata.image)
    request = codec.request_class(key)
    for version in versions(key):
        response = wire.ask(build(request, version, timeout_ms), version)
        assert set(errors(key, response)) == {TIMED_OUT}, version
        assert state(wire.cluster.metadata.image) == before
    latest = versions(key)[-1]
    wire.ask(build(request, latest, 1), latest)
    assert state(wire.cluster.metadata.image) != before


@pytest.mark.parametrize(
    ("key", "names", "expected"),
    [
        (ApiKey.DELETE_TOPICS, ("unknown",), [TIMED_OUT]),
        (ApiKey.DELETE_TOPICS, ("a", "a"), [ErrorCode.INVALID_REQUEST]),
        (ApiKey.CREATE_PARTITIONS, ("unknown",), [TIMED_OUT]),
        (ApiKey.CREATE_PARTITIONS, ("a", "a", "b"), [TIMED_OUT] * 3),
    ],
)
def test_only_what_the_controller_would_decide_times_out(
    wire: TestCluster, key: ApiKey, names: tuple[str, ...], expected: list[ErrorCode]
) -> None:
    latest = versions(key)[-1]
    request = dict(CHANGES)[key](codec.request_class(key), latest, 0, *names)
    assert errors(key, wire.ask(request, latest)) == expected


def test_an_empty_list_of_topics_to_delete_does_not_time_out(wire: TestCluster) -> None:
    request = codec.request_class(ApiKey.DELETE_TOPICS)(topics=[], timeout_ms=0)
    assert not errors(ApiKey.DELETE_TOPICS, wire.ask(request, 6))


# Requests that wait for replicas


def produce(wire: TestCluster, topic: str, records: bytes, timeout_ms: int, acks: int = -1) -> Any:
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    row = ProduceRequest.TopicProduceData(name=topic, partition_data=[data])
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[row])
    (answered,) = wire.ask(request, 12).responses[0].partition_responses
    return ErrorCode(answered.error_code), answered.base_offset


def delete_records(wire: TestCluster, topic: str, offset: int, timeout_ms: int) -> Any:
    rows = DeleteRecordsRequest
    partition = rows.DeleteRecordsPartition(partition_index=0, offset=offset)
    row = rows.DeleteRecordsTopic(name=topic, partitions=[partition])
    request = DeleteRecordsRequest(topics=[row], timeout_ms=timeout_ms)
    (answered,) = wire.ask(request, 2).topics[0].partitions
    return ErrorCode(answered.error_code), answered.low_watermark


@pytest.mark.parametrize("timeout_ms", NO_TIME)
def test_no_follower_has_a_batch_without_time_but_it_is_appended(
    wire: TestCluster, timeout_ms: int
) -> None:
    records = Batch(producer_id=1, producer_epoch=0, base_sequence=0).encode()
    assert produce(wire, TOPIC, records, timeout_ms) == (TIMED_OUT, 0)
    assert produce(wire, TOPIC, records, timeout_ms) == (ErrorCode.NONE, 0)  # a duplicate
    assert produce(wire, TOPIC, batch(b"b"), timeout_ms, acks=1) == (ErrorCode.NONE, 1)
    assert produce(wire, TOPIC, batch(b"c"), 1) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("timeout_ms", NO_TIME)
def test_a_leader_without_followers_in_sync_needs_no_time(
    wire: TestCluster, timeout_ms: int
) -> None:
    wire.cluster.node_control.stop(2)
    assert produce(wire, TOPIC, batch(b"a"), timeout_ms) == (ErrorCode.NONE, 0)
    assert delete_records(wire, TOPIC, 1, timeout_ms) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("timeout_ms", NO_TIME)
def test_no_follower_deletes_records_without_time_but_the_leader_does(
    wire: TestCluster, timeout_ms: int
) -> None:
    produce(wire, TOPIC, batch(b"a"), 1_000)
    produce(wire, TOPIC, batch(b"b"), 1_000)
    assert delete_records(wire, TOPIC, 1, timeout_ms) == (TIMED_OUT, 0)
    assert delete_records(wire, TOPIC, 1, timeout_ms) == (ErrorCode.NONE, 1)  # nothing to delete
    assert delete_records(wire, TOPIC, 2, 1) == (ErrorCode.NONE, 2)
