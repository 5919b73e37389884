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
    from tests.conformance.world import World

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


def metadata_of_a_topic_in_every_version(world: World) -> None:
    create_topic(world, world.name, partitions=3)
    for version in _VERSIONS:
        world.ask(_named(world.name), version)


def metadata_of_no_topics_is_the_brokers(world: World) -> None:
    for version in _VERSIONS[1:]:
        world.ask(MetadataRequest(topics=[]), version)


def metadata_of_all_topics_includes_ours(world: World) -> None:
    create_topic(world, world.name)
    for version in (0, 1, 9, 12):
        every: list[MetadataRequest.MetadataRequestTopic] | None = None if version else []
        response = world.connection("main").call(MetadataRequest(topics=every), version)
        names = [topic.name for topic in response.topics]
        world.record(f"v{version} is there", world.name in names)


def metadata_of_unknown_and_invalid_topics(world: World) -> None:
    for version in (4, 5, 8, 9, 12, 13):
        world.ask(_named(f"{world.name}-missing", "in valid", "", ".."), version)


def metadata_by_topic_id(world: World) -> None:
    topic_id = create_topic(world, world.name, partitions=2)
    for version in (12, 13):
        world.ask(_by_id(topic_id), version)
        world.ask(_by_id(UNKNOWN_ID), version)
        world.ask(_by_id(topic_id, UNKNOWN_ID), version)


def metadata_that_mixes_names_and_ids(world: World) -> None:
    topic_id = create_topic(world, world.name)
    mixed = _by_id(topic_id)
    mixed.topics = [*(mixed.topics or []), *(_named(world.name).topics or [])]
    world.ask(mixed, 12)
    world.ask(_by_id(topic_id), 10)


def metadata_creates_a_topic_when_allowed(world: World) -> None:
    world.ask(_named(f"{world.name}-forbidden"), 9)
    world.ask(_named(world.name, auto_create=True), 9)
    world.call_until(
        _named(world.name), 9, lambda found: found.topics[0].error_code == ErrorCode.NONE
    )
    world.ask(_named("in valid", auto_create=True), 9)


def metadata_returns_authorized_operations(world: World) -> None:
    create_topic(world, world.name)
    for version in (8, 10, 11, 13):
        request = _named(world.name)
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = version <= 10
        world.ask(request, version)


def metadata_marks_internal_topics(world: World) -> None:
    wait_for_group_coordinator(world, world.name)
    response = world.connection("main").call(_named("__consumer_offsets"), 12)
    (topic,) = response.topics
    world.record("error", int(topic.error_code))
    world.record("internal", topic.is_internal)
    world.record("partitions", len(topic.partitions))


def topic_partitions_are_described(world: World) -> None:
    create_topic(world, world.name, partitions=3)
    rows = [DescribeTopicPartitionsRequest.TopicRequest(name=world.name)]
    world.ask(DescribeTopicPartitionsRequest(topics=rows), 0)
    unknown = [DescribeTopicPartitionsRequest.TopicRequest(name=f"{world.name}-missing")]
    world.ask(DescribeTopicPartitionsRequest(topics=[*rows, *unknown]), 0)
    invalid = [DescribeTopicPartitionsRequest.TopicRequest(name="in valid")]
    world.ask(DescribeTopicPartitionsRequest(topics=invalid), 0)


def topic_partitions_are_described_in_pages(world: World) -> None:
    first, second = f"{world.name}-a", f"{world.name}-b"
    create_topic(world, first, partitions=3)
    create_topic(world, second, partitions=3)
    rows = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in (second, first)]
    page = world.ask(DescribeTopicPartitionsRequest(topics=rows, response_partition_limit=2), 0)
    cursor = DescribeTopicPartitionsRequest.Cursor(
        topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
    )
    world.ask(
        DescribeTopicPartitionsRequest(topics=rows, response_partition_limit=2, cursor=cursor), 0
    )
    last = DescribeTopicPartitionsRequest.Cursor(topic_name=second, partition_index=1)
    world.ask(DescribeTopicPartitionsRequest(topics=rows, cursor=last), 0)
    beyond = DescribeTopicPartitionsRequest.Cursor(topic_name=second, partition_index=7)
    world.ask(DescribeTopicPartitionsRequest(topics=rows, cursor=beyond), 0)
    negative = DescribeTopicPartitionsRequest.Cursor(topic_name=first, partition_index=-1)
    world.ask(DescribeTopicPartitionsRequest(topics=rows, cursor=negative), 0)
    world.ask(DescribeTopicPartitionsRequest(topics=rows, response_partition_limit=0), 0)


def the_cluster_is_described(world: World) -> None:
    for version in (0, 1, 2):
        world.ask(DescribeClusterRequest(), version)
        world.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    for endpoint_type in (2, 9):
        world.ask(DescribeClusterRequest(endpoint_type=endpoint_type), 1)
    world.ask(DescribeClusterRequest(include_fenced_brokers=True), 2)


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
