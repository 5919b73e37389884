"""Producer: batches reach the present leader, and retries end with an exception."""

from __future__ import annotations

import pytest

from kafkalite.client import producer as module
from kafkalite.client.connection import UnreachableError
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError, TimedOutError
from kafkalite.client.producer import Acks, ProducedBatch, Producer
from kafkalite.client.records import ProducerRecord
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.storage.batch import BatchView
from tests.unit.client.scripted_client import NODES, ORDERS, SkippingClock
from tests.unit.client.scripted_partition import ID, ScriptedPartition, state

NONE = ErrorCode.NONE


@pytest.fixture
def partition(monkeypatch: pytest.MonkeyPatch) -> ScriptedPartition:
    one = ScriptedPartition()
    monkeypatch.setattr(module, "KafkaClient", lambda *_, **__: one.client)
    return one


def producer(acks: Acks = "all", timeout_ms: int = 10_000) -> Producer:
    return Producer("node:9001", acks=acks, timeout_ms=timeout_ms, clock=SkippingClock())


async def test_a_batch_is_sent_to_the_leader(partition: ScriptedPartition) -> None:
    async with producer() as one:
        sent = await one.send_batch(ORDERS, [ProducerRecord(b"a"), ProducerRecord(b"b")])
        assert sent == ProducedBatch(ORDERS, 20, 21)
        assert await one.send(ORDERS, b"c", b"key") == ProducedBatch(ORDERS, 20, 20)
    assert partition.client.asked == [
        (1, "MetadataRequest"), (1, "ProduceRequest"), (1, "ProduceRequest"),
    ]  # fmt: skip
    request = partition.requests[0]
    (topic,) = request.topic_data
    assert (request.acks, topic.name, topic.topic_id) == (-1, "orders", ID)
    records = BatchView(topic.partition_data[0].records).records()
    assert [record.value for record in records] == [b"a", b"b"]


@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, UnreachableError("")]
)
async def test_a_retriable_error_refreshes_the_metadata_and_sends_again(
    partition: ScriptedPartition, error: ErrorCode | Exception
) -> None:
    partition.produce_codes = [error, NONE]
    partition.set_metadata(2, 3, metadata=state(leader=2, leader_epoch=6))
    async with producer() as one:
        await one.send(ORDERS, b"a")
    assert partition.requested_of(1) == partition.requested_of(2) == ["ProduceRequest"]


async def test_a_leader_in_outdated_metadata_is_not_used(partition: ScriptedPartition) -> None:
    partition.set_metadata(1, 3, metadata=state(leader=2, leader_epoch=6))
    partition.set_metadata(2, metadata=state(leader=1, leader_epoch=5))
    partition.produce_codes = [NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, NONE]
    async with producer() as one:
        await one.send(ORDERS, b"a")
        await one.send(ORDERS, b"b")
        assert one.metadata.leader_address(ORDERS) == NODES[2]
        assert one.metadata.outdated_responses == 1
    assert partition.requested_of(1) == []
    assert partition.requested_of(2) == ["ProduceRequest"] * 3


async def test_an_error_that_no_retry_solves_is_raised(partition: ScriptedPartition) -> None:
    partition.produce_codes = [ErrorCode.MESSAGE_TOO_LARGE]
    async with producer() as one:
        with pytest.raises(BrokerError, match="cannot produce to orders-0") as caught:
            await one.send(ORDERS, b"a")
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert len(partition.requests) == 1


async def test_retries_end_after_the_timeout(partition: ScriptedPartition) -> None:
    partition.produce_codes = [ErrorCode.NOT_ENOUGH_REPLICAS]
    async with producer(timeout_ms=1_000) as one:
        with pytest.raises(TimedOutError, match="NOT_ENOUGH_REPLICAS"):
            await one.send(ORDERS, b"a")
    assert len(partition.requests) == 4  # after 0, 100, 300 and 700 ms


@pytest.mark.parametrize("acks", ["all", 0])
async def test_requests_have_the_remaining_time(partition: ScriptedPartition, acks: Acks) -> None:
    partition.produce_codes = [UnreachableError("down"), NONE]
    async with producer(acks, timeout_ms=1_000) as one:
        await one.send(ORDERS, b"a")
    assert partition.client.timeouts_s == [1, 1, 0.9, 0.9]
    assert [request.timeout_ms for request in partition.requests] == [1_000, 900]


async def test_a_partition_without_a_leader_is_an_error(partition: ScriptedPartition) -> None:
    partition.set_metadata(1, 2, 3, metadata=state(leader=-1))
    async with producer() as one:
        with pytest.raises(TimedOutError, match="LEADER_NOT_AVAILABLE"):
            await one.send(ORDERS, b"a")
    assert partition.requests == []


async def test_an_unknown_partition_is_an_error(partition: ScriptedPartition) -> None:
    async with producer() as one:
        with pytest.raises(TimedOutError, match=r"orders-1: .*UNKNOWN_TOPIC_OR_PARTITION"):
            await one.send(TopicPartition("orders", 1), b"a")
    assert partition.requests == []


async def test_unreachable_brokers_are_an_error(partition: ScriptedPartition) -> None:
    partition.client.metadata_of.clear()
    async with producer() as one:
        with pytest.raises(TimedOutError, match=r"cannot produce to orders-0: node \d is down"):
            await one.send(ORDERS, b"a")


async def test_brokers_that_become_unreachable_are_an_error(partition: ScriptedPartition) -> None:
    def stop_all(_: int, __: object) -> UnreachableError:
        partition.client.metadata_of.clear()
        return UnreachableError("the leader is down")

    partition.client.answers["ProduceRequest"] = stop_all
    async with producer() as one:
        with pytest.raises(TimedOutError, match=r"cannot produce to orders-0: node \d is down"):
            await one.send(ORDERS, b"a")


async def test_with_acks_0_no_response_is_expected(partition: ScriptedPartition) -> None:
    async with producer(0) as one:
        assert await one.send(ORDERS, b"a") == ProducedBatch(ORDERS, -1, -1)
    assert partition.requests[0].acks == 0


async def test_invalid_arguments_are_rejected(partition: ScriptedPartition) -> None:
    with pytest.raises(ValueError, match='acks is "all", 1 or 0, not 2'):
        producer(2)  # type: ignore[arg-type]
    async with producer() as one:
        with pytest.raises(ValueError, match="at least one record"):
            await one.send_batch(ORDERS, [])
    assert partition.requests == []
