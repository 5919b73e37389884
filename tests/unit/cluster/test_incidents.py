"""Incidents of a cluster: what they change, and when there is nothing to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.cluster import incidents
from kafkalite.metadata.creation import NewTopic
from kafkalite.metadata.image import ConfigResource, ResourceType
from kafkalite.protocol.acl_operations import Entity
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.transactions import ID, TransactionCluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CAUSE = "a test"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[TransactionCluster]:
    cluster = TransactionCluster(tmp_path, nodes=2)
    yield cluster
    cluster.end()


def texts(cluster: TransactionCluster) -> list[str]:
    return [each.text for each in cluster.cluster.history.latest()]


def test_a_replaced_topic_has_the_same_replicas_and_configurations(
    cluster: TransactionCluster,
) -> None:
    topic = NewTopic("t", assignments=((0, (2, 1)), (1, (1, 2))), configs={"retention.ms": "5000"})
    cluster.controller.create_topics([topic])
    before = cluster.controller.image.topics["t"]
    assert incidents.replace_topic(cluster.cluster, "t", CAUSE)
    image = cluster.controller.image
    assert image.topics["t"].topic_id != before.topic_id
    assert [each.replicas for each in image.topics["t"].partitions] == [
        each.replicas for each in before.partitions
    ]
    assert image.configs[ConfigResource(ResourceType.TOPIC, "t")] == {"retention.ms": "5000"}
    assert texts(cluster)[-1] == "a test deleted topic t and created it again"


@pytest.mark.parametrize("topic", ["unknown", "__transaction_state"])
def test_unknown_and_internal_topics_are_not_replaced(
    cluster: TransactionCluster, topic: str
) -> None:
    before = cluster.controller.image.topics
    assert not incidents.replace_topic(cluster.cluster, topic, CAUSE)
    assert cluster.controller.image.topics == before


def test_leaders_and_coordinators_stay_where_no_other_node_can_take_over(
    cluster: TransactionCluster,
) -> None:
    cluster.controller.create_topics([NewTopic("t", assignments=((0, (1, 2)),))])
    assert incidents.move_leader(cluster.cluster, "orders", 0, CAUSE) is None
    assert incidents.move_leader(cluster.cluster, "unknown", 0, CAUSE) is None
    assert incidents.move_leader(cluster.cluster, "t", 0, CAUSE) == 2
    cluster.cluster.node_control.stop(1)
    assert incidents.move_leader(cluster.cluster, "t", 0, CAUSE) is None
    assert incidents.move_coordinator(cluster.cluster, Entity.GROUP, "g", CAUSE) is None
    assert not incidents.reload_coordinator(cluster.cluster, Entity.GROUP, "g", CAUSE)


def test_only_records_that_consumers_can_read_are_deleted(cluster: TransactionCluster) -> None:
    assert incidents.delete_records(cluster.cluster, "orders", 0, 0, CAUSE) is None
    assert incidents.delete_records(cluster.cluster, "__transaction_state", 0, 0, CAUSE) is None
    assert incidents.delete_records(cluster.cluster, "unknown", 0, 0, CAUSE) is None


def test_a_fenced_producer_loses_its_transaction(cluster: TransactionCluster) -> None:
    producer = cluster.new_producer(node=cluster.find()[0])
    node = cluster.find()[0]
    assert cluster.add(producer, ("orders", 0), node=node) == {("orders", 0): 0}
    fenced = incidents.fence(cluster.cluster, ID, CAUSE)
    assert fenced.producer_id == producer.producer_id
    assert fenced.producer_epoch > producer.producer_epoch
    assert cluster.describe(node=node).transaction_state == "CompleteAbort"
    answer = cluster.end_transaction(producer, node=node, version=3)
    assert answer.error_code == ErrorCode.PRODUCER_FENCED
    (event,) = [each for each in cluster.events() if each.kind == "fenced"][:1]
    assert event.text.endswith("by a test")
    with pytest.raises(KafkaError) as refused:
        incidents.fence(cluster.cluster, "unknown", CAUSE)
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
