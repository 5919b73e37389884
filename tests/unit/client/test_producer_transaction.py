"""Transactions of a producer at a broker."""

from __future__ import annotations

import pytest

from kafkalite.client.epochs import TopicPartition
from kafkalite.client.errors import BrokerError
from kafkalite.client.producer import Producer
from kafkalite.client.records import ProducerRecord
from kafkalite.protocol.error_codes import ErrorCode
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
