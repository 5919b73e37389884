"""Every action of a fault, and every disturbed link, for every family of APIs.

A cell is a client, a family and an action. The client does one thing, such as writing a record,
while the fault fires once. It recovers, or it gets the error that `OUTCOMES` has. Some cells of a
client run at the same time; their client ids are different. One process of Go and one of Java run
all cells of their clients.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import confluent_kafka.admin
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Position

from kafkalite.testing import Broker
from tests.clients.matrix_process import COMMANDS, MatrixProcess
from tests.oracle.requirements import required

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TypeAlias

    Performer: TypeAlias = Callable[[str, str], Future[str]]
    """Client id and family → the outcome."""

pytestmark = [
    pytest.mark.client,
    pytest.mark.endurance,
    # Clients that damaged answers end do not close their sockets.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

TOPIC: Final = "orders"
WRITTEN: Final = "sales"
"""The topic of produced records; a reader with a slow link would read them for long."""
RECOVERED: Final = "recovered"
_REQUEST_TIMEOUT_MS: Final = 700
_TIMEOUT_S: Final = 15
_CELLS_AT_A_TIME: Final = {True: 4, False: 32}
"""By whether a client is in this process."""
_NUMBERS: Final = count()


class Family(NamedTuple):
    """A family of APIs: what a client does, and the request that the fault selects."""

    api: str
    retriable: str
    """An error after which clients try again."""
    permanent: str
    """An error that clients report."""


FAMILIES: Final = {
    "metadata": Family("Metadata", "UNKNOWN_SERVER_ERROR", "UNKNOWN_SERVER_ERROR"),
    "produce": Family("Produce", "NOT_LEADER_OR_FOLLOWER", "INVALID_RECORD"),
    "fetch": Family("Fetch", "NOT_LEADER_OR_FOLLOWER", "TOPIC_AUTHORIZATION_FAILED"),
    "group": Family("JoinGroup", "COORDINATOR_LOAD_IN_PROGRESS", "GROUP_AUTHORIZATION_FAILED"),
    "offsets": Family("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", "GROUP_AUTHORIZATION_FAILED"),
    "transactions": Family(
        "EndTxn", "COORDINATOR_LOAD_IN_PROGRESS", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    ),
    "admin": Family("CreateTopics", "NOT_CONTROLLER", "POLICY_VIOLATION"),
}
ACTIONS: Final[dict[str, dict[str, Any]]] = {
    "true error": {},
    "only answer": {"only_answer": True},
    "late": {"delay_ms": 50, "late": True, "disconnect": True},
    "hold": {"hold": True},
    "delay": {"delay_ms": 50},
    "varying delay": {"delay_ms": 20, "delay_max_ms": 60},
    "twice": {"twice": True},
    "lost request": {"lost": "request"},
    "lost answer": {"lost": "answer"},
    "throttle": {"throttle_ms": 50},
    "disconnect before": {"disconnect": "before"},
    "disconnect after": {"disconnect": "after"},
    "truncated": {"answer": "truncated"},
    "partial": {"answer": "partial"},
    "corrupted": {"answer": "corrupted"},
    "reordered": {"answer": "reordered"},
    "corrupted records": {"answer": "corrupted_records"},
}
LINKS: Final[dict[str, dict[str, Any]]] = {
    "cut": {"cut": True, "direction": "out"},
    "black hole": {"cut": True},
    "latency": {"latency_ms": 20, "jitter_ms": 10},
    "slow reader": {"bytes_per_second": 20_000},
}


class Librdkafka:
    """What librdkafka does in each family."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "client.id": client_id,
            "socket.timeout.ms": _REQUEST_TIMEOUT_MS,
            "retry.backoff.ms": 10,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 50,
            "topic.metadata.refresh.interval.ms": 200,
            "log_level": 0,
        }

    def metadata(self) -> None:
        producer = Producer(self._settings)
        for _ in range(10):
            try:
                assert TOPIC in producer.list_topics(timeout=3).topics
            except KafkaException as error:
                if not error.args[0].retriable() and error.args[0].name()[0] != "_":
                    raise
            else:
                return
        raise TimeoutError

    def produce(self) -> None:
        producer = Producer(self._settings)
        errors: list[Any] = []
        producer.produce(WRITTEN, b"v", on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(_TIMEOUT_S) == 0
        if errors[0] is not None:
            raise KafkaException(errors[0])

    def fetch(self) -> None:
        consumer = Consumer({**self._settings, "group.id": "none", "check.crcs": True})
        consumer.assign([Position(TOPIC, 0, 0)])
        self._poll(consumer)

    def group(self) -> None:
        group = f"group-{next(_NUMBERS)}"
        # It waits for the answer to a JoinGroup as long as for all members.
        earliest = {"auto.offset.reset": "earliest", "max.poll.interval.ms": 1_000}
        earliest |= {"session.timeout.ms": 1_000, "heartbeat.interval.ms": 100}
        consumer = Consumer({**self._settings, "group.id": group, **earliest})
        consumer.subscribe([TOPIC])
        self._poll(consumer)

    def _poll(self, consumer: Consumer) -> None:
        try:
            for _ in range(_TIMEOUT_S * 10):
                message = consumer.poll(0.1)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    return
                if not error.retriable() and error.name() not in {"_TRANSPORT", "_BAD_MSG"}:
                    raise KafkaException(error)
            raise TimeoutError
        finally:
            consumer.close()

    def offsets(self) -> None:
        consumer = Consumer({**self._settings, "group.id": f"group-{next(_NUMBERS)}"})
        try:
            consumer.commit(offsets=[Position(TOPIC, 0, 1)], asynchronous=False)
        finally:
            consumer.close()

    def transactions(self) -> None:
        name = f"transaction-{next(_NUMBERS)}"
        producer = Producer({**self._settings, "transactional.id": name})
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
        producer.produce(WRITTEN, b"v")
        producer.commit_transaction(_TIMEOUT_S)

    def admin(self) -> None:
        kafka: Any = confluent_kafka.admin  # its names are not exported
        name = f"topic-{next(_NUMBERS)}"
        admin = kafka.AdminClient(self._settings)
        admin.create_topics([kafka.NewTopic(name, 1, 1)])[name].result(_TIMEOUT_S)

    def run(self, family: str) -> str:
        """Do what is of a family; return the name of the error."""
        try:
            getattr(self, family)()
        except KafkaException as error:
            name: str = error.args[0].name()
            return name
        return RECOVERED


class Aiokafka:
    """What aiokafka does in each family."""

    def __init__(self, bootstrap_servers: str, client_id: str) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "client_id": client_id,
            "request_timeout_ms": _REQUEST_TIMEOUT_MS,
            "retry_backoff_ms": 10,
        }

    async def metadata(self) -> None:
        async with AIOKafkaProducer(**self._settings) as producer:
            assert await producer.partitions_for(TOPIC)

    async def produce(self) -> None:
        async with AIOKafkaProducer(**self._settings) as producer:
            await producer.send_and_wait(WRITTEN, b"v")

    async def fetch(self) -> None:
        consumer = AIOKafkaConsumer(**self._settings)
        async with consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            consumer.seek(TopicPartition(TOPIC, 0), 0)
            await self._get(consumer)

    async def _get(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            try:
                await consumer.getone()
            except AiokafkaError as error:
                if type(error).__name__ != "CorruptRecordException":
                    raise
            else:
                return

    async def group(self) -> None:
        group = f"group-{next(_NUMBERS)}"
        async with AIOKafkaConsumer(
            TOPIC, **self._settings, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            await consumer.getone()

    async def offsets(self) -> None:
        consumer = AIOKafkaConsumer(**self._settings, group_id=f"group-{next(_NUMBERS)}")
        async with consumer:
            consumer.assign([TopicPartition(TOPIC, 0)])
            await consumer.commit({TopicPartition(TOPIC, 0): 1})

    async def transactions(self) -> None:
        name = f"transaction-{next(_NUMBERS)}"
        async with AIOKafkaProducer(**self._settings, transactional_id=name) as producer:
            await producer.begin_transaction()
            await producer.send(WRITTEN, b"v")
            await producer.commit_transaction()

    async def admin(self) -> None:
        admin = AIOKafkaAdminClient(**self._settings)
        await admin.start()
        try:
            answer = await admin.create_topics([NewTopic(f"topic-{next(_NUMBERS)}", 1, 1)])
            (error,) = [each[1] for each in answer.topic_errors]
            assert not error, confluent_kafka.KafkaError(error).name()
        finally:
            await admin.close()

    def run(self, family: str) -> str:
        """Do what is of a family; return the name of the error."""
        try:
            asyncio.run(asyncio.wait_for(getattr(self, family)(), _TIMEOUT_S))
        except AssertionError as error:
            return str(error).partition("\n")[0]
        except (AiokafkaError, ValueError, TimeoutError, asyncio.CancelledError) as error:
            return type(error).__name__
        return RECOVERED


CLIENTS: Final[dict[str, type[Librdkafka | Aiokafka]]] = {
    "librdkafka": Librdkafka,
    "aiokafka": Aiokafka,
}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    config = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}
    with Broker(
        brokers=2, topics={TOPIC: 1, WRITTEN: 1}, config=config, log_level="error"
    ) as running:
        running.produce(TOPIC, "v" * 500)
        first = Librdkafka(running.bootstrap_servers, "first")
        first.group()  # creates the topics of the coordinators
        first.transactions()
        yield running


_DAMAGED: Final = ("corrupted", "reordered")
_UNREADABLE: Final = "response did not contain enough data to be valid"
LEFT_OUT: Final = {
    ("librdkafka", family, action)
    for family in ("metadata", "fetch", "admin")
    for action in _DAMAGED
} | {("aiokafka", "produce", action) for action in _DAMAGED}
"""Cells whose client may end its process, by an assertion about memory, or waits without end.

librdkafka may end it; aiokafka waits. franz-go and Java survive all cells, because the answer to
Fetch has records: in a reordered one without, franz-go reads the session id as a throttle time.
"""
OUTCOMES: Final[dict[tuple[str, str, str], str | tuple[str, ...]]] = {
    ("librdkafka", "produce", "only answer"): "INVALID_RECORD",
    ("librdkafka", "produce", "corrupted"): "_UNDERFLOW",
    ("librdkafka", "produce", "reordered"): "_UNDERFLOW",
    ("librdkafka", "fetch", "only answer"): "TOPIC_AUTHORIZATION_FAILED",
    ("librdkafka", "fetch", "corrupted records"): "_NOT_IMPLEMENTED",
    ("librdkafka", "group", "only answer"): "GROUP_AUTHORIZATION_FAILED",
    ("librdkafka", "group", "corrupted"): "_UNDERFLOW",
    ("librdkafka", "group", "reordered"): "_UNDERFLOW",
    ("librdkafka", "offsets", "only answer"): "GROUP_AUTHORIZATION_FAILED",
    ("librdkafka", "offsets", "corrupted"): "_UNDERFLOW",
    ("librdkafka", "offsets", "reordered"): "_UNDERFLOW",
    ("librdkafka", "transactions", "only answer"): "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ("librdkafka", "transactions", "corrupted"): "UNKNOWN",
    ("librdkafka", "admin", "true error"): "NOT_CONTROLLER",
    ("librdkafka", "admin", "only answer"): "POLICY_VIOLATION",
    ("librdkafka", "admin", "late"): "_TRANSPORT",
    ("librdkafka", "admin", "lost request"): "_TIMED_OUT",
    ("librdkafka", "admin", "lost answer"): "_TIMED_OUT",
    ("librdkafka", "admin", "disconnect before"): "_TRANSPORT",
    ("librdkafka", "admin", "disconnect after"): "_TRANSPORT",
    ("librdkafka", "admin", "truncated"): "_TRANSPORT",
    ("librdkafka", "admin", "partial"): "_TIMED_OUT",
    ("aiokafka", "produce", "only answer"): "UnknownError",
    ("aiokafka", "produce", "lost request"): "RequestTimedOutError",
    ("aiokafka", "produce", "lost answer"): "RequestTimedOutError",
    ("aiokafka", "produce", "partial"): "RequestTimedOutError",
    ("aiokafka", "fetch", "only answer"): "TopicAuthorizationFailedError",
    ("aiokafka", "group", "only answer"): "GroupAuthorizationFailedError",
    ("aiokafka", "group", "corrupted"): "KafkaError",
    ("aiokafka", "offsets", "only answer"): "GroupAuthorizationFailedError",
    ("aiokafka", "transactions", "only answer"): "TransactionalIdAuthorizationFailed",
    ("aiokafka", "transactions", "corrupted"): "KafkaError",
    ("aiokafka", "admin", "true error"): "NOT_CONTROLLER",
    ("aiokafka", "admin", "only answer"): "POLICY_VIOLATION",
    ("aiokafka", "admin", "late"): "KafkaConnectionError",
    ("aiokafka", "admin", "lost request"): "RequestTimedOutError",
    ("aiokafka", "admin", "lost answer"): "RequestTimedOutError",
    ("aiokafka", "admin", "disconnect before"): "KafkaConnectionError",
    ("aiokafka", "admin", "disconnect after"): "KafkaConnectionError",
    ("aiokafka", "admin", "truncated"): "KafkaConnectionError",
    ("aiokafka", "admin", "partial"): "RequestTimedOutError",
    ("aiokafka", "admin", "corrupted"): "ValueError",
    ("aiokafka", "admin", "reordered"): "KafkaConnectionError",
    ("franz-go", "metadata", "true error"): "UNKNOWN_SERVER_ERROR",
    ("franz-go", "metadata", "only answer"): "UNKNOWN_SERVER_ERROR",
    ("franz-go", "metadata", "late"): "ErrFirstReadEOF",
    ("franz-go", "metadata", "disconnect before"): "ErrFirstReadEOF",
    ("franz-go", "metadata", "disconnect after"): "ErrFirstReadEOF",
    ("franz-go", "metadata", "truncated"): "ErrFirstReadEOF",
    ("franz-go", "metadata", "corrupted"): _UNREADABLE,
    ("franz-go", "metadata", "reordered"): _UNREADABLE,
    ("franz-go", "produce", "only answer"): "INVALID_RECORD",
    ("franz-go", "fetch", "only answer"): "TOPIC_AUTHORIZATION_FAILED",
    ("franz-go", "fetch", "corrupted records"): "encoded crc",
    ("franz-go", "group", "only answer"): "GROUP_AUTHORIZATION_FAILED",
    ("franz-go", "offsets", "only answer"): "GROUP_AUTHORIZATION_FAILED",
    ("franz-go", "offsets", "corrupted"): _UNREADABLE,
    ("franz-go", "offsets", "reordered"): _UNREADABLE,
    ("franz-go", "transactions", "only answer"): "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ("franz-go", "transactions", "corrupted"): _UNREADABLE,
    ("franz-go", "transactions", "reordered"): "UNKNOWN_SERVER_ERROR",
    ("franz-go", "admin", "only answer"): "POLICY_VIOLATION",
    ("franz-go", "admin", "late"): "ErrFirstReadEOF",
    ("franz-go", "admin", "lost answer"): "TOPIC_ALREADY_EXISTS",
    ("franz-go", "admin", "disconnect before"): "ErrFirstReadEOF",
    ("franz-go", "admin", "disconnect after"): "ErrFirstReadEOF",
    ("franz-go", "admin", "truncated"): "ErrFirstReadEOF",
    ("franz-go", "admin", "partial"): "TOPIC_ALREADY_EXISTS",
    ("franz-go", "admin", "corrupted"): _UNREADABLE,
    ("franz-go", "admin", "reordered"): _UNREADABLE,
    ("java", "metadata", "corrupted"): "TimeoutException",
    ("java", "metadata", "reordered"): "TimeoutException",
    ("java", "produce", "only answer"): "InvalidRecordException",
    ("java", "produce", "corrupted"): "TimeoutException",
    ("java", "produce", "reordered"): "TimeoutException",
    ("java", "fetch", "only answer"): "TopicAuthorizationException",
    ("java", "fetch", "corrupted"): "java.lang",
    ("java", "fetch", "reordered"): "java.lang",
    ("java", "fetch", "corrupted records"): "KafkaException",
    ("java", "group", "only answer"): "GroupAuthorizationException",
    ("java", "group", "corrupted"): "java.lang",
    ("java", "group", "reordered"): "java.lang",
    ("java", "offsets", "only answer"): "GroupAuthorizationException",
    ("java", "offsets", "corrupted"): "java.lang",
    ("java", "offsets", "reordered"): "java.lang",
    ("java", "transactions", "only answer"): "TransactionalIdAuthorizationException",
    ("java", "transactions", "corrupted"): "TimeoutException",
    ("java", "transactions", "reordered"): "KafkaException",
    ("java", "admin", "only answer"): "PolicyViolationException",
    # The second request may overtake the late one.
    ("java", "admin", "late"): (RECOVERED, "TopicExistsException"),
    ("java", "admin", "lost request"): "TimeoutException",
    ("java", "admin", "lost answer"): "TimeoutException",
    ("java", "admin", "disconnect after"): "TopicExistsException",
    ("java", "admin", "truncated"): "TopicExistsException",
    ("java", "admin", "partial"): "TimeoutException",
    ("java", "admin", "corrupted"): "TimeoutException",
    ("java", "admin", "reordered"): "TimeoutException",
}
"""Cell → how what the client reports begins, or may begin; in other cells it recovers."""
CELLS: Final = [
    (family, action)
    for family in FAMILIES
    for action in (*ACTIONS, *LINKS)
    if action != "corrupted records" or family == "fetch"
]


def fields_of(family: str, action: str, client_id: str) -> dict[str, Any]:
    """Return the fields of a fault."""
    described = FAMILIES[family]
    errors = {"true error": described.retriable, "only answer": described.permanent}
    error = {"error": errors[action]} if action in errors else {}
    # Without a topic the error is that of the request, which newer clients do not report.
    topic = {"topic": TOPIC} if family == "fetch" and error else {}
    fields = {"api": described.api, "client_id": client_id, "times": 1}
    return {**fields, **ACTIONS[action], **error, **topic}


def outcome_of(broker: Broker, perform: Performer, family: str, action: str) -> str:
    """Return what a client reports while a fault or a link disturbs it."""
    client_id = f"{family}, {action}"
    if action in LINKS:
        with broker.links._disturb(client_id=client_id, **LINKS[action]) as link:
            running = perform(client_id, family)
            deadline = time.monotonic() + _TIMEOUT_S
            while not link.connections:
                assert time.monotonic() < deadline
            if "cut" in LINKS[action]:
                link.heal()
            return running.result(2 * _TIMEOUT_S)
    with broker.faults.add(**fields_of(family, action, client_id)) as fault:
        running = perform(client_id, family)
        fault.wait(timeout=_TIMEOUT_S)
        if action == "hold":
            fault.release()
        outcome = running.result(2 * _TIMEOUT_S)
        assert fault.firings == 1
        return outcome


def started(work: Callable[[], str]) -> Future[str]:
    """Return the result of work in another thread, which may never end."""
    future: Future[str] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - for the caller
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@contextmanager
def performer_of(client: str, broker: Broker, directory: Path) -> Iterator[Performer]:
    """Return what performs a family of a client, or skip the test if the client is missing."""
    if client in CLIENTS:
        yield lambda client_id, family: started(
            partial(CLIENTS[client](broker.bootstrap_servers, client_id).run, family)
        )
        return
    with required():
        command = COMMANDS[client]()
    with MatrixProcess([*command, broker.bootstrap_servers], directory / "log") as process:
        yield lambda client_id, family: process.perform(
            client_id,
            family,
            WRITTEN if family in {"produce", "transactions"} else TOPIC,
            f"{client}-{next(_NUMBERS)}",
        )


@pytest.mark.parametrize("client", [*CLIENTS, *COMMANDS])
def test_each_client_sees_each_action(client: str, broker: Broker, tmp_path: Path) -> None:
    cells = [each for each in CELLS if (client, *each) not in LEFT_OUT]
    with (
        performer_of(client, broker, tmp_path) as perform,
        ThreadPoolExecutor(_CELLS_AT_A_TIME[client in CLIENTS]) as pool,
    ):

        def outcome(cell: tuple[str, str]) -> str:
            try:
                return outcome_of(broker, perform, *cell)
            except Exception as error:  # noqa: BLE001 - shown with the cell
                return repr(error)

        outcomes = dict(zip(cells, pool.map(outcome, cells), strict=True))
    unexpected = {
        cell: found
        for cell, found in outcomes.items()
        if not found.startswith(OUTCOMES.get((client, *cell), RECOVERED))
    }
    assert unexpected == {}, unexpected
