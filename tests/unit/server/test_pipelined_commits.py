"""Pipelined commits are one batch, with the same answers as separate batches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kafkalite.coordinator.serde import CoordinatorSerde
from kafkalite.groups.offsets_topic_records import written_version
from kafkalite.partitions.coordinator_log import open_coordinator_log
from kafkalite.protocol._generated.messages.end_txn import EndTxnRequest
from kafkalite.protocol._generated.messages.find_coordinator import FindCoordinatorRequest
from kafkalite.protocol._generated.messages.init_producer_id import InitProducerIdRequest
from kafkalite.protocol._generated.messages.offset_commit import OffsetCommitRequest
from kafkalite.protocol._generated.messages.offset_fetch import OffsetFetchRequest
from kafkalite.protocol._generated.messages.txn_offset_commit import TxnOffsetCommitRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.server.broker import Broker
from kafkalite.server.settings import Settings
from kafkalite.testing.files import FaultyFiles, MemoryFiles
from tests.unit.server.client import Client

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalite.ports.files import Files
    from kafkalite.protocol.message import Message

COMMIT_VERSION, FETCH_VERSION = 8, 8
GROUP, TRANSACTION = 0, 1
PARTITIONS = 4
SMALL_BATCHES = {"message.max.bytes": "300"}
"""A log batch has room for one commit but not for ten."""


async def start_broker(config: Mapping[str, str], files: Files | None = None) -> Broker:
    """Return a broker whose groups are all on one partition."""
    broker_config = {"offsets.topic.num.partitions": "1", **config}
    settings = Settings(listen=("127.0.0.1:0",), topics={"t": PARTITIONS}, config=broker_config)
    broker = Broker(settings, files=files)
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
    """Wait until a coordinator for a group or a transactional id is available."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    async with asyncio.timeout(10):
        while (await client.ask(request, 4)).coordinators[0].error_code:
            pass


def batch_sizes(broker: Broker) -> list[int]:
    """Return the number of records in each batch of the groups' log."""
    assert broker.cluster is not None
    topic = broker.cluster.partitions.topic("__consumer_offsets")
    assert topic is not None
    return [batch.record_count for batch in topic.partitions[0].log.batches()]


@pytest.mark.parametrize(
    ("config", "is_together"),
    [({}, True), (SMALL_BATCHES, False)],
    ids=["room for all", "for one only"],
)
async def test_a_fetch_behind_commits_reads_their_offsets(
    config: Mapping[str, str], *, is_together: bool
) -> None:
    broker = await start_broker(config)
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
    assert sum(batch_sizes(broker)) == 10
    assert (max(batch_sizes(broker)) > 1) is is_together
    await client.close()
    await broker.stop(grace_s=0.1)


@pytest.mark.parametrize(
    ("before", "after", "counts"), [((4, 8), (), 12), ((), (16, 20), 20), ((4, 8), (16, 20), 20)]
)
async def test_commits_around_a_transactional_commit_keep_their_order(
    before: Sequence[int], after: Sequence[int], counts: int
) -> None:
    """All of one partition: the last commit counts, although the transaction ends later."""
    broker = await start_broker({})
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
    requests: list[tuple[Message, int]] = [
        *[(commit(offset), COMMIT_VERSION) for offset in before],
        (in_transaction, 5),
        *[(commit(offset), COMMIT_VERSION) for offset in after],
        (end, 5),
        (all_offsets(), FETCH_VERSION),
    ]
    for request, version in requests:
        client.send(request, version)
    answers = [await client.receive(request, version) for request, version in requests]
    assert answers[-2].error_code == 0
    (fetched,) = answers[-1].groups[0].topics[0].partitions
    assert fetched.committed_offset == counts
    assert max(batch_sizes(broker)) > 1, "no commits were batched"
    await client.close()
    await broker.stop(grace_s=0.1)


async def offsets_in_memory(client: Client) -> dict[int, int]:
    fetched = await client.ask(all_offsets(), FETCH_VERSION)
    return {
        each.partition_index: each.committed_offset
        for topic in fetched.groups[0].topics
        for each in topic.partitions
    }


def offsets_in_log(broker: Broker) -> dict[int, int]:
    """Return what another coordinator would load from the log."""
    assert broker.cluster is not None
    log = open_coordinator_log(broker.cluster.partitions, "__consumer_offsets", 0)
    serde = CoordinatorSerde(written_version)
    records = [serde.decode(key, value) for key, value in log.read_all()]
    return {each.key.partition: each.value.offset for each in records if each is not None}  # type: ignore[attr-defined]


async def test_commits_on_a_full_disk_are_refused_and_memory_equals_the_log() -> None:
    files = FaultyFiles(MemoryFiles(), crash=False)
    broker = await start_broker({}, files)
    client, other = [await Client.to(broker.bootstrap_servers) for _ in range(2)]
    await find(client, "g", GROUP)
    for offset in range(PARTITIONS):
        await client.ask(commit(offset), COMMIT_VERSION)
    before = await offsets_in_memory(client)
    assert before == offsets_in_log(broker) == {0: 0, 1: 1, 2: 2, 3: 3}
    files.fail_from(files.steps, failing_steps=10**6)
    for round_ in range(2):
        commits = [commit(offset) for offset in range(100 * (round_ + 1), 100 * (round_ + 1) + 20)]
        for request in commits:
            client.send(request, COMMIT_VERSION)
        client.send(all_offsets(), FETCH_VERSION)
        for request in commits:
            answer = await client.receive(request, COMMIT_VERSION)
            code = answer.topics[0].partitions[0].error_code
            assert code == ErrorCode.NOT_COORDINATOR
        await client.receive(all_offsets(), FETCH_VERSION)
        assert await offsets_in_memory(client) == await offsets_in_memory(other) == before
    files.fail_from(None)
    batch_count_before = len(batch_sizes(broker))
    await client.ask(commit(1_000), COMMIT_VERSION)
    for offset in range(1_001, 1_011):
        client.send(commit(offset), COMMIT_VERSION)
    for offset in range(1_001, 1_011):
        answer = await client.receive(commit(offset), COMMIT_VERSION)
        assert answer.topics[0].partitions[0].error_code == 0
    expected = {offset % PARTITIONS: offset for offset in range(1_000, 1_011)}
    assert await offsets_in_memory(other) == offsets_in_log(broker) == expected
    assert sum(batch_sizes(broker)[batch_count_before:]) == 11
    assert max(batch_sizes(broker)[batch_count_before:]) > 1
    for each in (client, other):
        await each.close()
    assert await broker.stop(grace_s=0.1)
