"""Drives confluent-kafka (librdkafka)."""

from __future__ import annotations

import sys

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.clients.drivers.protocol import Event, ReadRow, SentRow, serve
from tests.clients.drivers.threaded import CommitRefusedError, Members

_TIMEOUT_S = 60.0
_REFUSALS = {
    Code.REBALANCE_IN_PROGRESS,
    Code.ILLEGAL_GENERATION,
    Code.UNKNOWN_MEMBER_ID,
    Code.STALE_MEMBER_EPOCH,
    Code._ASSIGNMENT_LOST,
    Code._NO_OFFSET,
    # The client returns these when its own retries are used up. It does not call them retriable.
    Code._TRANSPORT,
    Code._TIMED_OUT,
    Code._WAIT_COORD,
    Code.REQUEST_TIMED_OUT,
    Code.NOT_COORDINATOR,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
}


class ConfluentDriver:
    """See `tests.clients.drivers.protocol.Driver`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._members = Members()
        self._producers: dict[tuple[str, bool], Producer] = {}

    def create_topic(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(_TIMEOUT_S)

    def produce(
        self, topic: str, codec: str, records: list[SentRow], *, is_idempotent: bool = False
    ) -> None:
        failures: list[str] = []

        def delivered(error: object, _message: Message) -> None:
            if error is not None:
                failures.append(str(error))

        producer = self._producer(codec, is_idempotent=is_idempotent)
        for partition, key, value in records:
            producer.produce(topic, value, key, partition, on_delivery=delivered)
        left = producer.flush(_TIMEOUT_S)
        if failures or left:
            raise RuntimeError(f"{left} records not sent, {len(failures)} failed: {failures[:3]}")

    def read(self, topic: str, partitions: int, count: int) -> list[ReadRow]:
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "none", "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
        rows: list[ReadRow] = []
        while len(rows) < count:
            messages = consumer.consume(count - len(rows), _TIMEOUT_S)
            if not messages:
                raise TimeoutError(f"{len(rows)} of {count} records")
            rows += [_row(message) for message in messages]
        consumer.close()
        return rows

    def join(self, consumer: str, group: str, topic: str, protocol: str) -> None:
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": self._bootstrap,
            "client.id": consumer,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # A lookup of the coordinator waits behind a Fetch on the same connection. If that takes
            # longer than the backoff of a commit, the client may start the lookup again and again.
            "fetch.wait.max.ms": 50,
        }
        if protocol == "classic":
            config |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
        client = Consumer(config)
        client.subscribe([topic])
        self._members.add(consumer, _GroupConsumer(client))

    def leave(self, consumer: str) -> None:
        self._members.remove(consumer)

    def members(self) -> dict[str, list[int]]:
        return self._members.assignments()

    def events(self) -> list[Event]:
        return self._members.log.take()

    def close(self) -> None:
        self._members.close()

    def _producer(self, codec: str, *, is_idempotent: bool) -> Producer:
        key = (codec, is_idempotent)
        if key not in self._producers:
            self._producers[key] = Producer(
                {
                    "bootstrap.servers": self._bootstrap,
                    "compression.type": codec,
                    "acks": "all",
                    "enable.idempotence": is_idempotent,
                    "linger.ms": 5,
                }
            )
        return self._producers[key]


class _GroupConsumer:
    """See `tests.clients.drivers.threaded.Consumer`."""

    def __init__(self, client: Consumer) -> None:
        self._client = client

    def poll(self) -> list[ReadRow]:
        return [_row(message) for message in self._client.consume(1000, 0.1)]

    def commit(self) -> dict[int, int]:
        try:
            offsets = self._client.commit(asynchronous=False) or []
        except KafkaException as refused:
            error: Code = refused.args[0]
            if error.code() in _REFUSALS or error.retriable():
                raise CommitRefusedError(str(refused)) from None
            raise
        for offset in offsets:
            if offset.error is not None:
                raise CommitRefusedError(str(offset.error))
        return {offset.partition: offset.offset for offset in offsets if offset.offset >= 0}

    def assignment(self) -> list[int]:
        return [owned.partition for owned in self._client.assignment()]

    def close(self) -> None:
        self._client.close()


def _row(message: Message) -> ReadRow:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    key, value = message.key(), message.value()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset, _text(key), _text(value)


def _text(data: str | bytes | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data


if __name__ == "__main__":
    serve(ConfluentDriver(sys.argv[1]))
