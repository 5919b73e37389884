"""The offsets that a reset would set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import ClientError, UnknownNameError
from kafkalite.client.groups import GroupListing, set_offsets
from kafkalite.client.offset_reset import plan_reset
from kafkalite.client.offsets import OffsetTarget
from kafkalite.testing import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

FIRST, SECOND = (TopicPartition("orders", index) for index in (0, 1))
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"other": 1}) as running:
        running.create_topic("orders", partitions=2, config={"retention.ms": "-1"})
        for number in range(6):
            running.produce("orders", "x", partition=number % 2, timestamp=number * HOUR_MS)
        yield running


@pytest.fixture
async def client(broker: Broker) -> AsyncIterator[KafkaClient]:
    """Return a client of the broker, whose group `shop` has offsets 1 and 2."""
    async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as connected:
        group = GroupListing("shop", "classic", "", "", -1)
        await set_offsets(connected, group, {FIRST: 1, SECOND: 2})
        yield connected


@pytest.mark.parametrize(
    ("target", "offsets"),
    [
        ("earliest", (0, 0)),
        ("latest", (3, 3)),
        ("2", (2, 2)),
        ("99", (3, 3)),
        ("1970-01-01T02:30:00Z", (2, 1)),
        ("1971-01-01T00:00:00Z", (3, 3)),
        (-1, (0, 1)),
        (-99, (0, 0)),
        (1, (2, 3)),
        (99, (3, 3)),
    ],
)
async def test_new_offsets_are_within_the_partitions(
    client: KafkaClient, target: str | int, offsets: tuple[int, int]
) -> None:
    found = None if isinstance(target, int) else OffsetTarget.parse(target)
    shift = target if isinstance(target, int) else None
    plan = await plan_reset(client, "shop", {}, found, shift)
    assert plan.former == {FIRST: 1, SECOND: 2}
    assert plan.offsets == dict(zip((FIRST, SECOND), offsets, strict=True))


async def test_topics_and_partitions_can_be_chosen(client: KafkaClient) -> None:
    earliest = OffsetTarget()
    plan = await plan_reset(client, "shop", {"orders": [1], "other": None}, earliest)
    assert plan.offsets == {SECOND: 0, TopicPartition("other", 0): 0}
    assert (await plan_reset(client, "new", {"orders": None}, earliest)).offsets.keys() == {
        FIRST,
        SECOND,
    }
    with pytest.raises(UnknownNameError, match="no group 'new'"):
        await plan_reset(client, "new", {}, earliest)
    with pytest.raises(ClientError, match="topic 'orders' has no partition 2, but 0 to 1"):
        await plan_reset(client, "shop", {"orders": [2]}, earliest)
    with pytest.raises(ClientError, match="the group has no offset of other-0"):
        await plan_reset(client, "shop", {"other": None}, None, 1)
