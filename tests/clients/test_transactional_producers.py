"""What transactional producers and their readers are told: fenced, aborted, timed out, woken.

The words of each client are those it has with a real Kafka 4.3 in the same place. The broker's time
stands still: transactions time out when a test lets them.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalite.testing import Broker
from tests.clients.process import ClientError, DriverProcess
from tests.clients.readers import COMMITTED, UNCOMMITTED, read_by_librdkafka
from tests.clients.roster import driver_environment, java_classes
from tests.oracle.jars import java_command
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.clients.roster import Command

pytestmark = pytest.mark.client

_TIMEOUT_MS = 60_000
_LONG_MS = 100_000
_NEVER: dict[str, str | float] = {"connections.max.idle.ms": -1}


class _Producers(DriverProcess):
    """See `tests.clients.drivers.producers.Producers`."""

    def init(self, name: str, transactional_id: str) -> None:
        self._ask("init", name=name, transactional_id=transactional_id, timeout_ms=_TIMEOUT_MS)

    def begin(self, name: str) -> None:
        self._ask("begin", name=name)

    def send(self, name: str, topic: str, value: str) -> None:
        self._ask("send", name=name, topic=topic, value=value)

    def commit(self, name: str) -> None:
        self._ask("commit", name=name)

    def abort(self, name: str) -> None:
        self._ask("abort", name=name)


def _java() -> list[str]:
    return java_command("TransactionalProducers", classes=java_classes(), log_level="off")


def _python(client: str) -> Command:
    return lambda: [sys.executable, "-m", f"tests.clients.drivers.{client}_producers"]


_COMMANDS = {
    "java": _java,
    "librdkafka": _python("confluent"),
    "aiokafka": _python("aiokafka"),
    "kafka-python": _python("kafka_python"),
}
_FENCED = {
    "java": "errors.ProducerFencedException",
    "librdkafka": "FATAL,code=_FENCED",
    "aiokafka": "errors.ProducerFenced",
    "kafka-python": "errors.ProducerFencedError",
}
# The coordinator aborted at a new epoch that only the Java client could learn of.
_COMMIT_TIMED_OUT = {**_FENCED, "java": "errors.InvalidTxnStateException"}
_SEND_TIMED_OUT = {
    **_FENCED,
    "java": "errors.InvalidProducerEpochException",
    "kafka-python": "errors.InvalidProducerEpochError",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(clock="manual", config=_NEVER) as broker:
        yield broker


class Seat:
    """A client's producers at the broker; every test has a topic of its own, as it is named."""

    def __init__(self, client: str, broker: Broker, producers: _Producers) -> None:
        self.client = client
        self.broker = broker
        self.producers = producers

    def read(self, topic: str, isolation_level: str = COMMITTED) -> list[str | None]:
        """Give the values in a topic's only partition."""
        rows = read_by_librdkafka(self.broker.bootstrap_servers, topic, 1, isolation_level)
        return [value for _key, value in rows.get(0, [])]

    def open(self, topic: str, *values: str) -> None:
        """Leave a transaction open with these records; producer and id are named as the topic."""
        self.producers.init(topic, topic)
        self.producers.begin(topic)
        for value in values:
            self.producers.send(topic, topic, value)

    def write(self, producer: str, topic: str, value: str) -> None:
        """Write one record in a transaction that is committed."""
        self.producers.begin(producer)
        self.producers.send(producer, topic, value)
        self.producers.commit(producer)


@pytest.fixture(scope="module", params=_COMMANDS)
def seat(
    request: pytest.FixtureRequest, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Seat]:
    client: str = request.param
    with required():
        command = _COMMANDS[client]()
    log = tmp_path_factory.mktemp(client) / "producers.log"
    producers = _Producers([*command, broker.bootstrap_servers], log, driver_environment())
    yield Seat(client, broker, producers)
    producers.close()


@contextmanager
def _raises(words: str) -> Iterator[None]:
    with pytest.raises(ClientError) as raised:
        yield
    assert words in str(raised.value)


def test_of_two_producers_with_one_id_the_first_is_fenced(seat: Seat) -> None:
    topic = f"fenced-{seat.client}"
    seat.open(topic, "of the first")
    seat.producers.init("second", topic)
    with _raises(_FENCED[seat.client]):
        seat.producers.commit(topic)
    seat.write("second", topic, "of the second")
    assert seat.read(topic) == ["of the second"]
    assert seat.read(topic, UNCOMMITTED) == ["of the first", "of the second"]


def test_what_is_aborted_is_read_by_nobody_who_reads_committed_records(seat: Seat) -> None:
    topic = f"aborted-{seat.client}"
    seat.open(topic, "dropped", "dropped as well")
    assert seat.read(topic) == []
    seat.producers.abort(topic)
    assert seat.read(topic) == []
    seat.write(topic, topic, "kept")
    assert seat.read(topic) == ["kept"]
    assert seat.read(topic, UNCOMMITTED) == ["dropped", "dropped as well", "kept"]


def test_a_transaction_that_timed_out_cannot_be_committed(seat: Seat) -> None:
    topic = f"late-{seat.client}"
    seat.open(topic, "too late")
    seat.broker.clock.advance(minutes=2)
    with _raises(_COMMIT_TIMED_OUT[seat.client]):
        seat.producers.commit(topic)
    assert seat.read(topic) == []


def test_nothing_is_written_to_a_transaction_that_timed_out(seat: Seat) -> None:
    topic = f"later-{seat.client}"
    seat.open(topic, "too late")
    seat.broker.clock.advance(minutes=2)
    with _raises(_SEND_TIMED_OUT[seat.client]):
        seat.producers.send(topic, topic, "much too late")
    assert seat.read(topic, UNCOMMITTED) == ["too late"]


def test_an_abort_that_comes_late_is_taken_from_those_who_learn_of_epochs(seat: Seat) -> None:
    topic = f"late-abort-{seat.client}"
    seat.open(topic, "too late")
    seat.broker.clock.advance(minutes=2)
    if seat.client == "java":
        seat.producers.abort(topic)
        seat.write(topic, topic, "in time")
        assert seat.read(topic) == ["in time"]
    else:
        with _raises(_FENCED[seat.client]):
            seat.producers.abort(topic)
        assert seat.read(topic) == []


def _writer(broker: Broker, topic: str) -> Producer:
    """Return a producer that has written one record for good, and another that is undecided."""
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
    broker: Broker,
) -> None:
    producer = _writer(broker, "woken-librdkafka")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "woken",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": _LONG_MS,
            "socket.timeout.ms": 2 * _LONG_MS,
        }
    )
    consumer.assign([TopicPartition("woken-librdkafka", 0, 0)])
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
    broker: Broker,
) -> None:
    producer = await asyncio.to_thread(_writer, broker, "woken-aiokafka")
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=_LONG_MS,
        request_timeout_ms=2 * _LONG_MS,
    )
    consumer.assign([AioTopicPartition("woken-aiokafka", 0)])
    await consumer.start()
    assert (await consumer.getone()).value == b"decided"
    waiting = asyncio.create_task(consumer.getone())
    await asyncio.wait([waiting], timeout=0.3)
    assert not waiting.done()
    await asyncio.to_thread(producer.commit_transaction)
    assert (await asyncio.wait_for(waiting, 10)).value == b"undecided"
    await consumer.stop()
