"""Streams groups are described with their topology and tasks."""

from __future__ import annotations

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import UnknownNameError
from kafkalite.client.streams_groups import NOT_STORED, describe_streams_group
from kafkalite.testing import Broker
from tests.unit.control.group_members import CONFIG, Members


async def test_a_group_has_its_topology_and_tasks() -> None:
    with Broker(topics={"orders": 2}, config=CONFIG) as broker:
        broker._run_on_loop(Members(broker._running_broker()).join_streams("counter", "member"))
        async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
            group = await describe_streams_group(client, "counter", with_topology=True)
            with pytest.raises(UnknownNameError):
                await describe_streams_group(client, "none")
    assert group.inputs == {"0": ("orders",)}
    assert (group.input_topics, group.internal_topics) == (("orders",), ())
    assert group.topology_status == NOT_STORED
    (member,) = group.members
    assert (member.member_id, member.process_id, member.is_classic) == ("member", "p", False)
    assert member.target.active == (("0", (0, 1)),)
    assert set(group.read_partitions) <= {TopicPartition("orders", index) for index in (0, 1)}
