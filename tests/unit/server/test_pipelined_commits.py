"""Commits that come together are one batch, and nobody can tell by the answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMIT_VERSION, FETCH_VERSION = 8, 8
PARTITIONS = 4
LITTLE = {"message.max.bytes": "300"}
"""Room for a commit, not for ten in one batch."""


async def started(config: Mapping[str, str]) -> Broker:
    """Return a broker whose groups are all on one partition."""
    everything = {"offsets.topic.num.partitions": "1", **config}
    broker = Broker(Settings(listen=("127.0.0.1:0",), topics={"t": PARTITIONS}, config=everything))
    await broker.start()
    return broker


def commit(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=offset % PARTITIONS, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )


def batches(broker: Broker) -> list[int]:
    """Return how many records each batch of the groups' log holds."""
    assert broker.cluster is not None
    topic = broker.cluster.partitions.topic("__consumer_offsets")
    assert topic is not None
    return [batch.record_count for batch in topic.partitions[0].log.batches()]


@pytest.mark.parametrize(
    ("config", "is_together"), [({}, True), (LITTLE, False)], ids=["room for all", "for one only"]
)
async def test_what_is_read_behind_commits_is_what_they_committed(
    config: Mapping[str, str], *, is_together: bool
) -> None:
    broker = await started(config)
    client = await Client.to(broker.bootstrap_servers)
    find = FindCoordinatorRequest(coordinator_keys=["g"])
    async with asyncio.timeout(10):
        while (await client.ask(find, 4)).coordinators[0].error_code:
            pass
    fetch = OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)]
    )
    for offset in range(10):
        client.send(commit(offset), COMMIT_VERSION)
    client.send(fetch, FETCH_VERSION)
    for offset in range(10):
        answer = await client.receive(commit(offset), COMMIT_VERSION)
        (partition,) = answer.topics[0].partitions
        assert (partition.partition_index, partition.error_code) == (offset % PARTITIONS, 0)
    fetched = await client.receive(fetch, FETCH_VERSION)
    committed = {each.committed_offset for each in fetched.groups[0].topics[0].partitions}
    assert committed == {6, 7, 8, 9}
    # The first makes the group, and is written by itself; to write it again changes nothing.
    assert sum(batches(broker)) in {10, 11}
    assert (max(batches(broker)) > 1) is is_together
    await client.close()
    await broker.stop(grace_s=0.1)
