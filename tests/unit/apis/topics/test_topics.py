"""CreateTopics, DeleteTopics, CreatePartitions: a result for each topic of a request."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from kafkalite.apis.topics.topics import APIS, MAX_TOPICS_PER_DECISION
from kafkalite.cluster.pace import PUBLICATION_MS
from kafkalite.metadata.creation import NewTopic
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.cluster.metadata import MetadataCluster

if TYPE_CHECKING:
    from pathlib import Path

CREATE, DELETE, GROW = APIS
Topic = CreateTopicsRequest.CreatableTopic
State = DeleteTopicsRequest.DeleteTopicState


def topic(name: str, **configs: str) -> Topic:
    return Topic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def cluster_with(*names: str, **config: str) -> MetadataCluster:
    cluster = MetadataCluster(nodes=(1,), **config)  # type: ignore[arg-type]
    cluster.controller.create_topics([NewTopic(name=name) for name in names])
    return cluster


def test_a_created_topic_is_returned_with_all_its_settings() -> None:
    cluster = MetadataCluster()
    request = CreateTopicsRequest(topics=[topic("t", retention_ms=" 5 ")])
    (made,) = cluster.ask(CREATE, request).topics
    assert (made.error_code, made.error_message) == (ErrorCode.NONE, None)
    assert made.topic_id == cluster.topic("t").topic_id
    assert (made.num_partitions, made.replication_factor) == (1, 1)
    configs = {config.name: config for config in made.configs}
    assert len(configs) == 37
    # Java's admin client fails if a source is below 1 or the list is null.
    assert min(config.config_source for config in configs.values()) == 1
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == (" 5 ", 1)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == (
        "delete",
        5,
    )


def test_a_repeated_topic_is_not_created() -> None:
    cluster = MetadataCluster()
    request = CreateTopicsRequest(topics=[topic("t"), topic("u"), topic("t")])
    answer = cluster.ask(CREATE, request)
    assert [(each.name, each.error_code, each.error_message) for each in answer.topics] == [
        ("t", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
        ("u", ErrorCode.NONE, None),
    ]
    assert list(cluster.image.topics) == ["u"]


def test_many_topics_are_created_together_or_not_at_all() -> None:
    """They are created in several decisions; the limit of partitions is that of a request."""
    cluster = MetadataCluster()
    names = [f"t{number}" for number in range(MAX_TOPICS_PER_DECISION + 1)]
    wide = topic("wide")
    wide.num_partitions = 9_700
    request = CreateTopicsRequest(topics=[*map(topic, names), wide])
    refused = cluster.ask(CREATE, request).topics
    assert {each.error_code for each in refused} == {ErrorCode.POLICY_VIOLATION}
    assert cluster.image.topics == {}
    created = cluster.ask(CREATE, CreateTopicsRequest(topics=list(map(topic, names)))).topics
    assert [(each.name, each.error_code) for each in created] == [
        (name, ErrorCode.NONE) for name in names
    ]
    assert set(cluster.image.topics) == set(names)


def test_a_topic_must_be_identified_once_by_name_or_id() -> None:
    cluster = cluster_with("t")
    topic_id = cluster.topic("t").topic_id
    twice = b"2" * 16
    states = [
        State(),
        State(name="x", topic_id=b"x" * 16),
        State(topic_id=twice),
        State(topic_id=twice),
        State(topic_id=topic_id),
        State(name="t"),
    ]
    answer = cluster.ask(DELETE, DeleteTopicsRequest(topics=states, timeout_ms=1_000))
    assert [(each.name, each.error_message) for each in answer.responses] == [
        (None, "Neither topic name nor id were specified."),
        ("x", "You may not specify both topic name and topic id."),
        (None, "Duplicate topic id."),
        ("t", "The provided topic name maps to an ID that was already supplied."),
    ]
    assert list(cluster.image.topics) == ["t"]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.INVALID_REQUEST),
        (3, ErrorCode.TOPIC_DELETION_DISABLED),
        (6, ErrorCode.TOPIC_DELETION_DISABLED),
    ],
)
def test_deletion_can_be_disabled(version: int, code: ErrorCode) -> None:
    cluster = cluster_with("t", delete_topic_enable="false")
    answer = cluster.ask(
        DELETE, DeleteTopicsRequest(topics=[State(name="t")], timeout_ms=1_000), version
    )
    assert [each.error_code for each in answer.responses] == [code]
    assert "t" in cluster.image.topics


def test_partitions_are_added_with_a_result_for_each_topic() -> None:
    cluster = cluster_with("t", "u")
    grow = CreatePartitionsRequest.CreatePartitionsTopic
    request = CreatePartitionsRequest(
        topics=[
            grow(name="t", count=3, assignments=None),
            grow(name="u", count=1, assignments=None),
            grow(name="d", count=2, assignments=None),
            grow(name="d", count=2, assignments=None),
        ],
        timeout_ms=1_000,
    )
    answer = cluster.ask(GROW, request)
    assert [(each.name, each.error_code, each.error_message) for each in answer.results] == [
        ("t", ErrorCode.NONE, None),
        ("u", ErrorCode.INVALID_PARTITIONS, "Topic already has 1 partition(s)."),
        ("d", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    ]
    assert len(cluster.topic("t").partitions) == 3


def test_a_refusal_lists_every_topic() -> None:
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    made = CREATE.refuse(CreateTopicsRequest(topics=[topic("t")]), code, "why")
    assert [(each.name, each.error_message) for each in made.topics] == [("t", "why")]
    grow = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=2)
    grown = GROW.refuse(CreatePartitionsRequest(topics=[grow], timeout_ms=1_000), code, "why")
    assert [(each.name, each.error_message) for each in grown.results] == [("t", "why")]


def test_a_topic_deleted_during_a_long_deletion_is_not_deleted_twice() -> None:
    names = [f"t{number}" for number in range(1_000)]
    cluster = cluster_with(*names)
    answers: list[Any] = []
    request = DeleteTopicsRequest(topic_names=names, timeout_ms=1_000)
    worker = Worker()
    worker.task = lambda: answers.append(cluster.ask(DELETE, request, version=5))
    while len(cluster.image.topics) == len(names):
        assert worker.take_turn(0.0) is worker
    cluster.controller.delete_topics([cluster.topic(names[-1]).topic_id])
    assert worker.take_turn(inf) is None
    codes = [each.error_code for each in answers[0].responses]
    assert codes == [ErrorCode.NONE] * 999 + [ErrorCode.UNKNOWN_TOPIC_ID]


def test_brokers_know_topics_late_with_the_pace_of_kafka(tmp_path: Path) -> None:
    """The controller and the response of CreateTopics have them at once."""
    wire = TestCluster(tmp_path, is_paced=True)
    node = wire.cluster.nodes[1]
    late = 0
    for number in range(20):
        name = f"t{number}"
        request = CreateTopicsRequest(topics=[topic(name)], timeout_ms=1_000)
        assert wire.ask(request, 7).topics[0].error_code == ErrorCode.NONE
        assert name in wire.cluster.metadata.image.topics
        late += name not in node.image.topics
        wire.clock.advance(int(PUBLICATION_MS[-1]) + 1)
        assert name in node.image.topics
    assert 10 <= late <= 19
    request.validate_only = True
    request.topics[0].name = "not created"
    wire.ask(request, 7)
    assert not node.is_metadata_delayed
    wire.end()
