"""FetchRound: records are collected, and refused positions are explained by the newest metadata."""

from __future__ import annotations

import asyncio

import pytest

from kafkalite.client.cluster_metadata import PartitionMetadata
from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import OffsetAndEpochs, TopicPartition
from kafkalite.client.errors import (
    BrokerError,
    CorruptBatchError,
    InvalidPartitionEpochError,
    LogTruncationError,
)
from kafkalite.client.fetch_round import FetchRound
from kafkalite.client.fetches import FetchedPosition, FetchLimits
from kafkalite.client.metadata import Metadata
from kafkalite.client.retries import Backoff, Retries
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.client.scripted_client import ORDERS, SkippingClock
from tests.unit.client.scripted_partition import ID, ScriptedPartition, batch, fetched, state

POSITION = OffsetAndEpochs(20, 5, 3)
WITHOUT_EPOCHS = OffsetAndEpochs(20)
OUT_OF_RANGE = fetched(code=ErrorCode.OFFSET_OUT_OF_RANGE)
NONE = ErrorCode.NONE


async def run(
    partition: ScriptedPartition, position: OffsetAndEpochs = POSITION, *, newer: bool = False
) -> FetchRound:
    """Run a round with metadata of leader 1; `newer` means that two nodes know leader 2."""
    clock = SkippingClock()
    metadata = Metadata(partition.client, clock)
    metadata.set_partitions([ORDERS])
    assert await metadata.refresh(10_000)
    if newer:
        partition.set_metadata(2, 3, metadata=state(leader=2, leader_epoch=6))
    used = PartitionMetadata(1, 5, 3, ID)
    assert metadata.partition(ORDERS) == used
    retries = Retries(clock, Backoff(), 100)
    one = FetchRound(partition.client, metadata, {ORDERS: FetchedPosition(position, used)}, retries)
    await one.run(FetchLimits())
    return one


async def test_records_and_the_position_after_them_are_collected() -> None:
    partition = ScriptedPartition()
    partition.fetches = [fetched(batch(20, 5, b"a", b"b"))]
    one = await run(partition)
    assert [record.value for record in one.records] == [b"a", b"b"]
    assert one.positions == {ORDERS: OffsetAndEpochs(22, 5, 3)}
    assert not one.needs_refresh
    one.raise_error()


@pytest.mark.parametrize(
    "answer", [UnreachableError("down"), fetched(code=ErrorCode.FENCED_LEADER_EPOCH)]
)
async def test_a_leader_that_does_not_serve_needs_a_refresh(answer: object) -> None:
    partition = ScriptedPartition()
    partition.fetches = [answer]  # type: ignore[list-item]
    one = await run(partition)
    assert one.needs_refresh
    assert one.positions == {}
    one.raise_error()


async def test_a_fetch_of_another_partition_epoch_is_an_error() -> None:
    partition = ScriptedPartition()
    partition.fetches = [fetched(batch(20, 5, b"other"), partition_epoch=4)]
    one = await run(partition)
    assert (one.records, one.positions) == ([], {})
    with pytest.raises(InvalidPartitionEpochError) as caught:
        one.raise_error()
    assert caught.value.partition_epochs == {ORDERS: 3}


@pytest.mark.parametrize("answer", [OUT_OF_RANGE, fetched(diverging=(4, 10))])
@pytest.mark.parametrize("position", [POSITION, WITHOUT_EPOCHS])
async def test_a_former_leader_does_not_make_a_position_invalid(
    answer: object, position: OffsetAndEpochs
) -> None:
    partition = ScriptedPartition()
    partition.fetches = [answer]  # type: ignore[list-item]
    one = await run(partition, position, newer=True)
    assert one.needs_refresh
    assert one.deleted == []
    one.raise_error()
    assert partition.requested_of(2) == []


async def test_a_position_out_of_range_of_a_new_topic_is_an_error() -> None:
    partition = ScriptedPartition()
    partition.fetches = [fetched(code=ErrorCode.OFFSET_OUT_OF_RANGE, partition_epoch=-1)]
    partition.set_metadata(2, metadata=state(2, 0, 8, 8))
    one = await run(partition)
    with pytest.raises(InvalidPartitionEpochError):
        one.raise_error()


async def test_a_diverging_epoch_of_the_present_leader_is_a_truncation() -> None:
    partition = ScriptedPartition()
    partition.fetches = [fetched(diverging=(4, 10))]
    one = await run(partition)
    with pytest.raises(LogTruncationError) as caught:
        one.raise_error()
    assert caught.value.divergent_offsets == {ORDERS: OffsetAndEpochs(10, 4, 3)}


@pytest.mark.parametrize(
    ("end", "divergent"),
    [((5, 12), OffsetAndEpochs(12, 5, 3)), ((-1, -1), None)],
)
async def test_the_leader_is_asked_whether_its_log_was_truncated(
    end: tuple[int, int], divergent: OffsetAndEpochs | None
) -> None:
    partition = ScriptedPartition()
    partition.fetches = [OUT_OF_RANGE]
    partition.epoch_ends = [(NONE, *end)]
    one = await run(partition)
    with pytest.raises(LogTruncationError) as caught:
        one.raise_error()
    assert caught.value.divergent_offsets == {ORDERS: divergent}
    assert partition.requested_of(1) == ["FetchRequest", "OffsetForLeaderEpochRequest"]


@pytest.mark.parametrize("position", [POSITION, WITHOUT_EPOCHS])
async def test_other_positions_out_of_range_were_deleted(position: OffsetAndEpochs) -> None:
    partition = ScriptedPartition()
    partition.fetches = [OUT_OF_RANGE]
    partition.epoch_ends = [(NONE, 5, 40)]
    one = await run(partition, position)
    assert one.deleted == [ORDERS]
    one.raise_error()


@pytest.mark.parametrize("code", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.FENCED_LEADER_EPOCH])
async def test_a_leader_that_cannot_be_asked_for_its_epochs_is_asked_later(
    code: ErrorCode,
) -> None:
    partition = ScriptedPartition()
    partition.fetches = [OUT_OF_RANGE]
    partition.epoch_ends = [(code, -1, -1)]
    one = await run(partition)
    assert one.needs_refresh
    assert one.deleted == []
    one.raise_error()


@pytest.mark.parametrize("is_fetch", [True, False])
async def test_an_error_that_no_retry_solves_is_raised(
    is_fetch: bool,  # noqa: FBT001 - the request that is refused
) -> None:
    partition = ScriptedPartition()
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partition.fetches = [fetched(code=code) if is_fetch else OUT_OF_RANGE]
    partition.epoch_ends = [(code, -1, -1)]
    one = await run(partition)
    with pytest.raises(BrokerError) as caught:
        one.raise_error()
    assert caught.value.code is code


async def test_without_any_metadata_a_position_is_not_given_up() -> None:
    partition = ScriptedPartition()
    client = partition.client

    def refuse(_: int, __: object) -> object:
        client.metadata_of.clear()
        return OUT_OF_RANGE

    client.answers["FetchRequest"] = refuse
    one = await run(partition)
    assert one.needs_refresh
    assert one.deleted == []


async def test_after_a_corrupt_batch_no_fetch_continues() -> None:
    partition = ScriptedPartition(state())
    row = partition.client.metadata_of[1].topics[0].partitions[0]
    other = type(row)(partition_index=1, leader_id=2, leader_epoch=5, incarnation_epoch=3)
    for node_id in (1, 2, 3):
        partition.client.metadata_of[node_id].topics[0].partitions = [row, other]
    events: list[str] = []
    started = asyncio.Event()

    async def answer_never() -> None:
        events.append("started")
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("ended")

    async def answer_corrupt() -> object:
        await started.wait()
        data = bytearray(batch(20, 5, b"a"))
        data[-1] ^= 1
        return fetched(bytes(data))

    partition.client.answers["FetchRequest"] = lambda node_id, _: (
        answer_corrupt() if node_id == 1 else answer_never()
    )
    clock = SkippingClock()
    metadata = Metadata(partition.client, clock)
    partitions = [ORDERS, TopicPartition("orders", 1)]
    metadata.set_partitions(partitions)
    assert await metadata.refresh(10_000)
    positions = {
        each: FetchedPosition(POSITION, metadata.current.partitions[each]) for each in partitions
    }
    one = FetchRound(partition.client, metadata, positions, Retries(clock, Backoff(), 100))
    with pytest.raises(CorruptBatchError, match="wrong checksum"):
        await one.run(FetchLimits())
    assert events == ["started", "ended"]
