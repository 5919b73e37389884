"""The controller: decide, append, replay, new image, listeners, all synchronous."""

from __future__ import annotations

import sys
from functools import partial
from math import inf

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.coordinator.contract import CoordinatorRecord
from kafkalite.metadata.controller import MetadataSerde
from kafkalite.metadata.creation import NewTopic, TopicCreation
from kafkalite.metadata.image import MetadataDelta, MetadataImage
from kafkalite.metadata.internal_topics import OFFSETS_TOPIC
from kafkalite.metadata.shard import MetadataShard
from kafkalite.ports.seeded_entropy import SeededEntropy
from kafkalite.ports.workers import Worker
from kafkalite.protocol._generated.records.abort_transaction import AbortTransactionRecord
from kafkalite.protocol._generated.records.begin_transaction import BeginTransactionRecord
from kafkalite.protocol._generated.records.end_transaction import EndTransactionRecord
from kafkalite.protocol._generated.records.fence_broker import FenceBrokerRecord
from kafkalite.protocol._generated.records.no_op import NoOpRecord
from kafkalite.protocol._generated.records.partition import PartitionRecord
from kafkalite.protocol._generated.records.register_controller import RegisterControllerRecord
from kafkalite.protocol._generated.records.topic import TopicRecord
from kafkalite.protocol._generated.records.unfence_broker import UnfenceBrokerRecord
from kafkalite.protocol._generated.records.unregister_controller import UnregisterControllerRecord
from kafkalite.protocol._generated.records.zk_migration_state import ZkMigrationStateRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.errors import KafkaError
from tests.cluster.metadata import MetadataCluster


def test_start_notifies_listeners_once() -> None:
    first = MetadataCluster()
    first.controller.create_topics([NewTopic(name="t"), NewTopic(name="u")])
    again = first.restart(1)
    ((image, delta),) = again.changes
    assert [topic.name for topic in delta.created] == ["t", "u"]
    assert delta.brokers_changed
    assert image is again.image


def test_listeners_are_called_after_each_change() -> None:
    cluster = MetadataCluster()
    seen: list[bool] = []
    cluster.controller.subscribe(lambda image, _: seen.append(cluster.image is image))
    cluster.controller.create_topics([NewTopic(name="t")])
    assert seen == [True]
    assert cluster.last_delta.created == (cluster.topic("t"),)


def test_internal_topic_is_created_once() -> None:
    cluster = MetadataCluster(offsets_topic_num_partitions="3")
    cluster.controller.ensure_internal_topic(OFFSETS_TOPIC)
    assert len(cluster.topic(OFFSETS_TOPIC).partitions) == 3
    version = cluster.image.version
    cluster.controller.ensure_internal_topic(OFFSETS_TOPIC)
    assert cluster.image.version == version


@pytest.mark.parametrize("is_full", [True, False])
def test_failed_creation_of_an_internal_topic_is_reported(is_full: bool) -> None:  # noqa: FBT001
    cluster = MetadataCluster(offsets_topic_replication_factor="1" if is_full else "9")
    cluster.log.next_error = OSError(28, "no room") if is_full else None
    with pytest.raises(KafkaError) as refused:
        cluster.controller.ensure_internal_topic(OFFSETS_TOPIC)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert OFFSETS_TOPIC not in cluster.image.topics


def test_old_image_does_not_change() -> None:
    cluster = MetadataCluster()
    before = cluster.image
    cluster.controller.create_topics([NewTopic(name="t")])
    assert "t" not in before.topics
    assert cluster.image.version > before.version


def test_delta_of_a_deletion_has_the_topic() -> None:
    cluster = MetadataCluster()
    cluster.controller.create_topics([NewTopic(name="t", partitions=2)])
    topic = cluster.topic("t")
    assert cluster.controller.delete_topics([topic.topic_id]) == {topic.topic_id: None}
    assert cluster.last_delta == MetadataDelta(deleted=(topic,))


def test_failed_append_changes_nothing() -> None:
    cluster = MetadataCluster()
    changes = len(cluster.changes)
    cluster.log.next_error = OSError(28, "no room")
    with pytest.raises(KafkaError) as refused:
        cluster.controller.create_topics([NewTopic(name="t")])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused.value.message == "no room"
    assert (cluster.image.topics, len(cluster.changes)) == ({}, changes)
    cluster.controller.create_topics([NewTopic(name="t")])
    assert "t" in cluster.image.topics


def test_change_of_a_leader_is_synced_before_listeners_are_called() -> None:
    cluster = MetadataCluster(nodes=(1, 2))
    flushed: list[bool] = []
    cluster.controller.subscribe(
        lambda *_: flushed.append(cluster.log.flushed_count == len(cluster.log.entries))
    )
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    cluster.controller.alter_configs({})
    topic_id = cluster.topic("t").topic_id
    cluster.controller.alter_isr([(topic_id, 0, (1,))])
    cluster.controller.alter_isr([(topic_id, 0, (1, 2))])
    cluster.controller.move_leader("t", 0, 2)
    cluster.controller.fence(2)
    assert flushed == [False, False, False, True, True]


def test_change_of_a_leader_that_cannot_be_synced_takes_effect() -> None:
    """It is in the log, so the next start would apply it to all that was done since."""
    cluster = MetadataCluster(nodes=(1, 2))
    cluster.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    cluster.log.next_flush_error = OSError(28, "no room")
    with pytest.raises(KafkaError) as refused:
        cluster.controller.move_leader("t", 0, 2)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert cluster.topic("t").partitions[0].leader == 2
    assert cluster.last_delta.changed == (cluster.topic("t"),)
    assert cluster.restart(1, 2).topic("t") == cluster.topic("t")


def test_start_that_changes_leaders_is_synced() -> None:
    first = MetadataCluster(nodes=(1, 2))
    first.controller.create_topics([NewTopic(name="t", assignments=((0, (1, 2)),))])
    again = first.restart(2)
    assert again.log.flushed_count == len(again.log.entries) > 0


def test_all_listeners_are_called_although_one_fails() -> None:
    cluster = MetadataCluster()
    notified: list[str] = []

    def fail(*_: object) -> None:
        raise OSError(28, "no room")

    cluster.controller.subscribe(fail)
    cluster.controller.subscribe(lambda image, _: notified.extend(image.topics))
    with pytest.raises(KafkaError) as refused:
        cluster.controller.create_topics([NewTopic(name="t")])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert notified == ["t"]
    assert "t" in cluster.image.topics


def test_decision_without_records_calls_no_listener() -> None:
    cluster = MetadataCluster()
    changes = len(cluster.changes)
    cluster.controller.create_topics([NewTopic(name=".")])
    assert len(cluster.changes) == changes


ID = bytes(range(16))


def test_a_topic_record_has_kafkas_bytes() -> None:
    """Frame 1, API key 2, version 0, the name's length and one, the name, the id, no tags."""
    record: CoordinatorRecord[object, object] = CoordinatorRecord(
        None, TopicRecord(name="abc", topic_id=ID)
    )
    key, value = MetadataSerde().encode(record)
    assert key is None
    assert value == b"\x01\x02\x00\x04abc" + ID + b"\x00"
    assert MetadataSerde().decode(key, value) == record


def test_a_partition_record_is_written_in_the_newest_version() -> None:
    record: CoordinatorRecord[object, object] = CoordinatorRecord(
        None, PartitionRecord(partition_id=1, topic_id=ID, replicas=[1], isr=[1], leader=1)
    )
    key, value = MetadataSerde().encode(record)
    assert value is not None
    assert value[:3] == b"\x01\x03\x02"
    assert MetadataSerde().decode(key, value) == record


def test_other_records_are_skipped() -> None:
    assert MetadataSerde().decode(b"k", b"v") is None
    assert MetadataSerde().decode(None, None) is None


def test_change_by_a_listener_is_published_to_all_listeners_in_order() -> None:
    cluster = MetadataCluster()
    received: dict[str, list[tuple[int, list[str]]]] = {"first": [], "last": []}

    def note(listener: str, image: MetadataImage) -> None:
        received[listener].append((image.version, sorted(image.topics)))

    def first(image: MetadataImage, _: MetadataDelta) -> None:
        note("first", image)
        if "u" not in cluster.image.topics:
            cluster.controller.create_topics([NewTopic(name="u")])
            assert "u" in cluster.image.topics

    cluster.controller.subscribe(first)
    cluster.controller.subscribe(lambda image, _: note("last", image))
    cluster.controller.create_topics([NewTopic(name="t")])
    assert received["first"] == received["last"]
    assert [topics for _, topics in received["last"]] == [["t"], ["t", "u"]]


def paused_creation(cluster: MetadataCluster, outcomes: list[object]) -> Worker:
    """Return a worker that creates topic "paused" and has paused before its publication."""

    def create() -> None:
        outcomes.extend(cluster.controller.create_topics([NewTopic(name="paused")], may_pause=True))

    worker = Worker()
    worker.task = create
    assert worker.take_turn(0.0) is worker
    return worker


def test_decision_between_a_change_and_its_publication_knows_the_change() -> None:
    cluster = MetadataCluster()
    before = cluster.image
    outcomes: list[object] = []
    worker = paused_creation(cluster, outcomes)
    assert cluster.image is before
    same, other = cluster.controller.create_topics([NewTopic(name="paused"), NewTopic(name="t")])
    assert same.error is not None
    assert same.error.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert other.error is None
    # It publishes both changes.
    assert [topic.name for topic in cluster.last_delta.created] == ["paused", "t"]
    published = cluster.image
    assert worker.take_turn(inf) is None
    (created,) = outcomes
    assert isinstance(created, TopicCreation)
    assert created.error is None
    assert cluster.image.topics == published.topics
    assert cluster.image.version == published.version
    assert cluster.last_delta.created == ()


def test_change_is_published_although_its_client_disconnects() -> None:
    cluster = MetadataCluster()
    paused_creation(cluster, []).end()
    assert [topic.name for topic in cluster.last_delta.created] == ["paused"]


def test_change_that_was_not_published_takes_effect_at_the_next_start() -> None:
    cluster = MetadataCluster()
    worker = paused_creation(cluster, [])
    assert "paused" in cluster.restart(1).image.topics
    worker.end()


def test_deferred_change_is_made_after_all_published_ones() -> None:
    cluster = MetadataCluster()
    seen: list[list[str]] = []

    def create(name: str) -> None:
        if name not in cluster.image.topics:
            cluster.controller.create_topics([NewTopic(name=name)])

    def listen(image: MetadataImage, _: MetadataDelta) -> None:
        seen.append(sorted(image.topics))
        if len(seen) == 1:
            cluster.controller.defer(lambda: create("v"))
            create("u")

    cluster.controller.subscribe(listen)
    create("t")
    assert seen == [["t"], ["t", "u"], ["t", "u", "v"]]


def test_deferred_changes_are_as_many_as_a_change_needs() -> None:
    cluster = MetadataCluster()
    count = sys.getrecursionlimit() // 2

    def create(name: str) -> None:
        cluster.controller.create_topics([NewTopic(name=name)])

    def listen(image: MetadataImage, _: MetadataDelta) -> None:
        if len(image.topics) == 1:
            for index in range(count):
                cluster.controller.defer(partial(create, f"t{index}"))

    cluster.controller.subscribe(listen)
    create("first")
    assert len(cluster.image.topics) == count + 1


def replayed(*records: object) -> MetadataShard:
    """Return a shard that has read a log with these records."""
    shard = MetadataShard(BrokerConfig.from_text(), SeededEntropy())
    for record in records:
        shard.replay(CoordinatorRecord(None, record))
    return shard


def test_records_of_kafkas_controllers_have_no_effect() -> None:
    shard = replayed(
        NoOpRecord(),
        RegisterControllerRecord(controller_id=1),
        UnregisterControllerRecord(controller_id=1),
        ZkMigrationStateRecord(),
        FenceBrokerRecord(id=1),
        UnfenceBrokerRecord(id=1),
    )
    assert not shard.topics.by_name
    assert not shard.brokers.registered


def test_the_records_of_a_transaction_apply_at_its_end() -> None:
    """Kafka writes the first records of a cluster in a transaction (KIP-868)."""
    topic = TopicRecord(name="t", topic_id=bytes(range(16)))
    begin = BeginTransactionRecord(name="Bootstrap records")
    assert "t" not in replayed(begin, topic).topics.by_name
    assert "t" in replayed(begin, topic, EndTransactionRecord()).topics.by_name
    aborted = replayed(begin, topic, AbortTransactionRecord())
    assert "t" not in aborted.topics.by_name
    aborted.replay(CoordinatorRecord(None, topic))
    assert "t" in aborted.topics.by_name


def test_a_start_aborts_a_transaction_without_an_end() -> None:
    topic = TopicRecord(name="t", topic_id=bytes(range(16)))
    shard = replayed(BeginTransactionRecord(name="Bootstrap records"), topic)
    loaded = shard.on_loaded(0)
    assert loaded.records[0].value == AbortTransactionRecord(reason="Controller failover")
    for record in loaded.records:
        shard.replay(record)
    assert "t" not in shard.topics.by_name
    assert shard.features.levels
    assert not shard.on_loaded(0).records
