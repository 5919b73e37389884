"""Real clients that work on while their requests are disturbed: librdkafka and aiokafka.

Each works in a thread of its own. After an error that the client does not survive, and after some
operations, it begins again with a new client. The clients have processes of their own, because
librdkafka ends its process when an assertion of it fails; another process takes its place then.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import confluent_kafka.admin
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka import TopicPartition as Position

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOPICS: Final = ("orders", "audit")
PARTITIONS: Final = 2
SOMETIMES: Final = "sometimes"
"""A topic that exists part of the time."""
GROUPS: Final = ("classic", "modern", "sharers", "asyncio")
TRANSACTIONAL_ID: Final = "mover"
APIS: Final = (
    "AddOffsetsToTxn", "AddPartitionsToTxn", "ApiVersions", "ConsumerGroupDescribe",
    "ConsumerGroupHeartbeat", "CreatePartitions", "CreateTopics", "DeleteGroups", "DeleteRecords",
    "DeleteTopics", "DescribeCluster", "DescribeConfigs", "DescribeGroups", "EndTxn", "Fetch",
    "FindCoordinator", "Heartbeat", "IncrementalAlterConfigs", "InitProducerId", "JoinGroup",
    "LeaveGroup", "ListGroups", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch",
    "OffsetForLeaderEpoch", "Produce", "ShareAcknowledge", "ShareFetch", "ShareGroupHeartbeat",
    "SyncGroup", "TxnOffsetCommit", "WriteTxnMarkers",
)  # fmt: skip
_LIFE: Final = 30
"""Operations of a client until a new one takes its place."""
_REQUEST_TIMEOUT_MS: Final = 500
_SESSION_TIMEOUT_MS: Final = 6_000
_CLOSE_TIMEOUT_S: Final = 20
_WORKS: Final = {
    "librdkafka": ("produce", "move", "consume_classic", "consume_modern", "share"),
    "librdkafka's administration": ("administer",),
    "aiokafka": ("aio_produce", "aio_consume"),
}
"""Process → what its clients do."""
_VALUE: Final = b"v" * 100


class DisturbedClients:
    """The processes of the clients of a cluster; `close` ends them."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._processes = {name: self._start(name) for name in _WORKS}
        self.completed: Counter[str] = Counter()
        """Work → the number of operations that succeeded in processes that ended regularly."""
        self.failures: Counter[str] = Counter()
        """Error of a client → how often it occurred."""

    def work_for(self, seconds: float) -> None:
        """Return after some time, in which the clients work; replace those that crashed."""
        time.sleep(seconds)
        for name, process in self._processes.items():
            if process.poll() is not None:
                self._add_results_of(name, process)
                self._processes[name] = self._start(name)

    def close(self) -> None:
        """Let all clients end, which nothing may disturb any more."""
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._processes.items():
            try:
                process.wait(_CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._add_results_of(name, process)

    def _start(self, name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", __name__, self._servers, name]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)

    def _add_results_of(self, name: str, process: subprocess.Popen[str]) -> None:
        results, errors = process.communicate()
        if process.returncode < 0:
            self.failures[f"{name}: {signal.Signals(-process.returncode).name}"] += 1
            return
        assert process.returncode == 0, errors
        completed, failures = json.loads(results)
        self.completed.update(completed)
        self.failures.update(failures)


class ClientThreads:
    """Clients of one process."""

    def __init__(self, bootstrap_servers: str, works: Sequence[str]) -> None:
        self._servers = bootstrap_servers
        self._stopped = threading.Event()
        self.completed: Counter[str] = Counter()
        """Work → the number of operations that succeeded."""
        self.failures: Counter[str] = Counter()
        """Error of a client → how often it occurred."""
        # Its messages about disturbed connections are no findings.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self._threads = [
            threading.Thread(target=self._live, args=(getattr(self, f"_{work}"),)) for work in works
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let all clients end."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _live(self, work: Callable[[], None]) -> None:
        while not self._stopped.is_set():
            try:
                work()
            except KafkaException as error:
                self.failures[error.args[0].name()] += 1
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - clients have bugs
                self.failures[type(error).__name__] += 1

    def _settings(self, name: str, **more: object) -> dict[str, Any]:
        return {
            "bootstrap.servers": self._servers,
            "client.id": f"librdkafka-{name}",
            "socket.timeout.ms": _REQUEST_TIMEOUT_MS,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 100,
            "topic.metadata.refresh.interval.ms": 300,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in more.items()},
        }

    def _operations(self, work: str) -> Any:  # noqa: ANN401 - a generator of numbers
        """Yield numbers while a client lives, and count the operations."""
        for number in range(_LIFE):
            if self._stopped.is_set():
                return
            yield number
            self.completed[work] += 1

    def _consume_classic(self) -> None:
        self._consume("classic")

    def _consume_modern(self) -> None:
        self._consume("modern", {"group.protocol": "consumer"})

    def _aio_produce(self) -> None:
        asyncio.run(asyncio.wait_for(self._produce_async(), 20))

    def _aio_consume(self) -> None:
        asyncio.run(asyncio.wait_for(self._consume_async(), 20))

    def _produce(self) -> None:
        settings = self._settings("producer", enable_idempotence=True, linger_ms=1)
        producer = Producer({**settings, "delivery.timeout.ms": 3_000})
        for number in self._operations("produce"):
            for _ in range(5):
                producer.produce(TOPICS[number % 2], _VALUE, partition=number // 2 % PARTITIONS)
            producer.flush(0.2)
        producer.purge()
        producer.flush(0.1)

    def _move(self) -> None:
        settings = self._settings("mover", transactional_id=TRANSACTIONAL_ID)
        producer = Producer({**settings, "transaction.timeout.ms": 3_000})
        producer.init_transactions(3)
        consumer = Consumer(self._settings("group", group_id=GROUPS[0]))
        try:
            for number in self._operations("transaction"):
                producer.begin_transaction()
                producer.produce(TOPICS[0], _VALUE)
                producer.send_offsets_to_transaction(
                    [Position(TOPICS[1], 0, number)], consumer.consumer_group_metadata(), 2
                )
                if number % 3:
                    producer.commit_transaction(2)
                else:
                    producer.abort_transaction(2)
        finally:
            producer.purge()
            consumer.close()

    def _consume(self, group: str, more: dict[str, object] | None = None) -> None:
        settings = self._settings(group, group_id=group, auto_offset_reset="earliest")
        settings |= {"enable.auto.commit": False} | (more or {})
        if not more:
            settings |= {
                "session.timeout.ms": _SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 50,
            }  # fmt: skip
        consumer = Consumer(settings)
        consumer.subscribe([*TOPICS, SOMETIMES])
        try:
            for _ in self._operations(group):
                message = consumer.poll(0.1)
                if message is not None and message.error() is None:
                    consumer.commit(message=message, asynchronous=True)
        finally:
            consumer.close()

    def _share(self) -> None:
        settings = self._settings("sharer", group_id="sharers")
        consumer: Any = confluent_kafka.ShareConsumer(settings)
        consumer.subscribe([TOPICS[0]])
        try:
            for _ in self._operations("share"):
                consumer.poll(0.1)
        finally:
            consumer.close()

    def _administer(self) -> None:
        kafka: Any = confluent_kafka.admin  # its names are not exported
        admin = kafka.AdminClient(self._settings("admin"))
        topic = kafka.ConfigResource(kafka.ResourceType.TOPIC, TOPICS[0])
        retention = kafka.ConfigEntry(
            "retention.ms", "86400000", incremental_operation=kafka.AlterConfigOpType.SET
        )
        changed = kafka.ConfigResource(
            kafka.ResourceType.TOPIC, TOPICS[0], incremental_configs=[retention]
        )
        asked: tuple[Callable[[], Any], ...] = (
            lambda: admin.create_topics([kafka.NewTopic(SOMETIMES, 1, 3)]),
            lambda: admin.create_partitions([kafka.NewPartitions(SOMETIMES, 2)]),
            lambda: admin.describe_configs([topic]),
            lambda: admin.incremental_alter_configs([changed]),
            lambda: {0: admin.list_consumer_groups()},
            lambda: admin.describe_consumer_groups([*GROUPS]),
            lambda: admin.list_offsets({Position(TOPICS[0], 0): kafka.OffsetSpec.latest()}),
            lambda: admin.delete_records([Position(TOPICS[1], 0, 5)]),
            lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("classic")]),
            lambda: {0: admin.describe_cluster()},
            lambda: admin.delete_consumer_groups(["unused", *GROUPS[:1]]),
            lambda: admin.delete_topics([SOMETIMES]),
        )
        for number in self._operations("admin"):
            for future in asked[number % len(asked)]().values():
                with suppress(KafkaException):
                    future.result(2)

    async def _produce_async(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            client_id="aiokafka-producer",
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            retry_backoff_ms=10,
        )
        try:
            await producer.start()
            for number in self._operations("asyncio produce"):
                sent = producer.send_and_wait(TOPICS[number % 2], _VALUE)
                await asyncio.wait_for(sent, 1)
        finally:
            with suppress(TimeoutError, AiokafkaError):
                await asyncio.wait_for(producer.stop(), 2)

    async def _consume_async(self) -> None:
        consumer = AIOKafkaConsumer(
            *TOPICS,
            bootstrap_servers=self._servers,
            client_id="aiokafka-consumer",
            group_id="asyncio",
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=50,
            retry_backoff_ms=10,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        try:
            await asyncio.wait_for(consumer.start(), 5)
            for _ in self._operations("asyncio consume"):
                if await consumer.getmany(timeout_ms=100):
                    await asyncio.wait_for(consumer.commit(), 2)
        finally:
            with suppress(TimeoutError, AiokafkaError):
                await asyncio.wait_for(consumer.stop(), 2)


def main(bootstrap_servers: str, name: str) -> None:
    """Let clients work until SIGTERM; print two counters as JSON."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    clients = ClientThreads(bootstrap_servers, _WORKS[name])
    signal.sigwait({signal.SIGTERM})
    clients.close()
    json.dump([clients.completed, clients.failures], sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
