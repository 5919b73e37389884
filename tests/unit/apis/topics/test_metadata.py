"""Metadata: the cluster as clients of one listener see it, in each version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.topics.metadata import APIS
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.leadership import ElectionType
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.cluster.metadata import MetadataCluster

if TYPE_CHECKING:
    from pathlib import Path

(METADATA,) = APIS


def request_by_name(*names: str | None, **fields: object) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    rest: dict[str, Any] = {"allow_auto_topic_creation": False, **fields}
    return MetadataRequest(topics=topics, **rest)


def request_by_id(*topic_ids: bytes) -> MetadataRequest:
    return MetadataRequest(
        topics=[
            MetadataRequest.MetadataRequestTopic(name=None, topic_id=topic_id)
            for topic_id in topic_ids
        ]
    )


def cluster_with(*names: str, **kwargs: Any) -> MetadataCluster:  # noqa: ANN401 - passed on as they are
    cluster = MetadataCluster(**kwargs)
    cluster.controller.create_topics([NewTopic(name=name, partitions=2) for name in names])
    return cluster


def test_a_null_list_requests_all_topics() -> None:
    cluster = cluster_with("a", "b")
    answer = cluster.ask(METADATA, MetadataRequest(topics=None))
    assert [topic.name for topic in answer.topics] == ["a", "b"]
    assert [topic.topic_id for topic in answer.topics] == [
        cluster.topic("a").topic_id,
        cluster.topic("b").topic_id,
    ]
    assert (answer.cluster_id, answer.controller_id) == ("cluster", 1)


def test_each_listener_has_its_own_addresses() -> None:
    cluster = cluster_with("a", nodes=(1, 2))
    for listener, ports in (("PLAINTEXT", [9093, 9094]), ("OTHER", [19093, 19094])):
        answer = cluster.ask(METADATA, MetadataRequest(topics=None), listener=listener)
        assert [broker.port for broker in answer.brokers] == ports


def test_an_unknown_topic_has_an_error() -> None:
    answer = cluster_with("a").ask(METADATA, request_by_name("a", "nope", "bad name", "a"))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", ErrorCode.NONE),
        ("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]


@pytest.mark.parametrize(
    ("allowed", "enabled"), [(False, "true"), (True, "false"), (False, "false")]
)
def test_client_and_broker_must_both_enable_topic_creation(*, allowed: bool, enabled: str) -> None:
    cluster = cluster_with(auto_create_topics_enable=enabled)
    answer = cluster.ask(METADATA, request_by_name("new", allow_auto_topic_creation=allowed))
    assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.image.topics == {}


def test_a_failed_topic_creation_does_not_affect_other_topics() -> None:
    cluster = cluster_with("a")
    cluster.log.next_error = OSError(28, "no room")
    answer = cluster.ask(METADATA, request_by_name("a", "new", allow_auto_topic_creation=True))
    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert list(cluster.image.topics) == ["a"]


def test_topics_are_created_late_with_the_pace_of_kafka(tmp_path: Path) -> None:
    """Several requests create a topic once, and its history says so."""
    wire = TestCluster(tmp_path, is_paced=True)
    request = request_by_name("new", "other", allow_auto_topic_creation=True)
    for _ in range(3):
        for topic in wire.ask(request, 12).topics:
            assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wire.clock.advance(23)
    wire.create("other", 5)
    assert [topic.error_code for topic in wire.ask(request, 12).topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NONE,
    ]
    wire.clock.advance(52)
    topics = {topic.name: topic for topic in wire.ask(request, 12).topics}
    assert [topic.error_code for topic in topics.values()] == [ErrorCode.NONE] * 2
    assert (len(topics["new"].partitions), len(topics["other"].partitions)) == (1, 5)
    created = [
        entry for entry in wire.cluster.history.after(-1) if "created automatically" in entry.text
    ]
    assert [entry.topic for entry in created] == ["new"]
    wire.end()


def test_a_stop_cancels_late_creations(tmp_path: Path) -> None:
    wire = TestCluster(tmp_path, is_paced=True)
    request = request_by_name("new", allow_auto_topic_creation=True)
    wire.ask(request, 12)
    wire.restart()
    wire.clock.advance(75)
    assert "new" not in wire.cluster.metadata.image.topics
    wire.ask(request, 12)
    wire.clock.advance(75)
    assert "new" in wire.cluster.metadata.image.topics
    wire.end()


def test_the_offsets_topic_is_created_with_its_own_settings() -> None:
    cluster = cluster_with(offsets_topic_num_partitions="7")
    request = request_by_name("__consumer_offsets", allow_auto_topic_creation=True)
    first, second = (cluster.ask(METADATA, request).topics[0] for _ in range(2))
    assert (first.is_internal, len(first.partitions)) == (True, 0)
    assert (second.is_internal, len(second.partitions)) == (True, 7)
    assert cluster.image.topic_config("__consumer_offsets")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", [10, 11])
def test_versions_10_and_11_do_not_support_ids(version: int) -> None:
    cluster = cluster_with("a")
    topic_id = cluster.topic("a").topic_id
    both = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name="a", topic_id=topic_id)]
    )
    for request in (request_by_id(topic_id), both):
        answer = cluster.ask(METADATA, request, version)
        (topic,) = answer.topics
        assert (topic.error_code, topic.topic_id) == (ErrorCode.INVALID_REQUEST, topic_id)
        assert answer.brokers == []


def test_offline_replicas_are_reported_according_to_the_version() -> None:
    first = MetadataCluster(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    cluster = first.restart(2)
    new = cluster.ask(METADATA, request_by_name("t"), 13).topics[0].partitions[0]
    assert (new.error_code, new.leader_id, new.leader_epoch) == (ErrorCode.NONE, 2, 1)
    assert (new.replica_nodes, new.isr_nodes, new.offline_replicas) == ([1, 2], [2], [1])
    old = cluster.ask(METADATA, request_by_name("t"), 0).topics[0].partitions[0]
    assert (old.error_code, old.leader_id) == (ErrorCode.REPLICA_NOT_AVAILABLE, 2)
    assert (old.replica_nodes, old.isr_nodes) == ([2], [2])


def test_a_leader_without_an_address_is_not_available() -> None:
    """A node may lack a listener, and is then not visible to the clients of that listener."""
    cluster = cluster_with("t", nodes=(1, 2))
    cluster.controller.elect_leaders([("t", 0)], ElectionType.PREFERRED)
    cluster.racks = {2: None}
    answer = cluster.ask(METADATA, request_by_name("t"))
    unreachable = [each for each in answer.topics[0].partitions if each.leader_id == -1]
    assert [each.error_code for each in unreachable] == [ErrorCode.LEADER_NOT_AVAILABLE]


@pytest.mark.parametrize("is_on", [False, True])
def test_partition_epochs_are_in_responses_if_the_broker_uses_them(is_on: bool) -> None:  # noqa: FBT001
    cluster = cluster_with("a", kafkalite_partition_epochs=str(is_on).lower())
    cluster.controller.delete_topics([cluster.topic("a").topic_id])
    cluster.controller.create_topics([NewTopic(name="b", partitions=2)])
    answer = cluster.ask(METADATA, request_by_name("b"))
    epochs = [partition.incarnation_epoch for partition in answer.topics[0].partitions]
    expected = (5, [4, 5]) if is_on else (-1, [-1, -1])
    assert (answer.max_incarnation_epoch, epochs) == expected


@pytest.mark.parametrize("version", [0, 1, 5, 13])
def test_a_partition_without_a_leader_is_reported(version: int) -> None:
    cluster = MetadataCluster(nodes=(1, 2, 3))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (2, 3)),))])
    for node_id in (2, 3):
        cluster.controller.fence(node_id)
    answer = cluster.ask(METADATA, request_by_name("t"), version)
    assert [broker.node_id for broker in answer.brokers] == [1]
    ((partition,),) = (topic.partitions for topic in answer.topics)
    assert (partition.error_code, partition.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert partition.leader_epoch == 2
    assert (partition.replica_nodes, partition.isr_nodes) == ([2, 3] if version else [], [])
