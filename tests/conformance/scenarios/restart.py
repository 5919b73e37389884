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
    from tests.conformance.world import World

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


def prepare(world: World) -> Before:
    """Create state of every kind: records, settings, offsets, groups, sequences."""
    topic = world.name
    topic_id = create_topic(world, topic, 2, {"retention.ms": "-1"})
    for start in (0, 1000):
        values = Batch(values=(b"a", b"b"), timestamp=BASE_TIMESTAMP + start).encode()
        world.probe(produce(topic, values), 9)
    fill(world, topic, b"c", b"d", b"e", partition=1)
    producer = producer_id(world)
    create_topic(world, f"{topic}-numbered")
    world.ask(_numbered(topic, producer, 0), 9)
    cut = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=1, offset=1)
    rows = [DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[cut])]
    world.ask(DeleteRecordsRequest(topics=rows, timeout_ms=10_000), 2)
    _change_settings(world)
    group, member, generation = stable_group(world, f"{topic}-classic", topic)
    named = commit(f"{topic}-classic", topic, 0, 1, member_id=member, epoch=generation)
    world.ask(named, 8)
    wait_for_group_coordinator(world, f"{topic}-consumer")
    consumers = Consumers(f"{topic}-consumer", topic, topic_id)
    joined = world.ask(consumers.join("a"), 1)
    return Before(
        topic,
        topic_id,
        producer,
        (group, member, generation),
        (consumers, joined.member_epoch),
        _begin_streams_group(world, topic),
        _begin_share_group(world, topic, topic_id),
        _begin_share_partition(world, f"{topic}-shared"),
        _begin_mixed_group(world, f"{topic}-mixed"),
        _begin_downgraded_group(world, f"{topic}-downgraded"),
    )


def _begin_mixed_group(world: World, name: str) -> tuple[Play, str]:
    """Create an upgraded consumer group with a member of each protocol."""
    play = Play(world, name=name)
    return play, play.mixed()


def _begin_downgraded_group(world: World, name: str) -> tuple[Play, str]:
    """Create a classic group that was downgraded from a consumer group."""
    play, member = _begin_mixed_group(world, name)
    world.ask(play.consumers.heartbeat("c", -1), 1)
    return play, member


def _begin_share_group(world: World, topic: str, topic_id: bytes) -> tuple[Sharers, int]:
    """Create a share group with offsets, and a member with all partitions."""
    sharers = Sharers(f"{topic}-share", topic, topic_id)
    wait_for_group_coordinator(world, sharers.group)
    world.ask(altered(sharers.group, {topic: {0: 1, 1: 2}}), 0)
    world.call_until(
        all_share_offsets(sharers.group),
        1,
        lambda response: bool(response.groups[0].topics),
    )
    joined = world.ask(sharers.join("a"), 1)
    return sharers, joined.member_epoch


def _begin_share_partition(world: World, name: str) -> Shared:
    """Acknowledge, release and acquire records, with gaps between them."""
    shared = shared_topic(world, 4, 4, 4, name=name)
    world.ask(shared.fetch("a", FIRST, 0, batch_size=1), SHARE_VERSION)
    acks = ((0, 0, [ACCEPT]), (2, 3, [ACCEPT]), (5, 5, [RELEASE]), (8, 11, [ACCEPT]))
    world.ask(shared.ack("a", 1, *acks), SHARE_VERSION)
    shared.note_state()
    return shared


def _inspect_share_partition(world: World, shared: Shared) -> None:
    """Deliver unacknowledged records again; their acquisition is lost."""
    epoch = _leader_epoch(world, shared.topic_id)
    world.call_until(
        read_state(shared.group, shared.topic_id, 0, epoch),
        0,
        lambda response: response.results[0].partitions[0].error_code == ErrorCode.NONE,
    )
    world.ask(shared.fetch("b", FIRST, 0, max_wait_ms=5000), SHARE_VERSION)
    world.ask(shared.ack("b", 1, (1, 1, [ACCEPT]), (4, 7, [ACCEPT])), SHARE_VERSION)
    shared.note_state(leader_epoch=epoch)
    world.ask(shared.fetch("b", 2), SHARE_VERSION)


def _leader_epoch(world: World, topic_id: bytes) -> int:
    """Return the leader epoch of a topic's first partition; the share coordinator checks it."""
    requested = MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None)
    response = world.probe(MetadataRequest(topics=[requested], allow_auto_topic_creation=False), 12)
    epoch: int = response.topics[0].partitions[0].leader_epoch
    return epoch


def _begin_streams_group(world: World, topic: str) -> Streams:
    """Create a streams group during a rebalance."""
    store = f"{topic}-store"
    create_topic(world, store, 2)
    wait_for_group_coordinator(world, f"{topic}-streams")
    subtopology = reading(topic, state_changelog_topics=[internal(store)])
    streams = Streams(f"{topic}-streams", (subtopology,))
    world.ask(streams.join("a"), 0)
    world.ask(streams.join("b"), 0)
    world.ask(streams.heartbeat("a", 2), 0)
    return streams


def _change_settings(world: World) -> None:
    world.ask(alter(TOPIC, world.name, ("cleanup.policy", SET, "compact,delete")), 1)
    world.ask(alter(GROUP, world.name, (_SESSION_KEY, SET, "46000")), 1)
    world.ask(alter(BROKER, "1", ("log.cleaner.backoff.ms", SET, "14000")), 1)
    settled(world, "log.cleaner.backoff.ms", "14000", kind=BROKER, name="1")


def _numbered(topic: str, producer: tuple[int, int], first: int) -> ProduceRequest:
    batch = Batch(
        # A broker expires producers whose last record is a day old, so this record is new.
        timestamp=int(time.time() * 1000),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=first,
    )
    return produce(f"{topic}-numbered", batch.encode())


def inspect(world: World, before: Before) -> None:
    """Describe everything again."""
    wait_for_leader(world, before.topic, 2)
    wait_for_leader(world, f"{before.topic}-numbered")
    wait_for_group_coordinator(world, f"{before.topic}-classic")
    wait_for_group_coordinator(world, f"{before.topic}-consumer")
    _inspect_topic(world, before)
    _inspect_settings(world)
    _inspect_classic_group(world, before)
    _inspect_consumer_group(world, before)
    _inspect_streams_group(world, before)
    _inspect_share_group(world, before)
    _inspect_migrated_groups(world, before)


def _inspect_migrated_groups(world: World, before: Before) -> None:
    for play, member in (before.mixed, before.downgraded):
        wait_for_group_coordinator(world, play.group)
        play.look()
        world.ask(play.classics.heartbeat(member, 2), 4)
        world.ask(play.classics.sync(member, 2), 5)
        world.ask(play.consumers.heartbeat("c", 2), 1)
    play, member = before.mixed
    play.rejoin(member, [0, 1])
    world.ask(play.consumers.heartbeat("c", -1), 1)
    play.look()


def _inspect_share_group(world: World, before: Before) -> None:
    _inspect_share_partition(world, before.shared)
    sharers, epoch = before.sharers
    wait_for_group_coordinator(world, sharers.group)
    world.ask(ShareGroupDescribeRequest(group_ids=[sharers.group]), 1)
    world.call_until(
        all_share_offsets(sharers.group),
        1,
        lambda response: all(
            partition.start_offset > 0
            for topic in response.groups[0].topics
            for partition in topic.partitions
        ),
    )
    world.ask(sharers.beat("a", epoch), 1)
    world.ask(sharers.join("a"), 1)
    world.ask(sharers.beat("a", epoch + 1), 1)
    world.ask(sharers.beat("a", -1), 1)
    world.ask(ShareGroupDescribeRequest(group_ids=[sharers.group]), 1)


def _inspect_topic(world: World, before: Before) -> None:
    asked = MetadataRequest.MetadataRequestTopic(topic_id=before.topic_id, name=None)
    world.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12)
    for timestamp in (EARLIEST, LATEST, BASE_TIMESTAMP + 500):
        world.ask(list_offsets(before.topic, 0, 1, timestamp=timestamp), 3)
    world.ask(fetch_from(before.topic, partition_at(0), partition_at(1, 1)), 11)
    world.ask(_numbered(before.topic, before.producer, 0), 9)  # a duplicate still
    world.ask(_numbered(before.topic, before.producer, 2), 9)  # a gap still
    world.ask(_numbered(before.topic, before.producer, 1), 9)
    world.record("a new producer id", producer_id(world)[0] != before.producer[0])


def _inspect_settings(world: World) -> None:
    world.ask(describe(TOPIC, world.name, ["cleanup.policy", "retention.ms"]), 4)
    world.ask(describe(GROUP, world.name, [_SESSION_KEY]), 4)
    world.ask(describe(BROKER, "1", ["log.cleaner.backoff.ms"]), 4)


def _inspect_classic_group(world: World, before: Before) -> None:
    group, member, generation = before.classic
    world.ask(fetch(group.group, before.topic, 0, 1), 8)
    world.ask(DescribeGroupsRequest(groups=[group.group]), 5)
    world.ask(group.heartbeat(member, generation), 4)
    world.ask(group.sync(member, generation), 5)
    again = commit(group.group, before.topic, 0, member_id=member, epoch=generation, offset=7)
    world.ask(again, 8)
    world.ask(fetch(group.group, before.topic, 0, 1), 8)


def _inspect_consumer_group(world: World, before: Before) -> None:
    consumers, epoch = before.consumer
    world.ask(ConsumerGroupDescribeRequest(group_ids=[consumers.group]), 1)
    world.ask(consumers.heartbeat("a", epoch), 1)
    world.ask(consumers.join("b"), 1)
    response = world.ask(consumers.heartbeat("a", epoch), 1)
    world.record("a shares with b", response.assignment is not None)
    listed = world.connection("main").call(ListGroupsRequest(), 5)
    ours = sorted(
        f"{row.group_id} {row.group_state} {row.group_type}"
        for row in listed.groups
        if row.group_id.startswith(before.topic)
    )
    world.record("listed", [*ours])


def _inspect_streams_group(world: World, before: Before) -> None:
    streams = before.streams
    wait_for_group_coordinator(world, streams.group)
    world.ask(StreamsGroupDescribeRequest(group_ids=[streams.group]), 0)
    world.ask(streams.heartbeat("b", 3), 0)
    world.ask(streams.heartbeat("a", 2, {"0": (0,)}), 0)
    world.ask(commit(streams.group, before.topic, 0, member_id="a", epoch=2), 9)
    world.ask(commit(streams.group, before.topic, 1, member_id="a", epoch=2), 9)
    world.ask(streams.heartbeat("b", 3), 0)
    world.ask(StreamsGroupDescribeRequest(group_ids=[streams.group]), 0)
