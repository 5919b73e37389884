"""DescribeTopicPartitions: pages without gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.apis.topics.topic_partitions import APIS
from kafkalite.metadata.creation import NewTopic
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.cluster.cluster import TestCluster
from tests.cluster.metadata import MetadataCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

(DESCRIBE,) = APIS
Cursor = DescribeTopicPartitionsRequest.Cursor


def request(
    *names: str, limit: int = 2000, cursor: Cursor | None = None
) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=cursor,
    )


@pytest.fixture
def cluster() -> MetadataCluster:
    cluster = MetadataCluster()
    cluster.controller.create_topics(
        [NewTopic(name=name, partitions=count) for name, count in (("b", 3), ("a", 4), ("c", 1))]
    )
    return cluster


def test_topics_are_ordered_by_name(cluster: MetadataCluster) -> None:
    answer = cluster.ask(DESCRIBE, request())
    assert [(each.name, len(each.partitions)) for each in answer.topics] == [
        ("a", 4),
        ("b", 3),
        ("c", 1),
    ]
    assert answer.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 7, 8, 100])
def test_all_pages_together_are_complete(cluster: MetadataCluster, limit: int) -> None:
    whole = [
        (topic.name, partition.partition_index)
        for topic in cluster.ask(DESCRIBE, request()).topics
        for partition in topic.partitions
    ]
    joined: list[tuple[str, int]] = []
    cursor: Cursor | None = None
    while True:
        answer = cluster.ask(DESCRIBE, request(limit=limit, cursor=cursor))
        page = [
            (topic.name, partition.partition_index)
            for topic in answer.topics
            for partition in topic.partitions
        ]
        assert 0 < len(page) <= limit
        joined += page
        if answer.next_cursor is None:
            break
        cursor = Cursor(
            topic_name=answer.next_cursor.topic_name,
            partition_index=answer.next_cursor.partition_index,
        )
    assert joined == whole


def test_the_broker_limits_a_page() -> None:
    cluster = MetadataCluster(max_request_partition_size_limit="2")
    cluster.controller.create_topics([NewTopic(name="t", partitions=5)])
    answer = cluster.ask(DESCRIBE, request())
    assert len(answer.topics[0].partitions) == 2
    assert answer.next_cursor.partition_index == 2


def test_unknown_topics_are_listed_in_order(cluster: MetadataCluster) -> None:
    answer = cluster.ask(DESCRIBE, request("b", "aa", "a b"))
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("aa", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("b", ErrorCode.NONE),
    ]


@pytest.mark.parametrize(
    "cursor", [Cursor(topic_name="b", partition_index=0), Cursor(topic_name="a")]
)
def test_an_invalid_cursor_is_refused(cluster: MetadataCluster, cursor: Cursor) -> None:
    if cursor.topic_name == "a":
        cursor.partition_index = -1
    answer = cluster.ask(DESCRIBE, request("a", cursor=cursor))
    assert [each.error_code for each in answer.topics] == [ErrorCode.INVALID_REQUEST]


# --- eligible leader replicas (KIP-966) ----------------------------------------------------------


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    """Return a cluster with topic t on nodes 2 and 3, of which both must be in sync."""
    wire = TestCluster(tmp_path, 3)
    topic = NewTopic("t", assignments=((0, (2, 3)),), configs={"min.insync.replicas": "2"})
    (creation,) = wire.cluster.metadata.create_topics([topic])
    assert creation.error is None
    yield wire
    wire.end()


def state(wire: TestCluster) -> tuple[int, int, list[int], list[int], list[int]]:
    """Return error code, leader, ISR, ELR and last known ELR."""
    (row,) = wire.ask(request("t"), 0).topics[0].partitions
    return (
        row.error_code,
        row.leader_id,
        row.isr_nodes,
        row.eligible_leader_replicas,
        row.last_known_elr,
    )


def test_isolated_replica_remains_eligible(wire: TestCluster) -> None:
    control = wire.cluster.node_control
    control.isolate(3)
    wire.clock.advance(9_000)
    control.stop(2)
    assert state(wire) == (ErrorCode.NONE, -1, [], [3, 2], [2])
    control.start(3)
    assert state(wire) == (ErrorCode.NONE, 3, [3], [2], [])
