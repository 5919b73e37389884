"""Members of a group share the partitions of a topic."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.group_member import GroupMember, assign_ranges
from kafkalite.client.group_offsets import NO_MEMBERSHIP
from kafkalite.testing import Broker
from kafkalite.testing.clock import ManualClock
from tests.unit.client.scripted_client import SkippingClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEARTBEAT_MS = 3_000


@asynccontextmanager
async def member_of(
    broker: Broker, clock: ManualClock, group_id: str = "shop"
) -> AsyncIterator[GroupMember]:
    async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
        yield GroupMember(client, group_id, ["orders"], clock)


def partitions(*indexes: int) -> list[TopicPartition]:
    return [TopicPartition("orders", index) for index in indexes]


async def test_members_share_partitions_and_the_rest_gets_those_of_one_that_leaves() -> None:
    clock = ManualClock(0)
    with Broker(topics={"orders": 3}) as broker:
        async with member_of(broker, clock) as first, member_of(broker, clock) as second:
            assert await first.join() == partitions(0, 1, 2)
            assert await first.keep()
            joining = asyncio.ensure_future(second.join())
            while await first.keep():  # until the broker knows the second member
                clock.advance(HEARTBEAT_MS)
            shares = [await first.join(), await joining]
            assert sorted(shares[0] + shares[1]) == partitions(0, 1, 2)
            assert sorted(map(len, shares)) == [1, 2]
            await second.leave()
            assert second.membership == NO_MEMBERSHIP
            clock.advance(HEARTBEAT_MS)
            assert not await first.keep()
            assert await first.join() == partitions(0, 1, 2)
            await first.leave()
            await first.leave()


async def test_member_that_the_group_has_removed_joins_again() -> None:
    clock = ManualClock(0)
    with Broker(topics={"orders": 1}) as broker:
        async with member_of(broker, clock) as member:
            await member.join()
            former = member.membership.member_id
            broker.clock.advance(minutes=1)
            clock.advance(HEARTBEAT_MS)
            assert not await member.keep()
            assert await member.join() == partitions(0)
            assert member.membership.member_id not in ("", former)


async def test_member_that_must_always_join_again_waits_and_ends_at_its_time_limit() -> None:
    with Broker(topics={"orders": 1}) as broker:
        fault = broker.faults.add(api="JoinGroup", error="UNKNOWN_MEMBER_ID")
        async with member_of(broker, SkippingClock()) as member:
            with pytest.raises(TimedOutError, match="group 'shop': every attempt to join"):
                await member.join()
        # A wait takes a second after a few attempts, and the limit is five minutes.
        assert fault.firings < 310


async def test_refusal_is_an_error() -> None:
    with Broker(topics={"orders": 1}) as broker:
        async with member_of(broker, ManualClock(0), group_id="") as member:
            with pytest.raises(BrokerError, match="INVALID_GROUP_ID"):
                await member.join()


@pytest.mark.parametrize(
    ("counts", "subscribed", "expected"),
    [
        ({"a": 5}, {"a": ["y", "x"]}, {"x": {"a": range(3)}, "y": {"a": range(3, 5)}}),
        ({"a": 1}, {"a": ["y", "x"]}, {"x": {"a": range(1)}}),
        (
            {"a": 2, "b": 2},
            {"a": ["x", "y"], "b": ["y"]},
            {"x": {"a": range(1)}, "y": {"a": range(1, 2), "b": range(2)}},
        ),
        ({}, {"a": ["x"]}, {}),
    ],
)
def test_ranges_are_divided_by_topic(
    counts: dict[str, int],
    subscribed: dict[str, list[str]],
    expected: dict[str, dict[str, range]],
) -> None:
    assert assign_ranges(subscribed, counts) == expected
