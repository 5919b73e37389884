"""PartitionConsumer: positions have epochs, and fetches wait for metadata that is new enough."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalite.client import consumer as module
from kafkalite.client.connection import UnreachableError
from kafkalite.client.consumer import PartitionConsumer
from kafkalite.client.epochs import Epochs, OffsetAndEpochs
from kafkalite.client.errors import (
    BrokerError,
    InvalidPartitionEpochError,
    LogTruncationError,
    NoOffsetError,
    OffsetOutOfRangeError,
    OutdatedMetadataError,
    TimedOutError,
)
from kafkalite.protocol.error_codes import ErrorCode
from tests.unit.client.scripted_client import AUDIT, ORDERS, SkippingClock
from tests.unit.client.scripted_partition import ScriptedPartition, batch, fetched, state

if TYPE_CHECKING:
    from kafkalite.client.consumer import OffsetReset
    from kafkalite.client.records import ConsumerRecord

OUT_OF_RANGE = fetched(code=ErrorCode.OFFSET_OUT_OF_RANGE)


@pytest.fixture
def partition(monkeypatch: pytest.MonkeyPatch) -> ScriptedPartition:
    one = ScriptedPartition()
    monkeypatch.setattr(module, "KafkaClient", lambda *_, **__: one.client)
    return one


def consumer(reset: OffsetReset = "none", group: str | None = "shop") -> PartitionConsumer:
    one = PartitionConsumer(
        "node:9001", group_id=group, auto_offset_reset=reset, clock=SkippingClock()
    )
    one.assign([ORDERS])
    return one


def values(records: list[ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in records]


# --- positions -----------------------------------------------------------------------------------


async def test_the_position_after_records_has_their_epochs(partition: ScriptedPartition) -> None:
    partition.fetches = [fetched(batch(20, 4, b"a") + batch(21, 5, b"b"))]
    one = consumer()
    one.seek(ORDERS, 20)
    assert await one.position(ORDERS) == OffsetAndEpochs(20)
    assert values(await one.poll()) == [b"a", b"b"]
    assert await one.position(ORDERS) == OffsetAndEpochs(22, 5, 3)


async def test_before_the_first_record_the_position_has_the_epochs_of_seek(
    partition: ScriptedPartition,
) -> None:
    one = consumer()
    one.seek(ORDERS, 20, OffsetAndEpochs(20, 4, 3).offset_epoch)
    assert await one.position(ORDERS) == OffsetAndEpochs(20, 4, 3)
    assert await one.poll(0) == []
    assert await one.position(ORDERS) == OffsetAndEpochs(20, 4, 3)
    (row,) = partition.fetch_rows()
    assert (row.fetch_offset, row.last_fetched_epoch, row.current_leader_epoch) == (20, 4, 5)


async def test_without_epochs_the_first_fetch_sets_the_partition_epoch(
    partition: ScriptedPartition,
) -> None:
    one = consumer()
    one.seek(ORDERS, 20)
    assert await one.poll(0) == []
    assert await one.position(ORDERS) == OffsetAndEpochs(20, -1, 3)
    assert partition.fetch_rows()[0].last_fetched_epoch == -1


async def test_the_committed_offset_is_the_position(partition: ScriptedPartition) -> None:
    partition.committed = (20, 4, 3)
    one = consumer()
    assert await one.committed([ORDERS]) == {ORDERS: OffsetAndEpochs(20, 4, 3)}
    assert await one.position(ORDERS) == OffsetAndEpochs(20, 4, 3)


async def test_a_commit_has_the_epochs_of_the_position(partition: ScriptedPartition) -> None:
    partition.fetches = [fetched(batch(20, 5, b"a"))]
    one = consumer()
    await one.commit()  # no position yet
    assert partition.requests == []
    one.seek(ORDERS, 20)
    await one.poll()
    await one.commit()
    assert partition.committed == (21, 5, 3)
    await one.commit({ORDERS: OffsetAndEpochs(7)})
    assert partition.committed == (7, -1, -1)


@pytest.mark.parametrize(("reset", "timestamp"), [("earliest", -2), ("latest", -1)])
async def test_without_a_commit_the_position_is_reset(
    partition: ScriptedPartition, reset: OffsetReset, timestamp: int
) -> None:
    one = consumer(reset)
    assert await one.position(ORDERS) == OffsetAndEpochs(8, 2, 3)
    assert partition.requests[-1].topics[0].partitions[0].timestamp == timestamp


async def test_a_reset_is_retried_until_the_leader_answers(partition: ScriptedPartition) -> None:
    partition.list_codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert await consumer("latest").position(ORDERS) == OffsetAndEpochs(8, 2, 3)
    partition.list_codes = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerError, match="cannot find the latest offset of orders-0"):
        await consumer("latest").position(ORDERS)
    partition.client.answers["ListOffsetsRequest"] = lambda _, __: UnreachableError("down")
    with pytest.raises(TimedOutError, match="no position of orders-0"):
        await consumer("latest").position(ORDERS)


@pytest.mark.parametrize("group", ["shop", None])
async def test_without_a_commit_and_without_a_policy_there_is_no_position(
    partition: ScriptedPartition, group: str | None
) -> None:
    with pytest.raises(NoOffsetError) as caught:
        await consumer(group=group).poll()
    assert caught.value.partitions == {ORDERS}
    assert partition.fetch_rows() == []


async def test_an_offset_epoch_that_cannot_be_decoded_is_rejected(
    partition: ScriptedPartition,
) -> None:
    one = consumer()
    one.seek(ORDERS, 20)
    with pytest.raises(ValueError, match="has 9 bytes, not 3"):
        one.seek(ORDERS, 30, b"abc")
    with pytest.raises(ValueError, match="not negative"):
        one.seek(ORDERS, -1)
    with pytest.raises(ValueError, match="audit-0 is not assigned"):
        one.seek(AUDIT, 0)
    with pytest.raises(ValueError, match="audit-0 is not assigned"):
        await one.position(AUDIT)
    assert await one.position(ORDERS) == OffsetAndEpochs(20)
    assert partition.requests == []


async def test_partitions_that_remain_assigned_keep_their_positions(
    partition: ScriptedPartition,
) -> None:
    one = consumer()
    one.seek(ORDERS, 20)
    one.assign([AUDIT, ORDERS])
    assert one.assignment == {AUDIT, ORDERS}
    assert await one.position(ORDERS) == OffsetAndEpochs(20)
    one.assign([])
    with pytest.raises(RuntimeError, match="no partitions are assigned"):
        await one.poll()
    assert partition.requests == []


async def test_commits_need_a_group(partition: ScriptedPartition) -> None:
    one = consumer(group=None)
    with pytest.raises(RuntimeError, match="no group id"):
        await one.commit()
    with pytest.raises(RuntimeError, match="no group id"):
        await one.committed([ORDERS])
    assert partition.requests == []


def test_an_unknown_policy_is_rejected() -> None:
    with pytest.raises(ValueError, match='is "earliest", "latest" or "none", not \'first\''):
        PartitionConsumer("node:9001", auto_offset_reset="first")  # type: ignore[arg-type]


# --- metadata that is as new as the position -----------------------------------------------------


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_fetch_waits_for_metadata_that_is_as_new_as_the_offset(
    partition: ScriptedPartition,
    is_committed: bool,  # noqa: FBT001 - or stored elsewhere
) -> None:
    partition.set_metadata(1, metadata=state(1, 5))
    partition.set_metadata(2, 3, metadata=state(2, 6))
    partition.fetches = [fetched(batch(20, 6, b"a"))]
    one = consumer()
    if is_committed:
        partition.committed = (20, 6, 3)
    else:
        one.seek(ORDERS, 20, Epochs(6, 3).encode())
    assert values(await one.poll()) == [b"a"]
    assert "FetchRequest" not in partition.requested_of(1)
    assert one.metadata.outdated_responses == 1


async def test_metadata_of_a_former_topic_is_not_used(partition: ScriptedPartition) -> None:
    partition.set_metadata(1, metadata=state(1, 9, 3, 7))
    partition.set_metadata(2, 3, metadata=state(2, 0, 8, 8))
    partition.fetches = [fetched(batch(20, 0, b"a"), partition_epoch=8)]
    one = consumer()
    one.seek(ORDERS, 20, Epochs(0, 8).encode())
    assert values(await one.poll()) == [b"a"]
    assert partition.requested_of(1) == []


async def test_without_new_enough_metadata_nothing_is_fetched(
    partition: ScriptedPartition,
) -> None:
    one = consumer()
    one.seek(ORDERS, 20, Epochs(6, 3).encode())
    assert await one.poll() == []
    assert partition.fetch_rows() == []
    assert one.metadata.outdated_responses > 1


async def test_an_offset_without_epochs_uses_any_metadata(partition: ScriptedPartition) -> None:
    partition.fetches = [fetched(batch(20, 5, b"a"))]
    one = consumer()
    one.seek(ORDERS, 20)
    assert values(await one.poll()) == [b"a"]
    assert one.metadata.outdated_responses == 0


# --- topics that were created again, without partition epochs ------------------------------------

OTHER_ID = b"b" * 16
FORMER_TOPIC = state(1, 5, -1, -1)
NEW_TOPIC = state(1, 0, -1, -1, OTHER_ID)


async def consumer_of_former_topic(partition: ScriptedPartition) -> PartitionConsumer:
    """Return a consumer that has read a record in leader epoch 5."""
    partition.set_metadata(1, 2, 3, metadata=FORMER_TOPIC)
    partition.fetches = [fetched(batch(20, 5, b"a"), partition_epoch=-1)]
    one = consumer()
    one.seek(ORDERS, 20)
    assert values(await one.poll()) == [b"a"]
    return one


async def poll_until_error(one: PartitionConsumer) -> None:
    """Poll without records until an exception is raised, at most 100 times."""
    for _ in range(100):
        assert await one.poll(5_000) == []


async def test_a_position_of_a_topic_with_another_id_is_reported_until_it_is_replaced(
    partition: ScriptedPartition,
) -> None:
    one = await consumer_of_former_topic(partition)
    partition.set_metadata(1, 2, 3, metadata=NEW_TOPIC)
    partition.fetches = [fetched(code=ErrorCode.UNKNOWN_TOPIC_ID, partition_epoch=-1)]
    for _ in range(2):
        with pytest.raises(InvalidPartitionEpochError, match="orders-0 another topic id") as caught:
            await one.poll()
        assert caught.value.partition_epochs == {ORDERS: -1}
    assert await one.position(ORDERS) == OffsetAndEpochs(21, 5)
    one.seek(ORDERS, 0)
    answer = fetched(batch(0, 0, b"other"), partition_epoch=-1)
    answer.responses[0].topic_id = OTHER_ID
    partition.fetches = [answer]
    assert values(await one.poll()) == [b"other"]


async def test_a_broker_that_knows_only_the_former_topic_does_not_make_a_position_invalid(
    partition: ScriptedPartition,
) -> None:
    one = await consumer_of_former_topic(partition)
    partition.set_metadata(2, 3, metadata=NEW_TOPIC)
    partition.fetches = [fetched(code=ErrorCode.UNKNOWN_TOPIC_ID, partition_epoch=-1)]
    assert await one.poll() == []
    partition.set_metadata(1, 2, 3, metadata=FORMER_TOPIC)
    partition.fetches = [fetched(batch(21, 5, b"b"), partition_epoch=-1)]
    assert values(await one.poll()) == [b"b"]


async def test_a_broker_that_never_learns_of_the_deletion_is_ignored_after_the_timeout(
    partition: ScriptedPartition,
) -> None:
    one = await consumer_of_former_topic(partition)
    partition.set_metadata(2, 3, metadata=NEW_TOPIC)
    partition.client.answers["FetchRequest"] = lambda _, __: UnreachableError("down")
    with pytest.raises(InvalidPartitionEpochError):
        await poll_until_error(one)


@pytest.mark.parametrize("is_committed", [True, False])
async def test_epochs_that_no_broker_knows_are_reported_after_the_timeout(
    partition: ScriptedPartition,
    is_committed: bool,  # noqa: FBT001 - or stored elsewhere
) -> None:
    partition.set_metadata(1, 2, 3, metadata=NEW_TOPIC)
    one = consumer()
    if is_committed:
        partition.committed = (20, 3, -1)
    else:
        one.seek(ORDERS, 20, Epochs(3).encode())
    with pytest.raises(OutdatedMetadataError, match="orders-0 leader epoch 3") as caught:
        await poll_until_error(one)
    assert caught.value.epochs == {ORDERS: Epochs(3)}
    assert isinstance(one._clock, SkippingClock)
    assert 30_000 <= one._clock.now_ms() < 40_000
    assert partition.fetch_rows() == []
    with pytest.raises(OutdatedMetadataError):
        await one.poll(0)
    partition.set_metadata(1, 2, 3, metadata=FORMER_TOPIC)
    partition.fetches = [fetched(batch(20, 5, b"a"), partition_epoch=-1)]
    assert values(await one.poll()) == [b"a"]


async def test_a_new_position_has_the_whole_timeout_again(partition: ScriptedPartition) -> None:
    one = consumer()
    one.seek(ORDERS, 20, Epochs(6, 3).encode())
    assert await one.poll(29_000) == []
    one.seek(ORDERS, 20, Epochs(6, 3).encode())
    assert await one.poll(29_000) == []
    one.assign([AUDIT])
    one.assign([ORDERS])
    one.seek(ORDERS, 20, Epochs(6, 3).encode())
    assert await one.poll(29_000) == []
    assert partition.fetch_rows() == []


# --- the time of requests ------------------------------------------------------------------------


async def test_requests_of_a_poll_have_its_remaining_time_and_one_second(
    partition: ScriptedPartition,
) -> None:
    partition.committed = (20, 5, 3)
    partition.fetches = [
        fetched(code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        fetched(batch(20, 5, b"a")),
    ]
    assert values(await consumer().poll(2_000)) == [b"a"]
    waited = [2.9, 2.9]
    assert partition.client.timeouts_s == [3, 3, 3, 3, *waited]


async def test_requests_of_a_commit_have_the_remaining_time(partition: ScriptedPartition) -> None:
    one = PartitionConsumer("node:9001", group_id="shop", timeout_ms=4_000, clock=SkippingClock())
    await one.commit({ORDERS: OffsetAndEpochs(7)})
    await one.committed([ORDERS])
    assert partition.client.timeouts_s == [4, 4, 4]


# --- reading -------------------------------------------------------------------------------------


async def test_a_consumer_follows_the_leader(partition: ScriptedPartition) -> None:
    one = consumer()
    one.seek(ORDERS, 20)
    await one.poll(0)
    partition.set_metadata(1, 2, 3, metadata=state(2, 6))
    partition.fetches = [
        fetched(code=ErrorCode.NOT_LEADER_OR_FOLLOWER), fetched(batch(20, 6, b"a")),
    ]  # fmt: skip
    assert values(await one.poll()) == [b"a"]
    assert partition.requested_of(2) == ["FetchRequest"]


async def test_old_metadata_is_refreshed_before_a_fetch(partition: ScriptedPartition) -> None:
    one = consumer()
    one.seek(ORDERS, 20)
    await one.poll(0)
    await one.poll(0)
    assert len(partition.client.asked) == 3
    assert isinstance(one._clock, SkippingClock)
    one._clock.advance(300_001)
    await one.poll(0)
    assert [name for _, name in partition.client.asked[3:]] == ["MetadataRequest", "FetchRequest"]


async def test_a_coordinator_that_is_not_available_only_delays_the_records(
    partition: ScriptedPartition,
) -> None:
    partition.client.answers["FindCoordinatorRequest"] = lambda _node, _key: (
        ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
    one = consumer("earliest")
    assert await one.poll() == []
    partition.client.answers["FindCoordinatorRequest"] = lambda _node, _key: 1
    partition.fetches = [fetched(batch(8, 5, b"a"))]
    assert values(await one.poll()) == [b"a"]


async def test_an_offset_of_another_partition_epoch_is_reported_until_it_is_replaced(
    partition: ScriptedPartition,
) -> None:
    partition.set_metadata(1, 2, 3, metadata=state(1, 0, 8, 8))
    partition.fetches = [fetched(batch(20, 0, b"other"), partition_epoch=8)]
    one = consumer()
    one.seek(ORDERS, 20, Epochs(5, 3).encode())
    for _ in range(2):
        with pytest.raises(InvalidPartitionEpochError):
            await one.poll()
    assert await one.position(ORDERS) == OffsetAndEpochs(20, 5, 3)
    one.seek(ORDERS, 20)
    assert values(await one.poll()) == [b"other"]
    assert await one.position(ORDERS) == OffsetAndEpochs(21, 0, 8)


async def test_a_truncation_is_reported_even_if_offsets_may_be_reset(
    partition: ScriptedPartition,
) -> None:
    partition.fetches = [fetched(diverging=(4, 10))]
    one = consumer("earliest")
    one.seek(ORDERS, 20, Epochs(5, 3).encode())
    with pytest.raises(LogTruncationError) as caught:
        await one.poll()
    assert caught.value.divergent_offsets == {ORDERS: OffsetAndEpochs(10, 4, 3)}


async def test_deleted_records_are_reported_or_skipped(partition: ScriptedPartition) -> None:
    partition.fetches = [OUT_OF_RANGE, fetched(batch(8, 5, b"a"))]
    one = consumer("earliest")
    one.seek(ORDERS, 2)
    assert values(await one.poll()) == [b"a"]
    partition.fetches = [OUT_OF_RANGE]
    other = consumer()
    other.seek(ORDERS, 2)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        await other.poll()
    assert caught.value.offsets == {ORDERS: 2}


async def test_a_reset_without_a_leader_waits(partition: ScriptedPartition) -> None:
    partition.fetches = [OUT_OF_RANGE]
    partition.list_codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    one = consumer("earliest")
    one.seek(ORDERS, 2)
    assert await one.poll() == []
    assert await one.position(ORDERS) == OffsetAndEpochs(2)
    assert len(partition.fetch_rows()) < 10
