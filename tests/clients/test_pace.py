"""A client retries with the pace of a real Kafka; a stopped clock holds the broker back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from kafkalite.testing import Broker
from tests.clients.readers import COMMITTED, read_by_librdkafka

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.client

_LONGEST_MS = 600
_LONGEST_LOADING_MS = 2_400


@pytest.fixture
def broker() -> Iterator[Broker]:
    config = {"connections.max.idle.ms": -1, "transaction.state.log.num.partitions": 1}
    with Broker(
        topics={"orders": 1}, config=config, pace="kafka", clock="manual", request_log=1000
    ) as broker:
        yield broker


def test_librdkafka_waits_for_the_end_of_its_previous_transaction(broker: Broker) -> None:
    servers = broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "shop"})
    with ThreadPoolExecutor(1) as pool:
        initialized = pool.submit(producer.init_transactions, 10)
        broker.requests.wait("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", timeout=10)
        broker.clock.advance(milliseconds=_LONGEST_MS)
        broker.requests.wait("InitProducerId", error="NOT_COORDINATOR", timeout=10)
        broker.clock.advance(milliseconds=_LONGEST_LOADING_MS)
        initialized.result(10)
    for value in ("apples", "pears"):
        producer.begin_transaction()
        producer.produce("orders", value)
        if value == "pears":
            broker.requests.wait("AddPartitionsToTxn", error="CONCURRENT_TRANSACTIONS", timeout=10)
            broker.clock.advance(milliseconds=_LONGEST_MS)
        producer.commit_transaction(10)
        assert broker.transactions()[0].state.label == "PrepareCommit"
    broker.clock.advance(milliseconds=_LONGEST_MS)
    assert broker.transactions()[0].state.label == "CompleteCommit"
    rows = read_by_librdkafka(servers, "orders", 1, COMMITTED)
    assert [value for _key, value in rows[0]] == ["apples", "pears"]


def test_librdkafka_waits_for_a_topic_that_it_creates(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce("new", "value")
    refused = broker.requests.wait(
        "Metadata", topic="new", error="UNKNOWN_TOPIC_OR_PARTITION", timeout=10
    )
    assert refused.response is not None
    assert len(producer) == 1
    broker.clock.advance(milliseconds=_LONGEST_MS)
    assert producer.flush(10) == 0
    rows = read_by_librdkafka(broker.bootstrap_servers, "new", 1, COMMITTED)
    assert [value for _key, value in rows[0]] == ["value"]
