"""Answers to Metadata requests that nobody asked in just this way."""

from __future__ import annotations

from typing import Any

from kafkalite.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalite.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalite.replay.known_topics import KnownTopics
from tests.unit.replay.recorded import Recording

NAMES = {bytes(range(16)): "orders"}
NODE = MetadataResponse.MetadataResponseBroker(node_id=1, host="broker", port=9092)


def asked(*names: str) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    )


def shown(*topics: tuple[str, int, int]) -> MetadataResponse:
    """Return an answer that shows topics: name, error, partitions."""
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


def known() -> KnownTopics:
    recording = Recording()
    recording.say(asked("orders"), shown(("orders", 3, 0)), 12)
    recording.say(asked("orders"), shown(("orders", 0, 1)), 12)
    recording.say(HeartbeatRequest(), HeartbeatResponse(), 4)
    recording.say(asked("orders", "audit"), shown(("orders", 0, 2), ("audit", 0, 1)), 12)
    topics = KnownTopics()
    for exchange in recording.exchanges:
        topics.take(exchange)
    return topics


def told(request: MetadataRequest) -> Any:  # noqa: ANN401 - a MetadataResponse
    return known().answer(request, NAMES.get)


def names(response: Any) -> list[tuple[str, int]]:  # noqa: ANN401 - a MetadataResponse
    return [(row.name, len(row.partitions)) for row in response.topics]


def test_who_asks_for_all_gets_all_as_they_were_shown_last() -> None:
    assert names(told(MetadataRequest(topics=None))) == [("orders", 2), ("audit", 1)]


def test_who_asks_for_none_gets_the_nodes() -> None:
    response = told(asked())
    assert (names(response), [row.port for row in response.brokers]) == ([], [9092])


def test_topics_are_known_by_name_and_by_id() -> None:
    assert names(told(asked("audit"))) == [("audit", 1)]
    (topic_id,) = NAMES
    by_id = MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id)
    assert names(told(MetadataRequest(topics=[by_id]))) == [("orders", 2)]


def test_a_topic_nobody_saw_is_not_made_up() -> None:
    assert told(asked("orders", "other")) is None
    assert KnownTopics().answer(MetadataRequest(topics=None), NAMES.get) is None
