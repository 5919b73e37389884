"""What is still true after the broker was stopped and started again on its data directory."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalite.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkalite.protocol.messages.delete_records import DeleteRecordsRequest
from kafkalite.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalite.protocol.messages.list_groups import ListGroupsRequest
from kafkalite.protocol.messages.metadata import MetadataRequest
from tests.conformance.batches import BASE_TIMESTAMP, Batch
from tests.conformance.scenarios.classic_groups import Classic, stable_group
from tests.conformance.scenarios.commits import commit, fetch
from tests.conformance.scenarios.configs import BROKER, GROUP, SET, TOPIC, alter, describe, settled
from tests.conformance.scenarios.consumer_groups import Consumers
from tests.conformance.scenarios.fetching import fetch_from, partition_at
from tests.conformance.setup import (
    EARLIEST,
    LATEST,
    create_topic,
    fill,
    list_offsets,
    produce,
    producer_id,
    ready_group,
    wait_for_leader,
)

if TYPE_CHECKING:
    from kafkalite.protocol.messages.produce import ProduceRequest
    from tests.conformance.world import World

_SESSION_KEY = "consumer.session.timeout.ms"


@dataclass(frozen=True, slots=True)
class Before:
    """What a client remembers from before the restart."""

    topic: str
    topic_id: bytes
    producer: tuple[int, int]
    classic: tuple[Classic, str, int]
    consumer: tuple[Consumers, int]


def prepare(world: World) -> Before:
    """Leave something of every kind behind: records, settings, offsets, groups, sequences."""
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
    ready_group(world, f"{topic}-consumer")
    consumers = Consumers(f"{topic}-consumer", topic, topic_id)
    joined = world.ask(consumers.join("a"), 1)
    return Before(
        topic, topic_id, producer, (group, member, generation), (consumers, joined.member_epoch)
    )


def _change_settings(world: World) -> None:
    world.ask(alter(TOPIC, world.name, ("cleanup.policy", SET, "compact,delete")), 1)
    world.ask(alter(GROUP, world.name, (_SESSION_KEY, SET, "46000")), 1)
    world.ask(alter(BROKER, "1", ("log.cleaner.backoff.ms", SET, "14000")), 1)
    settled(world, "log.cleaner.backoff.ms", "14000", kind=BROKER, name="1")


def _numbered(topic: str, producer: tuple[int, int], first: int) -> ProduceRequest:
    batch = Batch(
        # A broker forgets producers whose last record is a day old, so this one is of today.
        timestamp=int(time.time() * 1000),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=first,
    )
    return produce(f"{topic}-numbered", batch.encode())


def inspect(world: World, before: Before) -> None:
    """Look at everything again."""
    wait_for_leader(world, before.topic, 2)
    wait_for_leader(world, f"{before.topic}-numbered")
    ready_group(world, f"{before.topic}-classic")
    ready_group(world, f"{before.topic}-consumer")
    _inspect_topic(world, before)
    _inspect_settings(world)
    _inspect_classic_group(world, before)
    _inspect_consumer_group(world, before)


def _inspect_topic(world: World, before: Before) -> None:
    asked = MetadataRequest.MetadataRequestTopic(topic_id=before.topic_id, name=None)
    world.ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False), 12)
    for timestamp in (EARLIEST, LATEST, BASE_TIMESTAMP + 500):
        world.ask(list_offsets(before.topic, 0, 1, timestamp=timestamp), 3)
    world.ask(fetch_from(before.topic, partition_at(0), partition_at(1, 1)), 11)
    world.ask(_numbered(before.topic, before.producer, 0), 9)  # a duplicate still
    world.ask(_numbered(before.topic, before.producer, 2), 9)  # a gap still
    world.ask(_numbered(before.topic, before.producer, 1), 9)
    world.note("a new producer id", producer_id(world)[0] != before.producer[0])


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
    told = world.ask(consumers.heartbeat("a", epoch), 1)
    world.note("a shares with b", told.assignment is not None)
    listed = world.connection("main").call(ListGroupsRequest(), 5)
    ours = sorted(
        f"{row.group_id} {row.group_state} {row.group_type}"
        for row in listed.groups
        if row.group_id.startswith(before.topic)
    )
    world.note("listed", [*ours])
