"""Creation and deletion of topics, partitions and records; elections; log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.create_partitions import CreatePartitionsRequest
from kafkalite.protocol._generated.messages.create_topics import CreateTopicsRequest
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.delete_topics import DeleteTopicsRequest
from kafkalite.protocol._generated.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalite.protocol._generated.messages.elect_leaders import ElectLeadersRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.setup import (
    EARLIEST,
    UNKNOWN_ID,
    create_topic,
    fill,
    list_offsets,
    wait_for_leader,
    wait_for_metadata,
)

if TYPE_CHECKING:
    from tests.conformance.scenario_cluster import ScenarioCluster

_LONGEST_NAME = 249
_Topic = CreateTopicsRequest.CreatableTopic
_Assignment = CreateTopicsRequest.CreatableReplicaAssignment
_Config = CreateTopicsRequest.CreatableTopicConfig


def _topic(
    name: str, partitions: int = 1, replication_factor: int = 1, **configs: str | None
) -> _Topic:
    return _Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            _Config(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ],
    )


def _placed(name: str, *assignments: tuple[int, list[int]], **counts: int) -> _Topic:
    topic = _topic(name, counts.get("partitions", -1), counts.get("replication_factor", -1))
    topic.assignments = [
        _Assignment(partition_index=index, broker_ids=brokers) for index, brokers in assignments
    ]
    return topic


def _create(*topics: _Topic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def topics_are_created_in_every_version(cluster: ScenarioCluster) -> None:
    for version in range(2, 8):
        cluster.ask(_create(_topic(f"{cluster.name}-{version}", 2, retention_ms="1000")), version)


def topics_take_the_default_counts(cluster: ScenarioCluster) -> None:
    for version in (4, 7):
        cluster.ask(_create(_topic(f"{cluster.name}-{version}", -1, -1)), version)
    cluster.ask(_create(_topic(f"{cluster.name}-old", -1, -1)), 3)


def topics_with_bad_names_are_refused(cluster: ScenarioCluster) -> None:
    names = ("", ".", "..", "a/b", "in valid", "ü", "n" * (_LONGEST_NAME + 1), "a:b")
    for version in (4, 7):
        cluster.ask(_create(*(_topic(name) for name in names)), version)
    cluster.ask(_create(_topic("n" * _LONGEST_NAME), validate_only=True), 7)


def topics_with_bad_counts_are_refused(cluster: ScenarioCluster) -> None:
    name = cluster.name
    for version in (5, 7):
        cluster.ask(
            _create(
                _topic(f"{name}-zero", 0),
                _topic(f"{name}-negative", -2),
                _topic(f"{name}-wide", 1, 9),
                _topic(f"{name}-none", 1, 0),
                _topic(f"{name}-less", 1, -3),
            ),
            version,
        )


def topics_with_bad_placements_are_refused(cluster: ScenarioCluster) -> None:
    name = cluster.name
    cluster.ask(
        _create(
            _placed(f"{name}-gap", (0, [1]), (2, [1])),
            _placed(f"{name}-twice", (0, [1]), (0, [1])),
            _placed(f"{name}-same-broker", (0, [1, 1])),
            _placed(f"{name}-unknown-broker", (0, [9])),
            _placed(f"{name}-empty", (0, [])),
            _placed(f"{name}-negative", (0, [-1])),
            _placed(f"{name}-counted", (0, [1]), partitions=1),
            _placed(f"{name}-factored", (0, [1]), replication_factor=1),
        ),
        7,
    )
    cluster.ask(_create(_placed(f"{name}-good", (0, [1]), (1, [1]))), 7)


def topics_with_bad_configs_are_refused(cluster: ScenarioCluster) -> None:
    name = cluster.name
    null = _topic(f"{name}-null")
    null.configs = [_Config(name="retention.ms", value=None)]
    for version in (4, 7):
        cluster.ask(
            _create(
                _topic(f"{name}-unknown", no_such_key="1"),
                _topic(f"{name}-text", retention_ms="soon"),
                _topic(f"{name}-range", segment_bytes="1"),
                _topic(f"{name}-choice", cleanup_policy="shred"),
                _topic(f"{name}-both", cleanup_policy="compact,shred"),
                null,
            ),
            version,
        )


def existing_and_duplicate_topics_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for version in (2, 7):
        cluster.ask(_create(_topic(cluster.name)), version)
    twice = _create(
        _topic(f"{cluster.name}-x"), _topic(f"{cluster.name}-x"), _topic(f"{cluster.name}-y")
    )
    cluster.ask(twice, 7)


def topics_whose_metrics_would_collide_are_refused(cluster: ScenarioCluster) -> None:
    create_topic(cluster, f"{cluster.name}.a")
    cluster.ask(_create(_topic(f"{cluster.name}_a")), 7)
    cluster.ask(_create(_topic(f"{cluster.name}.b"), _topic(f"{cluster.name}_b")), 7)


def topics_can_be_validated_only(cluster: ScenarioCluster) -> None:
    for version in (2, 5, 7):
        cluster.ask(
            _create(_topic(cluster.name, 3, retention_ms="1000"), validate_only=True), version
        )
    cluster.ask(MetadataRequest(topics=_asked(cluster.name), allow_auto_topic_creation=False), 9)


def _asked(name: str) -> list[MetadataRequest.MetadataRequestTopic] | None:
    return [MetadataRequest.MetadataRequestTopic(name=name)]


def topics_are_deleted_by_name(cluster: ScenarioCluster) -> None:
    for version in range(1, 6):
        name = f"{cluster.name}-{version}"
        create_topic(cluster, name)
        names = [name, f"{name}-missing"]
        cluster.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), version)
        gone = MetadataRequest(topics=_asked(name), allow_auto_topic_creation=False)
        cluster.call_until(gone, 9, lambda found: found.topics[0].error_code != ErrorCode.NONE)


def topics_are_deleted_by_id(cluster: ScenarioCluster) -> None:
    state = DeleteTopicsRequest.DeleteTopicState
    first = create_topic(cluster, f"{cluster.name}-1")
    create_topic(cluster, f"{cluster.name}-2")
    topics = [
        state(name=None, topic_id=first),
        state(name=f"{cluster.name}-2"),
        state(name=None, topic_id=UNKNOWN_ID),
        state(name=f"{cluster.name}-missing"),
    ]
    cluster.ask(DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6)
    third = create_topic(cluster, f"{cluster.name}-3")
    both = [state(name=f"{cluster.name}-3", topic_id=third)]
    cluster.ask(DeleteTopicsRequest(topics=both, timeout_ms=10_000), 6)
    neither = [state(name=None)]
    cluster.ask(DeleteTopicsRequest(topics=neither, timeout_ms=10_000), 6)
    twice = [state(name=f"{cluster.name}-3"), state(name=f"{cluster.name}-3")]
    cluster.ask(DeleteTopicsRequest(topics=twice, timeout_ms=10_000), 6)
    mixed = [state(name=f"{cluster.name}-3"), state(name=None, topic_id=third)]
    cluster.ask(DeleteTopicsRequest(topics=mixed, timeout_ms=10_000), 6)


def _grow(
    *topics: tuple[str, int], placed: list[list[int]] | None = None, validate_only: bool = False
) -> CreatePartitionsRequest:
    assignments = None
    if placed is not None:
        row = CreatePartitionsRequest.CreatePartitionsAssignment
        assignments = [row(broker_ids=brokers) for brokers in placed]
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsRequest.CreatePartitionsTopic(
                name=name, count=count, assignments=assignments
            )
            for name, count in topics
        ],
        timeout_ms=10_000,
        validate_only=validate_only,
    )


def partitions_are_added(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    for count, version in enumerate(range(4), start=2):
        cluster.ask(_grow((cluster.name, count)), version)
    wait_for_metadata(cluster, cluster.name, 5)
    cluster.ask(MetadataRequest(topics=_asked(cluster.name), allow_auto_topic_creation=False), 9)
    wait_for_leader(cluster, cluster.name, 5)


def partitions_are_not_added(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=3)
    for count in (3, 2, 0, -1):
        cluster.ask(_grow((cluster.name, count)), 3)
    cluster.ask(_grow((f"{cluster.name}-missing", 3)), 3)
    cluster.ask(_grow((cluster.name, 4), (cluster.name, 5)), 3)
    cluster.ask(_grow((cluster.name, 5), placed=[[1]]), 3)
    cluster.ask(_grow((cluster.name, 4), placed=[[9]]), 3)
    cluster.ask(_grow((cluster.name, 4), placed=[[1, 1]]), 3)
    cluster.ask(_grow((cluster.name, 4), validate_only=True), 3)
    cluster.ask(_grow((cluster.name, 4), placed=[[1]]), 3)


def _cut(name: str, *cuts: tuple[int, int]) -> DeleteRecordsRequest:
    row = DeleteRecordsRequest.DeleteRecordsPartition
    topic = DeleteRecordsRequest.DeleteRecordsTopic(
        name=name, partitions=[row(partition_index=index, offset=offset) for index, offset in cuts]
    )
    return DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)


def records_are_deleted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    for _ in range(3):
        fill(cluster, cluster.name, b"a", b"b")
    for offset, version in ((1, 0), (3, 1), (2, 2)):
        cluster.ask(_cut(cluster.name, (0, offset)), version)
        cluster.ask(list_offsets(cluster.name, 0, timestamp=EARLIEST), 7)
    cluster.ask(_cut(cluster.name, (0, -1), (1, 0)), 2)
    cluster.ask(list_offsets(cluster.name, 0, 1, timestamp=EARLIEST), 7)


def records_are_not_deleted(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name)
    fill(cluster, cluster.name, b"a")
    for offset in (2, -2):
        cluster.ask(_cut(cluster.name, (0, offset)), 2)
    cluster.ask(_cut(cluster.name, (7, 0)), 2)
    cluster.ask(_cut(f"{cluster.name}-missing", (0, 0)), 2)
    cluster.ask(_cut("__consumer_offsets", (0, 0)), 2)


def _elect(kind: int, *partitions: tuple[str, list[int]]) -> ElectLeadersRequest:
    row = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[row(topic=name, partitions=indexes) for name, indexes in partitions],
        timeout_ms=10_000,
    )


def leaders_need_no_election(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    for version in (0, 1, 2):
        cluster.ask(_elect(0, (cluster.name, [0, 1])), version)
    cluster.ask(_elect(1, (cluster.name, [0])), 2)
    cluster.ask(_elect(0, (cluster.name, [5]), (f"{cluster.name}-missing", [0])), 2)
    cluster.ask(_elect(7, (cluster.name, [0])), 2)
    for kind in (0, 1):
        every = ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=10_000)
        response = cluster.connection("main").call(every, 2)
        rows = [
            row for row in response.replica_election_results if row.topic.startswith(cluster.name)
        ]
        cluster.record(
            f"all, {kind}", [int(response.error_code), *(len(row.partition_result) for row in rows)]
        )


def log_directories_are_described(cluster: ScenarioCluster) -> None:
    create_topic(cluster, cluster.name, partitions=2)
    fill(cluster, cluster.name, b"a", b"b")
    row = DescribeLogDirsRequest.DescribableLogDirTopic
    for version in range(1, 6):
        ours = [row(topic=cluster.name, partitions=[0, 1])]
        cluster.ask(DescribeLogDirsRequest(topics=ours), version)
    unknown = [
        row(topic=f"{cluster.name}-missing", partitions=[0]),
        row(topic=cluster.name, partitions=[9]),
    ]
    cluster.ask(DescribeLogDirsRequest(topics=unknown), 4)
    cluster.ask(DescribeLogDirsRequest(topics=[]), 4)
    every = cluster.connection("main").call(DescribeLogDirsRequest(topics=None), 4)
    names = {topic.name for result in every.results for topic in result.topics}
    cluster.record("all includes ours", cluster.name in names)


SCENARIOS = (
    topics_are_created_in_every_version,
    topics_take_the_default_counts,
    topics_with_bad_names_are_refused,
    topics_with_bad_counts_are_refused,
    topics_with_bad_placements_are_refused,
    topics_with_bad_configs_are_refused,
    existing_and_duplicate_topics_are_refused,
    topics_whose_metrics_would_collide_are_refused,
    topics_can_be_validated_only,
    topics_are_deleted_by_name,
    topics_are_deleted_by_id,
    partitions_are_added,
    partitions_are_not_added,
    records_are_deleted,
    records_are_not_deleted,
    leaders_need_no_election,
    log_directories_are_described,
)
