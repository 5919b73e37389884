"""Transactional producers and their readers: fencing, aborts, timeouts, long polls.

The expected errors of each client are those with a real Kafka 4.3. The broker's clock is paused:
transactions time out when a test advances it.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.testing import Broker
from tests.clients.client_libraries import driver_environment
from tests.clients.process import ClientError
from tests.clients.readers import COMMITTED, UNCOMMITTED, read_by_librdkafka
from tests.clients.transactional_producers import COMMANDS, TransactionalProducers
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.client

_LONG_MS = 100_000
_NO_IDLE_TIMEOUT: dict[str, str | float] = {"connections.max.idle.ms": -1}


_CLIENTS = ("java", "librdkafka", "aiokafka", "kafka-python")
_FENCED = {
    "java": "errors.ProducerFencedException",
    "librdkafka": "FATAL,code=_FENCED",
    "aiokafka": "errors.ProducerFenced",
    "kafka-python": "errors.ProducerFencedError",
}
# The coordinator aborted with a new epoch, which only the Java client can get.
_COMMIT_TIMED_OUT = {**_FENCED, "java": "errors.InvalidTxnStateException"}
_SEND_TIMED_OUT = {
    **_FENCED,
    "java": "errors.InvalidProducerEpochException",
    "kafka-python": "errors.InvalidProducerEpochError",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(clock="manual", config=_NO_IDLE_TIMEOUT) as broker:
        yield broker


class ProducerScenario:
    """A client's producers with the broker; every attempt of a test has its own topic."""

    def __init__(
        self, client: str, broker: Broker, producers: TransactionalProducers, attempt: int
    ) -> None:
        self.client = client
        self.broker = broker
        self.producers = producers
        self._attempt = attempt

    def topic(self, name: str) -> str:
        """Return the name of a topic that no earlier attempt used."""
        return f"{name}-{self.client}-{self._attempt}"

    def read(self, topic: str, isolation_level: str = COMMITTED) -> list[str | None]:
        """Return the values in a topic's only partition."""
        rows = read_by_librdkafka(self.broker.bootstrap_servers, topic, 1, isolation_level)
        return [value for _key, value in rows.get(0, [])]

    def open(self, topic: str, *values: str) -> None:
        """Leave a transaction open with these records; the topic's name is used for all names."""
        self.producers.init(topic, topic)
        self.producers.begin(topic)
        for value in values:
            self.producers.send(topic, topic, value)

    def write(self, producer: str, topic: str, value: str) -> None:
        """Write one record in a committed transaction."""
        self.producers.begin(producer)
        self.producers.send(producer, topic, value)
        self.producers.commit(producer)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.endurance if name == "java" else ())
        for name in _CLIENTS
    ],
)
def client_producers(
    request: pytest.FixtureRequest, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, TransactionalProducers]]:
    """Start the producers of one client."""
    client: str = request.param
    with required():
        command = COMMANDS[client]()
    log = tmp_path_factory.mktemp(client) / "producers.log"
    producers = TransactionalProducers(
        [*command, broker.bootstrap_servers], log, driver_environment()
    )
    yield client, producers
    producers.close()


@pytest.fixture
def scenario(
    client_producers: tuple[str, TransactionalProducers], broker: Broker, attempt: int
) -> ProducerScenario:
    client, producers = client_producers
    return ProducerScenario(client, broker, producers, attempt)


@contextmanager
def _raises(text: str) -> Iterator[None]:
    with pytest.raises(ClientError) as raised:
        yield
    assert text in str(raised.value)


def test_of_two_producers_with_one_id_the_first_is_fenced(scenario: ProducerScenario) -> None:
    topic = scenario.topic("fenced")
    scenario.open(topic, "of the first")
    scenario.producers.init("second", topic)
    with _raises(_FENCED[scenario.client]):
        scenario.producers.commit(topic)
    scenario.write("second", topic, "of the second")
    assert scenario.read(topic) == ["of the second"]
    assert scenario.read(topic, UNCOMMITTED) == ["of the first", "of the second"]


def test_aborted_records_are_invisible_to_committed_readers(
    scenario: ProducerScenario,
) -> None:
    topic = scenario.topic("aborted")
    scenario.open(topic, "dropped", "dropped as well")
    assert scenario.read(topic) == []
    scenario.producers.abort(topic)
    assert scenario.read(topic) == []
    scenario.write(topic, topic, "committed")
    assert scenario.read(topic) == ["committed"]
    assert scenario.read(topic, UNCOMMITTED) == ["dropped", "dropped as well", "committed"]


def test_a_transaction_that_timed_out_cannot_be_committed(scenario: ProducerScenario) -> None:
    topic = scenario.topic("late")
    scenario.open(topic, "too late")
    scenario.broker.clock.advance(minutes=2)
    with _raises(_COMMIT_TIMED_OUT[scenario.client]):
        scenario.producers.commit(topic)
    assert scenario.read(topic) == []


def test_write_to_a_timed_out_transaction_is_refused(scenario: ProducerScenario) -> None:
    topic = scenario.topic("later")
    scenario.open(topic, "too late")
    scenario.broker.clock.advance(minutes=2)
    with _raises(_SEND_TIMED_OUT[scenario.client]):
        scenario.producers.send(topic, topic, "much too late")
    assert scenario.read(topic, UNCOMMITTED) == ["too late"]


def test_late_abort_is_accepted_from_clients_that_know_the_epoch(
    scenario: ProducerScenario,
) -> None:
    topic = scenario.topic("late-abort")
    scenario.open(topic, "too late")
    scenario.broker.clock.advance(minutes=2)
    if scenario.client == "java":
        scenario.producers.abort(topic)
        scenario.write(topic, topic, "in time")
        assert scenario.read(topic) == ["in time"]
    else:
        with _raises(_FENCED[scenario.client]):
            scenario.producers.abort(topic)
        assert scenario.read(topic) == []


def _writer(broker: Broker, topic: str) -> Producer:
    """Return a producer with one committed record, and another in an open transaction."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, "decided", partition=0)
    producer.commit_transaction()
    producer.begin_transaction()
    producer.produce(topic, "undecided", partition=0)
    producer.flush()
    return producer


def test_librdkafka_waits_at_the_last_stable_offset_and_is_woken_by_the_commit(
    broker: Broker, attempt: int
) -> None:
    topic = f"woken-librdkafka-{attempt}"
    producer = _writer(broker, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "woken",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": _LONG_MS,
            "socket.timeout.ms": 2 * _LONG_MS,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    first = consumer.poll(10)
    assert first is not None
    assert first.value() == b"decided"
    assert consumer.poll(0.3) is None
    producer.commit_transaction()
    second = consumer.poll(10)
    assert second is not None
    assert second.value() == b"undecided"
    consumer.close()


async def test_aiokafka_waits_at_the_last_stable_offset_and_is_woken_by_the_commit(
    broker: Broker, attempt: int
) -> None:
    topic = f"woken-aiokafka-{attempt}"
    producer = await asyncio.to_thread(_writer, broker, topic)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=_LONG_MS,
        request_timeout_ms=2 * _LONG_MS,
    )
    consumer.assign([AioTopicPartition(topic, 0)])
    await consumer.start()
    assert (await consumer.getone()).value == b"decided"
    waiting = asyncio.create_task(consumer.getone())
    await asyncio.wait([waiting], timeout=0.3)
    assert not waiting.done()
    await asyncio.to_thread(producer.commit_transaction)
    assert (await asyncio.wait_for(waiting, 10)).value == b"undecided"
    await consumer.stop()
