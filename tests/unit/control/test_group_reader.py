"""Groups of each type, with members, offsets and lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.control.command_table import CommandError, running_cluster
from kafkalite.control.group_reader import (
    UnknownGroupError,
    describe_group,
    find_group,
    list_groups,
    state_of,
)
from kafkalite.control.group_status import GroupOffset, TopicPartitions
from kafkalite.control.topic_records import produce
from kafkalite.ports.clock import AdjustableClock
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.storage.record_format import NewRecord
from tests.unit.control.group_members import CONFIG, TOPIC, Members
from tests.unit.control.ports import ANY_PORT
from tests.unit.control.test_turns import turns_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW_MS = 1_000_000
ASSIGNED = (TopicPartitions(TOPIC, (0, 1)),)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    clock = AdjustableClock(rate=0, now_ms=NOW_MS)
    running = Broker(Settings(listen=ANY_PORT, topics={TOPIC: 2}, config=CONFIG), clock=clock)
    await running.start()
    yield running
    await running.stop(grace_s=0)


async def test_a_classic_group_has_members_offsets_and_lag(broker: Broker) -> None:
    members = Members(broker)
    await produce(broker, TOPIC, [NewRecord(None, b"v", 0)] * 5, 0)
    member = await members.join_classic("shop", "one")
    await members.commit("shop", 3, member=member, metadata="m")
    group = await describe_group(broker, "shop")
    assert (group.type, group.protocol_type, group.protocol) == ("classic", "consumer", "range")
    assert (group.state, group.epoch, group.assignment_epoch) == ("Stable", 1, None)
    assert group.coordinator == 1
    (found,) = group.members
    assert (found.member_id, found.instance_id, found.client_id) == (member[0], "one", "kafkalite")
    assert (found.host, found.protocol, found.epoch) == ("/127.0.0.1", "classic", 1)
    assert (found.subscription, found.assignment) == ((TOPIC,), ASSIGNED)
    assert group.offsets == (
        GroupOffset(TOPIC, 0, 3, 0, "m", NOW_MS, 5, 2, member[0]),
        GroupOffset(TOPIC, 1, None, None, "", None, 0, None, member[0]),
    )
    assert repr(group) == (
        "<classic group 'shop' Stable at epoch 1, coordinator: node 1, "
        "members: <member one at 127.0.0.1: orders-0,1>, "
        "offsets: <orders-0 at 3 of 5 lag 2> <orders-1 at None of 0>>"
    )


async def test_modern_groups_have_epochs_and_assignments(broker: Broker) -> None:
    members = Members(broker)
    epoch = await members.join_consumer("consumers", "c")
    await members.commit("consumers", 0, member=("c", epoch))
    await members.join_streams("app", "s")
    await members.join_share("queue", "q")
    consumers = await describe_group(broker, "consumers")
    assert (consumers.protocol, consumers.state) == ("uniform", "Stable")
    assert consumers.epoch == consumers.assignment_epoch == epoch
    (consumer,) = consumers.members
    assert (consumer.protocol, consumer.subscription, consumer.assignment) == (
        "consumer", (TOPIC,), ASSIGNED,
    )  # fmt: skip
    assert [each.lag for each in consumers.offsets] == [0, None]
    (streams_member,) = (await describe_group(broker, "app")).members
    assert streams_member.active_tasks == ("0_0", "0_1")
    assert (streams_member.subscription, streams_member.assignment) == ((TOPIC,), ASSIGNED)
    queue = await describe_group(broker, "queue")
    assert (queue.protocol, queue.members[0].assignment) == ("simple", ASSIGNED)
    assert [(each.partition, each.member_id) for each in queue.offsets] == [(0, None), (1, None)]


async def test_an_offset_that_is_no_position_has_no_lag(broker: Broker) -> None:
    await Members(broker).commit("shop", -1)
    (offset,) = (await describe_group(broker, "shop")).offsets
    assert (offset.offset, offset.end_offset, offset.lag) == (-1, 0, None)


async def test_groups_are_listed_by_id(broker: Broker) -> None:
    assert await list_groups(broker) == []
    members = Members(broker)
    await members.commit("simple", 1)
    await members.join_share("queue", "q")
    queue, simple = await list_groups(broker)
    assert repr(queue) == "<share group 'queue' Stable, members: 1>"
    assert (simple.group_id, simple.type, simple.protocol_type, simple.state, simple.members) == (
        "simple", "classic", "", "Empty", 0,
    )  # fmt: skip


async def test_other_requests_are_served_while_a_large_group_is_described(broker: Broker) -> None:
    members = Members(broker)
    await members.commit("shop", 1)
    (shard,) = running_cluster(broker).groups.shards()
    committed = shard.machine.offsets.of_group("shop")[TOPIC]
    assert isinstance(committed, dict)
    committed.update(dict.fromkeys(range(10_000), committed[0]))
    assert await turns_of(describe_group(broker, "shop")) >= 100
    for number in range(1_000):
        await members.commit(f"group {number}", 1)
    assert await turns_of(list_groups(broker)) >= 10


async def test_sessions_that_are_over_have_no_member(broker: Broker) -> None:
    members = Members(broker)
    await members.join_consumer("consumers", "c")
    clock = broker.clock
    assert isinstance(clock, AdjustableClock)
    clock.advance(60_000)
    assert (await describe_group(broker, "consumers")).members == ()
    assert state_of(running_cluster(broker), "consumers") == ("Empty", 0)


async def test_a_group_needs_a_coordinator(broker: Broker) -> None:
    await Members(broker).commit("shop", 1)
    cluster = running_cluster(broker)
    cluster.metadata.fence(1)
    with pytest.raises(CommandError, match="group 'shop' has no coordinator: no node leads part"):
        find_group(cluster, "shop")
    cluster.metadata.unfence(1)
    assert [each.lag for each in (await describe_group(broker, "shop")).offsets] == [-1]


async def test_an_unknown_group_is_named_with_similar_ones(broker: Broker) -> None:
    with pytest.raises(UnknownGroupError, match=r"^there is no group 'shop'$"):
        await describe_group(broker, "shop")
    await Members(broker).commit("shop", 1)
    with pytest.raises(UnknownGroupError, match="no group 'shpo'; similar names are shop"):
        await describe_group(broker, "shpo")
    assert state_of(running_cluster(broker), "shpo") == ("Dead", 0)
