"""Groups of all types are listed, described and deleted, and their offsets are set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError, ClientError, UnknownNameError
from kafkalite.client.groups import (
    GroupListing,
    GroupPartition,
    committed_offsets,
    delete_groups,
    describe_group,
    find_group,
    group_partitions,
    list_groups,
    set_offsets,
)
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.testing import Broker
from tests.unit.control.group_members import CONFIG, Members

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

TYPES = ("classic", "consumer", "share", "streams")
FIRST, SECOND = (TopicPartition("orders", index) for index in (0, 1))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Return a broker with a member in a group of each type, which has the name of the type."""
    with Broker(topics={"orders": 2}, config=CONFIG, brokers=2) as running:
        for index, count in ((0, 3), (1, 1)):
            for _ in range(count):
                running.produce("orders", "value", partition=index)
        running._run_on_loop(join_groups(running))
        yield running


async def join_groups(broker: Broker) -> None:
    members = Members(broker._running_broker())
    await members.join_classic("classic", instance="static")
    await members.join_consumer("consumer", "member")
    await members.join_share("share", "member")
    await members.join_streams("streams", "member")


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[KafkaClient]:
    async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as connected:
        yield connected


async def test_groups_of_all_coordinators_are_listed(client: KafkaClient) -> None:
    groups = [each for each in await list_groups(client) if each.group_id in TYPES]
    assert [each.group_id for each in groups] == [each.type for each in groups] == list(TYPES)
    assert {each.coordinator for each in groups} <= {1, 2}
    assert groups[0].protocol_type == "consumer"
    assert groups[0].state == "Stable"


@pytest.mark.parametrize("kind", TYPES)
async def test_members_have_their_partitions(client: KafkaClient, kind: str) -> None:
    group = await describe_group(client, kind)
    (member,) = group.members
    assert (group.group_id, group.type) == (kind, kind)
    assert (group.epoch is None, member.epoch is None) == (kind == "classic", kind == "classic")
    assert member.instance_id == ("static" if kind == "classic" else None)
    rows = await group_partitions(client, group)
    if kind != "streams":  # its internal topics are not created by these requests
        assert member.assignment == (FIRST, SECOND)
        assert [row.partition for row in rows] == [FIRST, SECOND]
        assert [row.end_offset for row in rows] == [3, 1]
        assert [row.member for row in rows] == [member, member]


async def test_offsets_and_lag_are_those_of_the_group(client: KafkaClient) -> None:
    group = GroupListing("offsets", "classic", "", "", -1)
    await set_offsets(client, group, {FIRST: 1})
    assert await committed_offsets(client, "offsets") == {FIRST: 1}
    rows = await group_partitions(client, await describe_group(client, "offsets"))
    assert rows == [GroupPartition(FIRST, 1, 3, 2, None)]
    await set_offsets(client, group, {})
    assert await delete_groups(client, ["offsets"]) == {"offsets": None}


@pytest.mark.usefixtures("old_versions")
async def test_old_brokers_are_supported(client: KafkaClient) -> None:
    await set_offsets(client, GroupListing("old", "classic", "", "", -1), {FIRST: 1})
    listed = await find_group(client, "old")
    assert (listed.type, listed.state) == ("classic", "")
    described = await describe_group(client, "old")
    assert described.state == "Empty"
    rows = await group_partitions(client, described)
    assert rows == [GroupPartition(FIRST, 1, 3, 2, None)]
    (member,) = (await describe_group(client, "classic")).members
    assert member.assignment == (FIRST, SECOND)
    assert await delete_groups(client, ["old"]) == {"old": None}


async def join_and_leave(broker: Broker) -> None:
    members = Members(broker._running_broker())
    await members.join_share("sharers", "member")
    await members.leave_share("sharers", "member")


async def test_start_offsets_of_a_share_group_are_set(broker: Broker, client: KafkaClient) -> None:
    broker._run_on_loop(join_and_leave(broker))
    await set_offsets(client, await find_group(client, "sharers"), {FIRST: 2, SECOND: 0})
    rows = await group_partitions(client, await describe_group(client, "sharers"))
    assert [(row.partition, row.offset, row.lag) for row in rows] == [(FIRST, 2, 1), (SECOND, 0, 1)]
    assert await delete_groups(client, ["sharers"]) == {"sharers": None}


@pytest.mark.parametrize("kind", TYPES)
async def test_groups_with_members_are_not_changed(client: KafkaClient, kind: str) -> None:
    with pytest.raises(ClientError, match=f"group '{kind}' has members, its state is "):
        await set_offsets(client, await find_group(client, kind), {FIRST: 0})
    error = (await delete_groups(client, [kind]))[kind]
    assert error is not None
    assert error.code is ErrorCode.NON_EMPTY_GROUP


async def test_broker_refuses_offsets_of_a_group_that_has_got_members(client: KafkaClient) -> None:
    with pytest.raises(BrokerError):
        await set_offsets(client, GroupListing("classic", "classic", "", "", -1), {FIRST: 0})


async def test_unknown_group_has_similar_names(client: KafkaClient) -> None:
    with pytest.raises(UnknownNameError, match="no group 'consumers'; similar names are consumer"):
        await describe_group(client, "consumers")
    (error,) = (await delete_groups(client, ["none"])).values()
    assert error is not None
    assert error.code is ErrorCode.GROUP_ID_NOT_FOUND
