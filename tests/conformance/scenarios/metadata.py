"""Metadata, DescribeTopicPartitions and DescribeCluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.describe_cluster import DescribeClusterRequest
from kafkalite.protocol._generated.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
)
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.setup import UNKNOWN_ID, create_topic, wait_for_group_coordinator

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_VERSIONS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)


def _named(*names: str, auto_create: bool = False) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=auto_create,
    )


def _by_id(*ids: bytes) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(topic_id=topic, name=None) for topic in ids],
        allow_auto_topic_creation=False,
    )


def metadata_of_a_topic_in_every_version(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=3)
    for version in _VERSIONS:
        cluster.ask(_named(cluster.name), version)


def metadata_of_no_topics_is_the_brokers(cluster: ScenarioCluster) -> None:
    for version in _VERSIONS[1:]:
        cluster.ask(MetadataRequest(topics=[]), version)


def metadata_of_all_topics_includes_ours(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in (0, 1, 9, 12):
        every: list[MetadataRequest.MetadataRequestTopic] | None = None if version else []
        response = cluster.connection("main").call(MetadataRequest(topics=every), version)
        names = [topic.name for topic in response.topics]
        cluster.record(f"v{version} is there", cluster.name in names)


def metadata_of_unknown_and_invalid_topics(cluster: ScenarioCluster) -> None:
    for version in (4, 5, 8, 9, 12, 13):
        cluster.ask(_named(f"{cluster.name}-missing", "in valid", "", ".."), version)


def metadata_by_topic_id(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name, partitions=2)
    for version in (12, 13):
        cluster.ask(_by_id(topic_id), version)
        cluster.ask(_by_id(UNKNOWN_ID), version)
        cluster.ask(_by_id(topic_id, UNKNOWN_ID), version)


def metadata_that_mixes_names_and_ids(cluster: ScenarioCluster) -> None:
    topic_id = create_topic(cluster, cluster.name)
    mixed = _by_id(topic_id)
    mixed.topics = [*(mixed.topics or []), *(_named(cluster.name).topics or [])]
    cluster.ask(mixed, 12)
    cluster.ask(_by_id(topic_id), 10)


def metadata_creates_a_topic_when_allowed(cluster: ScenarioCluster) -> None:
    cluster.ask(_named(f"{cluster.name}-forbidden"), 9)
    cluster.ask(_named(cluster.name, auto_create=True), 9)
    cluster.call_until(
        _named(cluster.name), 9, lambda found: found.topics[0].error_code == ErrorCode.NONE
    )
    cluster.ask(_named("in valid", auto_create=True), 9)


def metadata_returns_authorized_operations(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in (8, 10, 11, 13):
        request = _named(cluster.name)
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = version <= 10
        cluster.ask(request, version)


def metadata_marks_internal_topics(cluster: ScenarioCluster) -> None:
    wait_for_group_coordinator(cluster, cluster.name)
    response = cluster.connection("main").call(_named("__consumer_offsets"), 12)
    (topic,) = response.topics
    cluster.record("error", int(topic.error_code))
    cluster.record("internal", topic.is_internal)
    cluster.record("partitions", len(topic.partitions))


def topic_partitions_are_described(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=3)
    rows = [DescribeTopicPartitionsRequest.TopicRequest(name=cluster.name)]
    cluster.ask(DescribeTopicPartitionsRequest(topics=rows), 0)
    unknown = [DescribeTopicPartitionsRequest.TopicRequest(name=f"{cluster.name}-missing")]
    cluster.ask(DescribeTopicPartitionsRequest(topics=[*rows, *unknown]), 0)
    invalid = [DescribeTopicPartitionsRequest.TopicRequest(name="in valid")]
    cluster.ask(DescribeTopicPartitionsRequest(topics=invalid), 0)


def topic_partitions_are_described_in_pages(cluster: ScenarioCluster) -> None:
    first, second = f"{cluster.name}-a", f"{cluster.name}-b"
    create_topic(cluster, first, partitions=3)
    create_topic(cluster, second, partitions=3)
    rows = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in (second, first)]
    page = cluster.ask(DescribeTopicPartitionsRequest(topics=rows, response_partition_limit=2), 0)
    cursor = DescribeTopicPartitionsRequest.Cursor(
        topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
    )
    cluster.ask(
        DescribeTopicPartitionsRequest(topics=rows, response_partition_limit=2, cursor=cursor), 0
    )
    last = DescribeTopicPartitionsRequest.Cursor(topic_name=second, partition_index=1)
    cluster.ask(DescribeTopicPartitionsRequest(topics=rows, cursor=last), 0)
    beyond = DescribeTopicPartitionsRequest.Cursor(topic_name=second, partition_index=7)
    cluster.ask(DescribeTopicPartitionsRequest(topics=rows, cursor=beyond), 0)
    negative = DescribeTopicPartitionsRequest.Cursor(topic_name=first, partition_index=-1)
    cluster.ask(DescribeTopicPartitionsRequest(topics=rows, cursor=negative), 0)
    cluster.ask(DescribeTopicPartitionsRequest(topics=rows, response_partition_limit=0), 0)


def the_cluster_is_described(cluster: ScenarioCluster) -> None:
    for version in (0, 1, 2):
        cluster.ask(DescribeClusterRequest(), version)
        cluster.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    for endpoint_type in (2, 9):
        cluster.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    cluster.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)


SCENARIOS = (
    metadata_of_a_topic_in_every_version,
    metadata_of_no_topics_is_the_brokers,
    metadata_of_all_topics_includes_ours,
    metadata_of_unknown_and_invalid_topics,
    metadata_by_topic_id,
    metadata_that_mixes_names_and_ids,
    metadata_creates_a_topic_when_allowed,
    metadata_returns_authorized_operations,
    metadata_marks_internal_topics,
    topic_partitions_are_described,
    topic_partitions_are_described_in_pages,
    the_cluster_is_described,
)
