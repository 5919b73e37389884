"""State after a restart of the broker on its data directory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.protocol._generated.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from kafkalite.protocol._generated.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol._generated.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol._generated.messages.list_groups import ListGroupsRequest
from kafkalite.protocol._generated.messages.metadata import MetadataRequest
from kafkalite.protocol._generated.messages.share_group_describe import ShareGroupDescribeRequest
from kafkalite.protocol._generated.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.conformance.batches import BASE_TIMESTAMP, Batch
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.configs import BROKER, GROUP, SET, TOPIC, alter, describe, settled
from tests.conformance.scenarios.consumer_groups import Consumers
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.scenarios.migration import Play
from tests.conformance.scenarios.share_fetching import (
    ACCEPT,
    FIRST,
    RELEASE,
    Shared,
    read_state,
    shared_topic,
)
from tests.conformance.scenarios.share_fetching import V as SHARE_VERSION
from tests.conformance.scenarios.share_groups import Sharers
from tests.conformance.scenarios.share_offsets import all_share_offsets, altered
from tests.conformance.scenarios.streams_groups import Streams, internal, reading
from tests.conformance.setup import (
    EARLIEST,
    LATEST,
    create_topic,
    fill,
    list_offsets,
    produce,
    producer_id,
    wait_for_group_coordinator,
    wait_for_leader,
)

if TYPE_CHECKING:
    from kafkalite.protocol._generated.messages.produce import ProduceRequest
    from tests.conformance.scenario_cluster import ScenarioCluster

_SESSION_KEY = "consumer.session.timeout.ms"


@dataclass(frozen=True, slots=True)
class Before:
    """State of a client from before the restart."""

    topic: str
    topic_id: bytes
    producer: tuple[int, int]
    classic: tuple[Classic, str, int]
    consumer: tuple[Consumers, int]
    streams: Streams
    sharers: tuple[Sharers, int]
    shared: Shared
    mixed: tuple[Play, str]
    downgraded: tuple[Play, str]


def prepare(cluster: ScenarioCluster) -> Before:
    """Create state of every kind: records, settings, offsets, groups, sequences."""
    topic = cluster.name
    topic_id = create_topic(cluster, topic, 2, {"retention.ms": "-1"})
    for start in (0, 1000):
        values = Batch(values=(b"a", b"b"), timestamp=BASE_TIMESTAMP + start).encode()
        cluster.probe(produce(topic, values), 9)
    fill(cluster, topic, b"c", b"d", b"e", partition=1)
    producer = producer_id(cluster)
    create_topic(cluster, f"{topic}-numbered")
    cluster.ask(_numbered(topic, producer, 0), 9)
    cut = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=1, offset=1)
    rows = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[cut])]
    cluster.ask(DeleteRecordsRequest(topics=rows, timeout_ms=10_000), 2)
    _change_settings(cluster)
    group, member, generation = stable_group(cluster, f"{topic}-classic", topic)
    named = commit(f"{topic}-classic", topic, 0, 1, member_id=member, epoch=generation)
    cluster.ask(named, 8)
    wait_for_group_coordinator(cluster, f"{topic}-consumer")
    consumers = Consumers(f"{topic}-consumer", topic, topic_id)
    joined = cluster.ask(consumers.join("a"), 1)
    return Before(
        topic,
        topic_id,
        producer,
        (group, member, generation),
        (consumers, joined.member_epoch),
        _begin_streams_group(cluster, topic),
        _begin_share_group(cluster, topic, topic_id),
        _begin_share_partition(cluster, f"{topic}-shared"),
        _begin_mixed_group(cluster, f"{topic}-mixed"),
        _begin_downgraded_group(cluster, f"{topic}-downgraded"),
    )


def _begin_mixed_group(cluster: ScenarioCluster, name: str) -> tuple[Play, str]:
    """Create an upgraded consumer group with a member of each protocol."""
    play = Play(cluster, name=name)
    return play, play.mixed()


def _begin_downgraded_group(cluster: ScenarioCluster, name: str) -> tuple[Play, str]:
    """Create a classic group that was downgraded from a consumer group."""
    play, member = _begin_mixed_group(cluster, name)
    cluster.ask(play.consumers.heartbeat("c", -1), 1)
    return play, member


def _begin_share_group(
    cluster: ScenarioCluster, topic: str, topic_id: bytes
) -> tuple[Sharers, int]:
    """Create a share group with offsets, and a member with all partitions."""
    sharers = Sharers(f"{topic}-share", topic, topic_id)
    wait_for_group_coordinator(cluster, sharers.group)
    cluster.ask(altered(sharers.group, {topic: {0: 1, 1: 2}}), 0)
    cluster.call_until(
        all_share_offsets(sharers.group),
        1,
        lambda response: bool(response.groups[0].topics),
    )
    joined = cluster.ask(sharers.join("a"), 1)
    return sharers, joined.member_epoch


def _begin_share_partition(cluster: ScenarioCluster, name: str) -> Shared:
    """Acknowledge, release and acquire records, with gaps between them."""
    shared = shared_topic(cluster, 4, 4, 4, name=name)
    cluster.ask(shared.fetch("a", FIRST, 0, batch_size=1), SHARE_VERSION)
    acks = ((0, 0, [ACCEPT]), (2, 3, [ACCEPT]), (5, 5, [RELEASE]), (8, 11, [ACCEPT]))
    cluster.ask(shared.ack("a", 1, *acks), SHARE_VERSION)
    shared.note_state()
    return shared


def _inspect_share_partition(cluster: ScenarioCluster, shared: Shared) -> None:
    """Deliver unacknowledged records again; their acquisition is lost."""
    epoch = _leader_epoch(cluster, shared.topic_id)
    cluster.call_until(
        read_state(shared.group, shared.topic_id, 0, epoch),
        0,
        lambda response: response.results[0].partitions[0].error_code == ErrorCode.NONE,
    )
    cluster.ask(shared.fetch("b", FIRST, 0, max_wait_ms=5000), SHARE_VERSION)
    cluster.ask(shared.ack("b", 1, (1, 1, [ACCEPT]), (4, 7, [ACCEPT])), SHARE_VERSION)
    shared.note_state(leader_epoch=epoch)
    cluster.ask(shared.fetch("b", 2), SHARE_VERSION)


def _leader_epoch(cluster: ScenarioCluster, topic_id: bytes) -> int:
    """Return the leader epoch of a topic's first partition; the share coordinator checks it."""
    requested = MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None)
    response = cluster.probe(
        MetadataRequest(topics=[requested], allow_auto_topic_creation=False), 12
    )
    epoch: int = response.topics[0].partitions[0].leader_epoch
    return epoch


def _begin_streams_group(cluster: ScenarioCluster, topic: str) -> Streams:
    """Create a streams group during a rebalance."""
    store = f"{topic}-store"
    create_topic(cluster, store, 2)
    wait_for_group_coordinator(cluster, f"{topic}-streams")
    subtopology = reading(topic, state_changelog_topics=[internal(store)])
    streams = Streams(f"{topic}-streams", (subtopology,))
    cluster.ask(streams.join("a"), 0)
    cluster.ask(streams.join("b"), 0)
    cluster.ask(streams.heartbeat("a", 2), 0)
    return streams


def _change_settings(cluster: ScenarioCluster) -> None:
    cluster.ask(alter(TOPIC, cluster.name, ("cleanup.policy", SET, "compact,delete")), 1)
    cluster.ask(alter(GROUP, cluster.name, (_SESSION_KEY, SET, "46000")), 1)
    cluster.ask(alter(BROKER, "1", ("log.cleaner.backoff.ms", SET, "14000")), 1)
    settled(cluster, "log.cleaner.backoff.ms", "14000", kind=BROKER, name="1")


def _numbered(topic: str, producer: tuple[int, int], first: int) -> ProduceRequest:
    batch = Batch(
        # A broker expires producers whose last record is a day old, so this record is new.
        timestamp=int(time.time() * 1000),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=first,
    )
    return produce(f"{topic}-numbered", batch.encode())


def inspect(cluster: ScenarioCluster, before: Before) -> None:
    """Describe everything again."""
    wait_for_leader(cluster, before.topic, 2)
    wait_for_leader(cluster, f"{before.topic}-numbered")
    wait_for_group_coordinator(cluster, f"{before.topic}-classic")
    wait_for_group_coordinator(cluster, f"{before.topic}-consumer")
    _inspect_topic(cluster, before)
    _inspect_settings(cluster)
    _inspect_classic_group(cluster, before)
    _inspect_consumer_group(cluster, before)
    _inspect_streams_group(cluster, before)
    _inspect_share_group(cluster, before)
    _inspect_migrated_groups(cluster, before)


def _inspect_migrated_groups(cluster: ScenarioCluster, before: Before) -> None:
    for play, member in (before.mixed, before.downgraded):
        wait_for_group_coordinator(cluster, play.group)
        play.look()
        cluster.ask(play.classics.heartbeat(member, 2), 4)
        cluster.ask(play.classics.sync(member, 2), 5)
        cluster.ask(play.consumers.heartbeat("c", 2), 1)
    play, member = before.mixed
    play.rejoin(member, [0, 1])
    cluster.ask(play.consumers.heartbeat("c", -1), 1)
    play.look()


def _inspect_share_group(cluster: ScenarioCluster, before: Before) -> None:
    _inspect_share_partition(cluster, before.shared)
    sharers, epoch = before.sharers
    wait_for_group_coordinator(cluster, sharers.group)
    cluster.ask(ShareGroupDescribeRequest(group_ids=[sharers.group]), 1)
    cluster.call_until(
        all_share_offsets(sharers.group),
        1,
        lambda response: all(
            partition.start_offset > 0
            for topic in response.groups[0].topics
            for partition in topic.partitions
        ),
    )
    cluster.ask(sharers.beat("a", epoch), 1)
    cluster.ask(sharers.join("a"), 1)
    cluster.ask(sharers.beat("a", epoch + 1), 1)
    cluster.ask(sharers.beat("a", -1), 1)
    cluster.ask(ShareGroupDescribeRequest(group_ids=[sharers.group]), 1)


def _inspect_topic(cluster: ScenarioCluster, before: Before) -> None:
    asked = MetadataRequest.MetadataRequestTopic(topic_id=before.topic_id, name=None)
    cluster.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12)
    for timestamp in (EARLIEST, LATEST, BASE_TIMESTAMP + 500):
        cluster.ask(list_offsets(before.topic, 0, 1, timestamp=timestamp), 3)
    cluster.ask(fetch_from(before.topic, partition_at(0), partition_at(1, 1)), 11)
    cluster.ask(_numbered(before.topic, before.producer, 0), 9)  # a duplicate still
    cluster.ask(_numbered(before.topic, before.producer, 2), 9)  # a gap still
    cluster.ask(_numbered(before.topic, before.producer, 1), 9)
    cluster.record("a new producer id", producer_id(cluster)[0] != before.producer[0])


def _inspect_settings(cluster: ScenarioCluster) -> None:
    cluster.ask(describe(TOPIC, cluster.name, ["cleanup.policy", "retention.ms"]), 4)
    cluster.ask(describe(GROUP, cluster.name, [_SESSION_KEY]), 4)
    cluster.ask(describe(BROKER, "1", ["log.cleaner.backoff.ms"]), 4)


def _inspect_classic_group(cluster: ScenarioCluster, before: Before) -> None:
    group, member, generation = before.classic
    cluster.ask(fetch(group.group, before.topic, 0, 1), 8)
    cluster.ask(DescribeGroupsRequest(groups=[group.group]), 5)
    cluster.ask(group.heartbeat(member, generation), 4)
    cluster.ask(group.sync(member, generation), 5)
    again = commit(group.group, before.topic, 0, member_id=member, epoch=generation, offset=7)
    cluster.ask(again, 8)
    cluster.ask(fetch(group.group, before.topic, 0, 1), 8)


def _inspect_consumer_group(cluster: ScenarioCluster, before: Before) -> None:
    consumers, epoch = before.consumer
    cluster.ask(ConsumerGroupDescribeRequest(group_ids=[consumers.group]), 1)
    cluster.ask(consumers.heartbeat("a", epoch), 1)
    cluster.ask(consumers.join("b"), 1)
    response = cluster.ask(consumers.heartbeat("a", epoch), 1)
    cluster.record("a shares with b", response.assignment is not None)
    listed = cluster.connection("main").call(ListGroupsRequest(), 5)
    ours = sorted(
        f"{row.group_id} {row.group_state} {row.group_type}"
        for row in listed.groups
        if row.group_id.startswith(before.topic)
    )
    cluster.record("listed", [*ours])


def _inspect_streams_group(cluster: ScenarioCluster, before: Before) -> None:
    streams = before.streams
    wait_for_group_coordinator(cluster, streams.group)
    cluster.ask(StreamsGroupDescribeRequest(group_ids=[streams.group]), 0)
    cluster.ask(streams.heartbeat("b", 3), 0)
    cluster.ask(streams.heartbeat("a", 2, {"0": (0,)}), 0)
    cluster.ask(commit(streams.group, before.topic, 0, member_id="a", epoch=2), 9)
    cluster.ask(commit(streams.group, before.topic, 1, member_id="a", epoch=2), 9)
    cluster.ask(streams.heartbeat("b", 3), 0)
    cluster.ask(StreamsGroupDescribeRequest(group_ids=[streams.group]), 0)
