"""Topics in the variable KAFKA_CREATE_TOPICS."""

from __future__ import annotations

import pytest

from kafkalite.docker.properties import VariableError
from kafkalite.docker.topics import TopicToCreate, topics_to_create


def test_options_of_topics_are_configurations() -> None:
    (topic,) = created("orders:3:1:compact --config=retention.ms=60000 --config segment.ms=5")
    assert topic.settings == {
        "cleanup.policy": "compact",
        "retention.ms": "60000",
        "segment.ms": "5",
    }


def created(text: str, nodes: int = 1, separator: str = "") -> list[TopicToCreate]:
    environment = {"KAFKA_CREATE_TOPICS": text, "KAFKA_CREATE_TOPICS_SEPARATOR": separator}
    return topics_to_create(environment, nodes)


def test_topics_have_partitions_and_a_policy() -> None:
    assert created(" a:3:1 ,b:1:1:compact,c:2,d,") == [
        TopicToCreate("a", 3),
        TopicToCreate("b", 1, "compact"),
        TopicToCreate("c", 2),
        TopicToCreate("d", 1),
    ]
    assert created("") == []


def test_separator_is_a_regular_expression() -> None:
    assert created("a:1:1;b:2:1", separator=";") == [TopicToCreate("a", 1), TopicToCreate("b", 2)]
    assert created("a:1:1\n b:2:1", separator="$'\\n'") == created("a:1:1,b:2:1")
    with pytest.raises(VariableError, match="KAFKA_CREATE_TOPICS_SEPARATOR is not a regular"):
        created("a", separator="(")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a:x:1", "'a:x:1' has 'x' partitions; valid is NAME:PARTITIONS:REPLICAS:CLEANUP_POLICY"),
        ("a:0:1", "'a:0:1' has '0' partitions"),
        (":1:1", "is not a topic"),
        ("a:1:1:compact:1", "is not a topic"),
        ("a:1:1:fast", "has the cleanup policy 'fast', which is not delete or compact"),
        ("a:1:3", "has 3 replicas, .* with 1 node: set KAFKALITE_BROKERS=3"),
    ],
)
def test_invalid_topic_is_refused(text: str, error: str) -> None:
    with pytest.raises(VariableError, match=error):
        created(text)


def test_replicas_may_be_as_many_as_nodes() -> None:
    assert created("a:1:3", nodes=3) == [TopicToCreate("a", 1, replicas=3)]
