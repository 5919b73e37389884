"""Transactions of a producer at a broker."""

from __future__ import annotations

import pytest

from kafkalite.client.bootstrap import bootstrap_addresses
from kafkalite.client.client import KafkaClient
from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError
from kafkalite.client.producer import Producer
from kafkalite.client.records import ProducerRecord
from kafkalite.protocol._generated.messages.describe_producers import DescribeProducersRequest
from kafkalite.protocol.error_codes import ErrorCode
from kafkalite.protocol.versions import Versions
from kafkalite.testing import Broker

FIRST, SECOND = (TopicPartition("orders", index) for index in (0, 1))


def committed(broker: Broker) -> list[bytes | None]:
    return [each.value for each in broker.records("orders")]


async def test_transactions_are_committed_and_aborted() -> None:
    with Broker(topics={"orders": 2}) as broker:
        async with Producer(broker.bootstrap_servers, transactional_id="shop") as producer:
            await producer.begin()
            await producer.send(FIRST, b"a")
            await producer.send_batch(FIRST, [ProducerRecord(b"b"), ProducerRecord(b"c")])
            await producer.send(SECOND, b"d")
            assert committed(broker) == []
            await producer.end(commits=True)
            assert committed(broker) == [b"a", b"b", b"c", b"d"]
            await producer.begin()
            await producer.send(FIRST, b"e")
            await producer.end(commits=False)
            (transaction,) = broker.transactions()
            assert transaction.state.label == "CompleteAbort"
            await producer.begin()
            await producer.end(commits=True)  # without records
        assert committed(broker) == [b"a", b"b", b"c", b"d"]


async def test_refused_batch_leaves_no_gap_in_the_sequence() -> None:
    with Broker(topics={"orders": 1}) as broker:
        async with Producer(broker.bootstrap_servers, transactional_id="shop") as producer:
            await producer.begin()
            await producer.send(FIRST, b"a")
            with pytest.raises(BrokerError) as refused:
                await producer.send(FIRST, b"b" * 2_000_000)
            assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
            await producer.send(FIRST, b"c")
            await producer.end(commits=True)
        assert committed(broker) == [b"a", b"c"]


async def test_next_producer_of_an_id_fences_this_one() -> None:
    with Broker(topics={"orders": 1}) as broker:
        servers = broker.bootstrap_servers
        async with (
            Producer(servers, transactional_id="shop") as zombie,
            Producer(servers, transactional_id="shop") as producer,
        ):
            await zombie.begin()
            await zombie.send(FIRST, b"a")
            await producer.begin()
            with pytest.raises(BrokerError) as fenced:
                await zombie.end(commits=True)
        assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
        assert committed(broker) == []


async def test_settings_of_a_producer_fit() -> None:
    with pytest.raises(ValueError, match='has acks "all"'):
        Producer("a:1", acks=1, transactional_id="shop")
    with pytest.raises(ValueError, match="compression is one of none, gzip, snappy, lz4, zstd"):
        Producer("a:1", compression="zip")
    async with Producer("a:1") as producer:
        with pytest.raises(RuntimeError, match="no transactional id"):
            await producer.begin()


@pytest.mark.parametrize(("release", "last_sequence"), [("4.4", -1), ("3.9", 0)])
async def test_transactions_have_the_version_of_the_cluster(
    release: str, last_sequence: int
) -> None:
    """From version 2 on, the end of a transaction raises the epoch, without a sequence yet."""
    with Broker(topics={"orders": 1}, as_version=release) as broker:
        async with Producer(broker.bootstrap_servers, transactional_id="shop") as producer:
            await producer.begin()
            await producer.send(FIRST, b"a")
            await producer.end(commits=True)
        async with KafkaClient(bootstrap_addresses(broker.bootstrap_servers)) as client:
            row = DescribeProducersRequest.TopicRequest(name="orders", partition_indexes=[0])
            response = await client.ask_any(DescribeProducersRequest(topics=[row]), Versions(0, 0))
        (found,) = response.topics[0].partitions[0].active_producers
        assert found.last_sequence == last_sequence
        assert committed(broker) == [b"a"]


async def test_repeated_batch_of_an_idempotent_producer_is_written_once() -> None:
    with Broker(topics={"orders": 1}) as broker:
        broker.faults.add(api="Produce", lost="answer", times=1)
        servers = broker.bootstrap_servers
        async with Producer(servers, is_idempotent=True, request_timeout_ms=200) as producer:
            await producer.send(FIRST, b"a")
            with pytest.raises(BrokerError):
                await producer.send(FIRST, b"b" * 2_000_000)
            await producer.send(FIRST, b"c")
        assert committed(broker) == [b"a", b"c"]


async def test_an_idempotent_producer_waits_for_all_replicas() -> None:
    with pytest.raises(ValueError, match='an idempotent producer has acks "all"'):
        Producer("a:1", acks=1, is_idempotent=True)
