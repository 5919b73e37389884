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
    from tests.conformance.world import World

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


def topics_are_created_in_every_version(world: World) -> None:
    for version in range(2, 8):
        world.ask(_create(_topic(f"{world.name}-{version}", 2, retention_ms="1000")), version)


def topics_take_the_default_counts(world: World) -> None:
    for version in (4, 7):
        world.ask(_create(_topic(f"{world.name}-{version}", -1, -1)), version)
    world.ask(_create(_topic(f"{world.name}-old", -1, -1)), 3)


def topics_with_bad_names_are_refused(world: World) -> None:
    names = ("", ".", "..", "a/b", "in valid", "ü", "n" * (_LONGEST_NAME + 1), "a:b")
    for version in (4, 7):
        world.ask(_create(*(_topic(name) for name in names)), version)
    world.ask(_create(_topic("n" * _LONGEST_NAME), validate_only=True), 7)


def topics_with_bad_counts_are_refused(world: World) -> None:
    name = world.name
    for version in (5, 7):
        world.ask(
            _create(
                _topic(f"{name}-zero", 0),
                _topic(f"{name}-negative", -2),
                _topic(f"{name}-wide", 1, 9),
                _topic(f"{name}-none", 1, 0),
                _topic(f"{name}-less", 1, -3),
            ),
            version,
        )


def topics_with_bad_placements_are_refused(world: World) -> None:
    name = world.name
    world.ask(
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
    world.ask(_create(_placed(f"{name}-good", (0, [1]), (1, [1]))), 7)


def topics_with_bad_configs_are_refused(world: World) -> None:
    name = world.name
    null = _topic(f"{name}-null")
    null.configs = [_Config(name="retention.ms", value=None)]
    for version in (4, 7):
        world.ask(
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


def existing_and_duplicate_topics_are_refused(world: World) -> None:
    create_topic(world, world.name)
    for version in (2, 7):
        world.ask(_create(_topic(world.name)), version)
    twice = _create(_topic(f"{world.name}-x"), _topic(f"{world.name}-x"), _topic(f"{world.name}-y"))
    world.ask(twice, 7)


def topics_whose_metrics_would_collide_are_refused(world: World) -> None:
    create_topic(world, f"{world.name}.a")
    world.ask(_create(_topic(f"{world.name}_a")), 7)
    world.ask(_create(_topic(f"{world.name}.b"), _topic(f"{world.name}_b")), 7)


def topics_can_be_validated_only(world: World) -> None:
    for version in (2, 5, 7):
        world.ask(_create(_topic(world.name, 3, retention_ms="1000"), validate_only=True), version)
    world.ask(MetadataRequest(topics=_asked(world.name), allow_auto_topic_creation=False), 9)


def _asked(name: str) -> list[MetadataRequest.MetadataRequestTopic] | None:
    return [MetadataRequest.MetadataRequestTopic(name=name)]


def topics_are_deleted_by_name(world: World) -> None:
    for version in range(1, 6):
        name = f"{world.name}-{version}"
        create_topic(world, name)
        names = [name, f"{name}-missing"]
        world.ask(DeleteTopicsRequest(topic_names=names, timeout_ms=10_000), version)
        gone = MetadataRequest(topics=_asked(name), allow_auto_topic_creation=False)
        world.call_until(gone, 9, lambda found: found.topics[0].error_code != ErrorCode.NONE)


def topics_are_deleted_by_id(world: World) -> None:
    state = DeleteTopicsRequest.DeleteTopicState
    first = create_topic(world, f"{world.name}-1")
    create_topic(world, f"{world.name}-2")
    topics = [
        state(name=None, topic_id=first),
        state(name=f"{world.name}-2"),
        state(name=None, topic_id=UNKNOWN_ID),
        state(name=f"{world.name}-missing"),
    ]
    world.ask(DeleteTopicsRequest(topics=topics, timeout_ms=10_000), 6)
    third = create_topic(world, f"{world.name}-3")
    both = [state(name=f"{world.name}-3", topic_id=third)]
    world.ask(DeleteTopicsRequest(topics=both, timeout_ms=10_000), 6)
    neither = [state(name=None)]
    world.ask(DeleteTopicsRequest(topics=neither, timeout_ms=10_000), 6)
    twice = [state(name=f"{world.name}-3"), state(name=f"{world.name}-3")]
    world.ask(DeleteTopicsRequest(topics=twice, timeout_ms=10_000), 6)
    mixed = [state(name=f"{world.name}-3"), state(name=None, topic_id=third)]
    world.ask(DeleteTopicsRequest(topics=mixed, timeout_ms=10_000), 6)


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


def partitions_are_added(world: World) -> None:
    create_topic(world, world.name)
    for count, version in enumerate(range(4), start=2):
        world.ask(_grow((world.name, count)), version)
    wait_for_metadata(world, world.name, 5)
    world.ask(MetadataRequest(topics=_asked(world.name), allow_auto_topic_creation=False), 9)
    wait_for_leader(world, world.name, 5)


def partitions_are_not_added(world: World) -> None:
    create_topic(world, world.name, partitions=3)
    for count in (3, 2, 0, -1):
        world.ask(_grow((world.name, count)), 3)
    world.ask(_grow((f"{world.name}-missing", 3)), 3)
    world.ask(_grow((world.name, 4), (world.name, 5)), 3)
    world.ask(_grow((world.name, 5), placed=[[1]]), 3)
    world.ask(_grow((world.name, 4), placed=[[9]]), 3)
    world.ask(_grow((world.name, 4), placed=[[1, 1]]), 3)
    world.ask(_grow((world.name, 4), validate_only=True), 3)
    world.ask(_grow((world.name, 4), placed=[[1]]), 3)


def _cut(name: str, *cuts: tuple[int, int]) -> DeleteRecordsRequest:
    row = DeleteRecordsRequest.DeleteRecordsPartition
    topic = DeleteRecordsRequest.DeleteRecordsTopic(
        name=name, partitions=[row(partition_index=index, offset=offset) for index, offset in cuts]
    )
    return DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)


def records_are_deleted(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    for _ in range(3):
        fill(world, world.name, b"a", b"b")
    for offset, version in ((1, 0), (3, 1), (2, 2)):
        world.ask(_cut(world.name, (0, offset)), version)
        world.ask(list_offsets(world.name, 0, timestamp=EARLIEST), 7)
    world.ask(_cut(world.name, (0, -1), (1, 0)), 2)
    world.ask(list_offsets(world.name, 0, 1, timestamp=EARLIEST), 7)


def records_are_not_deleted(world: World) -> None:
    create_topic(world, world.name)
    fill(world, world.name, b"a")
    for offset in (2, -2):
        world.ask(_cut(world.name, (0, offset)), 2)
    world.ask(_cut(world.name, (7, 0)), 2)
    world.ask(_cut(f"{world.name}-missing", (0, 0)), 2)
    world.ask(_cut("__consumer_offsets", (0, 0)), 2)


def _elect(kind: int, *partitions: tuple[str, list[int]]) -> ElectLeadersRequest:
    row = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[row(topic=name, partitions=indexes) for name, indexes in partitions],
        timeout_ms=10_000,
    )


def leaders_need_no_election(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    for version in (0, 1, 2):
        world.ask(_elect(0, (world.name, [0, 1])), version)
    world.ask(_elect(1, (world.name, [0])), 2)
    world.ask(_elect(0, (world.name, [5]), (f"{world.name}-missing", [0])), 2)
    world.ask(_elect(7, (world.name, [0])), 2)
    for kind in (0, 1):
        every = ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=10_000)
        response = world.connection("main").call(every, 2)
        rows = [
            row for row in response.replica_election_results if row.topic.startswith(world.name)
        ]
        world.record(
            f"all, {kind}", [int(response.error_code), *(len(row.partition_result) for row in rows)]
        )


def log_directories_are_described(world: World) -> None:
    create_topic(world, world.name, partitions=2)
    fill(world, world.name, b"a", b"b")
    row = DescribeLogDirsRequest.DescribableLogDirTopic
    for version in range(1, 6):
        ours = [row(topic=world.name, partitions=[0, 1])]
        world.ask(DescribeLogDirsRequest(topics=ours), version)
    unknown = [
        row(topic=f"{world.name}-missing", partitions=[0]),
        row(topic=world.name, partitions=[9]),
    ]
    world.ask(DescribeLogDirsRequest(topics=unknown), 4)
    world.ask(DescribeLogDirsRequest(topics=[]), 4)
    every = world.connection("main").call(DescribeLogDirsRequest(topics=None), 4)
    names = {topic.name for result in every.results for topic in result.topics}
    world.record("all includes ours", world.name in names)


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
