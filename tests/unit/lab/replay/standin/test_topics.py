"""Responses to Metadata requests, composed from recorded topics."""

from __future__ import annotations

from typing import Any

from kafkalite.lab.replay.standin.topics import RecordedTopics
from kafkalite.protocol._generated.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol._generated.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.lab.replay.recording import Recording

TOPIC_NAMES = {bytes(range(16)): "orders"}
NODE = MetadataResponse.MetadataResponseBroker(node_id=1, host="broker", port=9092)


def metadata_request(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    )


def metadata_response(*topics: tuple[str, int, int]) -> MetadataResponse:
    """Return a response with topics, given as (name, error, number of partitions)."""
    partition = MetadataResponse.MetadataResponsePartition
    return MetadataResponse(
        brokers=[NODE],
        topics=[
            MetadataResponse.MetadataResponseTopic(
                name=name,
                error_code=error,
                partitions=[partition(partition_index=index) for index in range(partitions)],
            )
            for name, error, partitions in topics
        ],
    )


def learned() -> RecordedTopics:
    recording = Recording()
    recording.add(metadata_request("orders"), metadata_response(("orders", 3, 0)), 12)
    recording.add(metadata_request("orders"), metadata_response(("orders", 0, 1)), 12)
    recording.add(HeartbeatRequest(), HeartbeatResponse(), 4)
    recording.add(
        metadata_request("orders", "audit"),
        metadata_response(("orders", 0, 2), ("audit", 0, 1)),
        12,
    )
    topics = RecordedTopics()
    for exchange in recording.exchanges:
        topics.learn(exchange)
    return topics


def answer(request: MetadataRequest) -> Any:  # noqa: ANN401 - a MetadataResponse
    return learned().answer(request, TOPIC_NAMES.get)


def names(response: Any) -> list[tuple[str, int]]:  # noqa: ANN401 - a MetadataResponse
    return [(row.name, len(row.partitions)) for row in response.topics]


def test_all_topics_are_returned_as_last_recorded() -> None:
    assert names(answer(MetadataRequest(topics=None))) == [("orders", 2), ("audit", 1)]


def test_request_without_topics_gets_the_nodes() -> None:
    response = answer(metadata_request())
    assert (names(response), [row.port for row in response.brokers]) == ([], [9092])


def test_topics_are_found_by_name_and_by_id() -> None:
    assert names(answer(metadata_request("audit"))) == [("audit", 1)]
    (topic_id,) = TOPIC_NAMES
    by_id = MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id)
    assert names(answer(MetadataRequest(topics=[by_id]))) == [("orders", 2)]


def test_unknown_topic_has_no_answer() -> None:
    assert answer(metadata_request("orders", "other")) is None
    assert RecordedTopics().answer(MetadataRequest(topics=None), TOPIC_NAMES.get) is None
