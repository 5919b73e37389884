"""APIs whose permissions depend on more than one list: rows, their order, and hidden parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol._generated.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_configs import DescribeConfigsRequest
from kafkalite.protocol._generated.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest as ShareOffsetsRequest,
)
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol._generated.messages.fetch import FetchRequest
from kafkalite.protocol._generated.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.produce import ProduceRequest
from kafkalite.protocol._generated.messages.share_fetch import ShareFetchRequest
from kafkalite.protocol._generated.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
)
from kafkalite.protocol._generated.messages.sync_group import SyncGroupRequest
from kafkalite.protocol.acl_operations import Entity, Operation, Resource
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import ProtocolViolation
from kafkalite.security.acls import Acl, PatternType, PermissionType
from tests.cluster.cluster import TestCluster
from tests.conformance.batches import TRANSACTIONAL, Batch, batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "offsets.topic.num.partitions": "1",
}


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[TestCluster]:
    wire = TestCluster(tmp_path, config=CONFIG)
    for name in ("a", "b"):
        wire.create(name)
    wire.cluster.metadata.ensure_internal_topic("__consumer_offsets")
    yield wire
    wire.end()


def allow(wire: TestCluster, operation: Operation, resource: Resource, name: str) -> None:
    acl = Acl(
        resource, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, PermissionType.ALLOW
    )
    assert wire.cluster.metadata.create_acls([acl]) == [None]


def test_topics_of_a_list_are_refused_one_by_one(wire: TestCluster) -> None:
    allow(wire, Operation.READ, Resource.GROUP, "g")
    allow(wire, Operation.READ, Resource.TOPIC, "b")
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0)
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=[partition])
        for name in ("b", "a")
    ]
    response = wire.ask(OffsetCommitRequest(group_id="g", topics=topics), 9)
    codes = [(topic.name, topic.partitions[0].error_code) for topic in response.topics]
    assert codes == [("a", REFUSED), ("b", ErrorCode.NONE)]
    fetched = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
    (group,) = wire.ask(OffsetFetchRequest(groups=[fetched]), 9).groups
    assert [topic.name for topic in group.topics] == ["b"]


def test_refused_groups_and_topics_of_offset_fetch_have_their_own_rows(wire: TestCluster) -> None:
    allow(wire, Operation.DESCRIBE, Resource.GROUP, "g")
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "b")
    topics = [
        OffsetFetchRequest.OffsetFetchRequestTopics(name=name, partition_indexes=[0])
        for name in ("a", "b", "a")
    ]
    groups = [
        OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=topics)
        for group_id in ("other", "g")
    ]
    refused, answered = wire.ask(OffsetFetchRequest(groups=groups), 9).groups
    assert (refused.group_id, refused.error_code) == ("other", GROUP_REFUSED)
    assert refused.topics == []
    assert (answered.group_id, answered.error_code) == ("g", ErrorCode.NONE)
    assert [(topic.name, topic.partitions[0].error_code) for topic in answered.topics] == [
        ("b", ErrorCode.NONE),
        ("a", REFUSED),
        ("a", REFUSED),
    ]


def test_refused_groups_and_topics_of_share_offsets_have_their_own_rows(wire: TestCluster) -> None:
    allow(wire, Operation.READ, Resource.GROUP, "g")
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "b")
    beat = ShareGroupHeartbeatRequest(
        group_id="g", member_id="m" * 22, member_epoch=0, subscribed_topic_names=["b"]
    )
    assert wire.ask(beat, 1).error_code == ErrorCode.NONE
    topics = [
        ShareOffsetsRequest.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=[0])
        for name in ("a", "b", "a")
    ]
    groups = [
        ShareOffsetsRequest.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
        for group_id in ("other", "g")
    ]
    refused, answered = wire.ask(ShareOffsetsRequest(groups=groups), 0).groups
    assert (refused.group_id, refused.error_code) == ("other", GROUP_REFUSED)
    rows = [(topic.topic_name, topic.partitions[0].error_code) for topic in answered.topics]
    assert rows == [("b", ErrorCode.NONE), ("a", REFUSED), ("a", REFUSED)]


def test_an_expression_matches_only_topics_that_the_member_may_describe(wire: TestCluster) -> None:
    allow(wire, Operation.READ, Resource.GROUP, "g")
    allow(wire, Operation.READ, Resource.TOPIC, "b")
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[],
        subscribed_topic_regex=".*",
        topic_partitions=[],
    )

    def assigned() -> list[bytes]:
        response = wire.ask(beat, 1)
        assert response.error_code == ErrorCode.NONE
        return [each.topic_id for each in response.assignment.topic_partitions]

    topics = wire.cluster.metadata.image.topics
    assert assigned() == []
    wire.clock.advance(1)
    assert assigned() == [topics["b"].topic_id]
    assert "may not DESCRIBE them: " in " ".join(
        entry.text for entry in wire.cluster.history.about("g")
    )
    # As in Kafka, a new ACL applies when the expression is resolved again.
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "a")
    wire.clock.advance(20_000)
    assert assigned() == [topics["b"].topic_id]
    wire.create("c")
    for _ in range(2):
        assigned()
        wire.clock.advance(1)
    assert sorted(assigned()) == sorted(topics[name].topic_id for name in ("a", "b"))


def test_a_refused_topic_is_explained_under_its_name_and_group(wire: TestCluster) -> None:
    allow(wire, Operation.READ, Resource.GROUP, "g")
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="a", partitions=[partition])
    wire.ask(OffsetCommitRequest(group_id="g", topics=[topic]), 9)
    for subject, kind in (("a", Entity.TOPIC), ("g", Entity.GROUP)):
        *_, entry = wire.cluster.history.about(subject, of=kind)
        assert "may not READ TOPIC a: no ACL allows it" in entry.text
        assert entry.facts["rule"] == "acl"


def test_refusals_are_logged_also_without_a_group_or_topic(wire: TestCluster) -> None:
    warnings: list[tuple[object, ...]] = []

    def warn(host: str, kind: str, event: str, **fields: object) -> None:
        warnings.append((host, kind, event, fields["api"], fields["reason"]))

    wire.cluster.nodes[1].warn_about_client = warn
    wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
    resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=4, resource_name="1")
    wire.ask(DescribeConfigsRequest(resources=[resource]), 4)
    topic = MetadataRequest.MetadataRequestTopic(name="a")
    wire.ask(MetadataRequest(topics=[topic]), 12)
    event, client = "request refused by ACLs", "User:ANONYMOUS"
    assert [warning[1:4] for warning in warnings] == [
        (f"{client} IDEMPOTENT_WRITE CLUSTER kafka-cluster", event, "InitProducerId"),
        (f"{client} DESCRIBE_CONFIGS CLUSTER kafka-cluster", event, "DescribeConfigs"),
        (f"{client} DESCRIBE TOPIC a", event, "Metadata"),
    ]
    for host, *_, reason in warnings:
        assert str(reason).startswith(f"{client} from {host} may not ")
        assert str(reason).endswith(": no ACL allows it")


def refusals_of(wire: TestCluster, topic: str) -> list[str]:
    entries = wire.cluster.history.about(topic, of=Entity.TOPIC)
    return [entry.text for entry in entries if entry.kind == "refused"]


def test_refused_topics_of_metadata_are_explained(wire: TestCluster) -> None:
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "missing")
    topic = MetadataRequest.MetadataRequestTopic
    requested = [topic(name=name) for name in ("a", "missing")]
    requested.extend(topic(name=f"unknown-{number}") for number in range(200))
    response = wire.ask(MetadataRequest(topics=requested), 12)
    assert {each.error_code for each in response.topics} == {REFUSED}
    (text,) = refusals_of(wire, "a")
    assert text.startswith("Metadata refused: User:ANONYMOUS from ")
    assert "may not DESCRIBE TOPIC a: no ACL allows it" in text
    (text,) = refusals_of(wire, "missing")
    assert "may not CREATE TOPIC missing: no ACL allows it" in text
    assert refusals_of(wire, "unknown-98")
    assert not refusals_of(wire, "unknown-99")


def test_a_refused_topic_id_of_metadata_is_explained(wire: TestCluster) -> None:
    topics = wire.cluster.metadata.image.topics
    requested = [
        MetadataRequest.MetadataRequestTopic(name=None, topic_id=topics[name].topic_id)
        for name in ("a", "b")
    ]
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "b")
    response = wire.ask(MetadataRequest(topics=requested), 12)
    assert [each.error_code for each in response.topics] == [REFUSED, ErrorCode.NONE]
    assert len(refusals_of(wire, "a")) == 1
    assert refusals_of(wire, "b") == []


@pytest.mark.parametrize("version", [12, 13])
def test_a_refused_topic_of_fetch_is_explained_once_per_request(
    wire: TestCluster, version: int
) -> None:
    topic = wire.cluster.metadata.image.topics["a"]
    identity = {"topic": "a"} if version < 13 else {"topic_id": topic.topic_id}
    partitions = [
        FetchRequest.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1)
        for index in (0, 1)
    ]
    topics = [FetchRequest.FetchTopic(partitions=partitions, **identity)]
    response = wire.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics), version)
    assert [each.error_code for each in response.responses[0].partitions] == [REFUSED, REFUSED]
    (entry,) = wire.cluster.history.about("a", of=Entity.TOPIC)
    assert entry.text.startswith("Fetch refused: User:ANONYMOUS from ")
    assert "may not READ TOPIC a: no ACL allows it" in entry.text
    assert entry.times == 1


def test_a_refused_topic_of_share_fetch_is_explained(wire: TestCluster) -> None:
    allow(wire, Operation.READ, Resource.GROUP, "g")
    topic = ShareFetchRequest.FetchTopic(
        topic_id=wire.cluster.metadata.image.topics["a"].topic_id,
        partitions=[ShareFetchRequest.FetchPartition(partition_index=0)],
    )
    request = ShareFetchRequest(
        group_id="g", member_id="A" * 22, share_session_epoch=0, max_wait_ms=0, min_bytes=0,
        max_bytes=1, max_records=1, batch_size=1, topics=[topic],
    )  # fmt: skip
    response = wire.ask(request, 1)
    assert response.responses[0].partitions[0].error_code == REFUSED
    (text,) = refusals_of(wire, "a")
    assert text.startswith("ShareFetch refused: User:ANONYMOUS from ")


def test_a_list_of_all_topics_is_not_a_refusal(wire: TestCluster) -> None:
    assert wire.ask(MetadataRequest(topics=None), 12).topics == []
    assert wire.ask(DescribeTopicPartitionsRequest(), 0).topics == []
    assert refusals_of(wire, "a") == []


def test_refused_topics_of_partition_pages_are_explained(wire: TestCluster) -> None:
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "b")
    requested = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in ("a", "b")]
    wire.ask(DescribeTopicPartitionsRequest(topics=requested), 0)
    (text,) = refusals_of(wire, "a")
    assert text.startswith("DescribeTopicPartitions refused: User:ANONYMOUS from ")
    assert refusals_of(wire, "b") == []


def test_an_unchanged_client_sees_a_new_acl_with_the_next_request(wire: TestCluster) -> None:
    request = MetadataRequest(topics=None)
    assert wire.ask(request, 12).topics == []
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "a")
    assert [topic.name for topic in wire.ask(request, 12).topics] == ["a"]


@pytest.mark.parametrize("acks", [0, 1])
def test_a_transaction_needs_its_transactional_id(wire: TestCluster, acks: int) -> None:
    allow(wire, Operation.WRITE, Resource.TOPIC, "a")
    records = Batch(attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0)
    data = ProduceRequest.PartitionProduceData(index=0, records=records.encode())
    topic = ProduceRequest.TopicProduceData(name="a", partition_data=[data])
    request = ProduceRequest(transactional_id="t", acks=acks, timeout_ms=1, topic_data=[topic])
    if not acks:
        with pytest.raises(ProtocolViolation, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            wire.ask(request, 9)
        return
    (answer,) = wire.ask(request, 9).responses
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert answer.partition_responses[0].error_code == code


def test_a_refused_topic_without_acks_closes_the_connection(wire: TestCluster) -> None:
    allow(wire, Operation.WRITE, Resource.TOPIC, "a")
    topics = [
        ProduceRequest.TopicProduceData(
            name=name,
            partition_data=[ProduceRequest.PartitionProduceData(index=0, records=batch(b"v"))],
        )
        for name in ("a", "b")
    ]
    with pytest.raises(ProtocolViolation, match="TOPIC_AUTHORIZATION_FAILED"):
        wire.ask(ProduceRequest(acks=0, timeout_ms=1, topic_data=topics), 9)


def test_created_topics_show_their_settings_only_with_permission(wire: TestCluster) -> None:
    allow(wire, Operation.CREATE, Resource.TOPIC, "new")
    new = CreateTopicsRequest.CreatableTopic
    topics = [
        new(name=name, num_partitions=1, replication_factor=1) for name in ("new", "x", "d", "d")
    ]
    response = wire.ask(CreateTopicsRequest(topics=topics), 7)
    rows = {each.name: each for each in response.topics}
    assert rows["new"].error_code == ErrorCode.NONE
    assert rows["new"].topic_config_error_code == REFUSED
    assert (rows["new"].num_partitions, rows["new"].configs) == (-1, [])
    assert (rows["x"].error_code, rows["x"].error_message) == (REFUSED, "Authorization failed.")
    assert rows["d"].error_message == "Duplicate topic name."


def test_names_of_topics_are_not_disclosed_by_deletions(wire: TestCluster) -> None:
    topics = wire.cluster.metadata.image.topics
    allow(wire, Operation.DESCRIBE, Resource.TOPIC, "b")
    state = DeleteTopicsRequest.DeleteTopicState
    states = [
        state(name="missing"),
        state(name=None, topic_id=topics["a"].topic_id),
        state(name=None, topic_id=topics["b"].topic_id),
    ]
    response = wire.ask(DeleteTopicsRequest(topics=states, timeout_ms=1), 6)
    assert [(row.name, row.error_code) for row in response.responses] == [
        ("missing", REFUSED), (None, REFUSED), ("b", REFUSED),
    ]  # fmt: skip


def test_groups_are_listed_if_they_or_the_cluster_may_be_described(wire: TestCluster) -> None:
    wire.contexts[1].principal = "User:admin"
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="a", partitions=[partition])
    for group_id in ("g", "h"):
        wire.ask(OffsetCommitRequest(group_id=group_id, topics=[topic]), 9)
    wire.contexts[1].principal = "User:ANONYMOUS"
    allow(wire, Operation.DESCRIBE, Resource.GROUP, "g")
    assert [each.group_id for each in wire.ask(ListGroupsRequest(), 5).groups] == ["g"]
    allow(wire, Operation.DESCRIBE, Resource.CLUSTER, "kafka-cluster")
    assert len(wire.ask(ListGroupsRequest(), 5).groups) == 2


def test_an_invalid_sync_is_refused_as_such(wire: TestCluster) -> None:
    request = SyncGroupRequest(group_id="g", member_id="m", protocol_name=None)
    assert wire.ask(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert wire.ask(request, 3).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_refused_resources_are_last_in_described_configs(wire: TestCluster) -> None:
    allow(wire, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "b")
    resource = DescribeConfigsRequest.DescribeConfigsResource
    resources = [resource(resource_type=2, resource_name=name) for name in ("a", "b")]
    resources.append(resource(resource_type=4, resource_name="1"))
    results = wire.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(each.resource_name, each.error_code) for each in results] == [
        ("b", ErrorCode.NONE), ("a", REFUSED), ("1", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ]  # fmt: skip


def test_invalid_changes_of_configs_are_refused_as_such(wire: TestCluster) -> None:
    config = IncrementalAlterConfigsRequest.AlterableConfig
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    resources = [
        resource(resource_type=2, resource_name="a", configs=[config(name="x", value=None)]),
        resource(resource_type=2, resource_name="b", configs=[config(name="x", value="1")]),
    ]
    rows = wire.ask(IncrementalAlterConfigsRequest(resources=resources), 1).responses
    assert [each.error_code for each in rows] == [ErrorCode.INVALID_REQUEST, REFUSED]


@pytest.mark.parametrize("kind", [-1, 0, 1, 64])
def test_settings_are_not_described_with_a_resource_of_an_unknown_type(
    wire: TestCluster, kind: int
) -> None:
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(resource_type=each, resource_name=name)
        for each, name in ((2, "a"), (4, "1"), (kind, "q"))
    ]
    results = wire.ask(DescribeConfigsRequest(resources=resources), 4).results
    assert [(each.error_code, each.configs) for each in results] == [
        (ErrorCode.INVALID_REQUEST, [])
    ] * 3
