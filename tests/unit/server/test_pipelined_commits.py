"""Commits that come together are one batch, and nobody can tell by the answers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.protocol.messages.end_txn import EndTxnRequest
from kafkalite.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.protocol.message import Message

COMMIT_VERSION, FETCH_VERSION = 8, 8
GROUP, TRANSACTION = 0, 1
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


def all_offsets() -> OffsetFetchRequest:
    return OffsetFetchRequest(
        groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)]
    )


async def find(client: Client, key: str, kind: int) -> None:
    """Wait until somebody speaks for a group or a transactional id."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    async with asyncio.timeout(10):
        while (await client.ask(request, 4)).coordinators[0].error_code:
            pass


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
    await find(client, "g", GROUP)
    fetch = all_offsets()
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


@pytest.mark.parametrize(
    ("before", "behind", "counts"), [((4, 8), (), 12), ((), (16, 20), 20), ((4, 8), (16, 20), 20)]
)
async def test_commits_around_one_of_a_transaction_stay_where_they_were_said(
    before: Sequence[int], behind: Sequence[int], counts: int
) -> None:
    """All of one partition: what was said last counts, though the transaction ends behind it."""
    broker = await started({})
    client = await Client.to(broker.bootstrap_servers)
    await find(client, "g", GROUP)
    await find(client, "x", TRANSACTION)
    await client.ask(commit(0), COMMIT_VERSION)
    init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
    producer = await client.ask(init, 5)
    partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=12, committed_metadata=""
    )
    in_transaction = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
        ],
    )
    end = EndTxnRequest(
        transactional_id="x",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    said: list[tuple[Message, int]] = [
        *[(commit(offset), COMMIT_VERSION) for offset in before],
        (in_transaction, 5),
        *[(commit(offset), COMMIT_VERSION) for offset in behind],
        (end, 5),
        (all_offsets(), FETCH_VERSION),
    ]
    for request, version in said:
        client.send(request, version)
    answers = [await client.receive(request, version) for request, version in said]
    assert answers[-2].error_code == 0
    (fetched,) = answers[-1].groups[0].topics[0].partitions
    assert fetched.committed_offset == counts
    assert max(batches(broker)) > 1, "nothing was gathered"
    await client.close()
    await broker.stop(grace_s=0.1)
