"""KIP-890: a late Produce opens a transaction that no client ends; verification refuses it."""

import asyncio

import pytest

from kafkalite.client import Producer, TopicPartition
from kafkalite.testing import Broker

OUTCOMES = {}  # the broker is exposed, and not the client
VERIFICATION = "transaction.partition.verification.enable"


async def abort_before_a_produce_arrives(servers, produce):
    async with Producer(servers, transactional_id="shop") as producer:
        await producer.begin()
        sending = asyncio.create_task(producer.send(TopicPartition("orders", 0), b"apples"))
        await asyncio.to_thread(produce.wait)
        sending.cancel()
        await producer.end(commits=False)


@pytest.mark.parametrize(("is_verified", "readable"), [(False, []), (True, [b"pears"])])
def test_a_late_produce_hangs_without_verification(is_verified, readable):
    # With the protocol of KIP-890, the epoch at the end of a transaction fences the late request.
    config = {"transaction.version": 0, VERIFICATION: is_verified}
    with Broker(topics={"orders": 1}, config=config) as broker:
        ghost = broker.faults.add(api="Produce", hold=True, late=True, disconnect=True)
        asyncio.run(abort_before_a_produce_arrives(broker.bootstrap_servers, ghost))
        ghost.release()  # the record arrives after the end of its transaction
        broker.produce("orders", b"pears")
        assert [each.value for each in broker.records("orders")] == readable
