"""Drives kafka-python."""

from __future__ import annotations

import sys

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from tests.clients.drivers.protocol import Event, ReadRow, SentRow, serve
from tests.clients.drivers.threaded import CommitRefusedError, Members

_TIMEOUT_S = 60.0
_TIMEOUT_MS = 60_000
_POLL_MS = 100
_JOIN_MS = 200
_REFUSALS = (
    CommitFailedError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)


class KafkaPythonDriver:
    """See `tests.clients.drivers.protocol.Driver`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._members = Members()
        self._producers: dict[str, KafkaProducer] = {}

    def create_topic(self, topic: str, partitions: int) -> None:
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        admin.create_topics([NewTopic(topic, partitions, 1)], timeout_ms=_TIMEOUT_MS)
        admin.close()

    def produce(self, topic: str, codec: str, records: list[SentRow]) -> None:
        producer = self._producer(codec)
        sent = [
            producer.send(topic, _bytes(value), _bytes(key), partition=partition)
            for partition, key, value in records
        ]
        producer.flush(_TIMEOUT_S)
        for acknowledged in sent:
            acknowledged.get(_TIMEOUT_S)

    def read(self, topic: str, partitions: int, count: int) -> list[ReadRow]:
        client = KafkaConsumer(
            bootstrap_servers=self._bootstrap, auto_offset_reset="earliest", group_id=None
        )
        client.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        client.seek_to_beginning()
        rows: list[ReadRow] = []
        while len(rows) < count:
            polled = _poll(client, _TIMEOUT_MS)
            if not polled:
                raise TimeoutError(f"{len(rows)} of {count} records")
            rows += polled
        client.close()
        return rows

    def join(self, consumer: str, group: str, topic: str, protocol: str) -> None:
        assert protocol == "classic"
        client = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
            client_id=consumer,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
        )
        # A leader that does not know the topic's partitions yet assigns none, and does not
        # rebalance when it learns of them. That happens with a fast broker.
        client.partitions_for_topic(topic)
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
        for producer in self._producers.values():
            producer.close()

    def _producer(self, codec: str) -> KafkaProducer:
        if codec not in self._producers:
            self._producers[codec] = KafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all",
                linger_ms=5,
            )
        return self._producers[codec]


class _GroupConsumer:
    """See `tests.clients.drivers.threaded.Consumer`."""

    def __init__(self, client: KafkaConsumer) -> None:
        self._client = client

    def poll(self) -> list[ReadRow]:
        rows = _poll(self._client, _POLL_MS)
        # If a join is answered between two polls, it is incomplete: the client has partitions, but
        # sends no heartbeats and refuses to commit. So poll until the join is complete, but return
        # records first, before others own the partitions.
        coordinator = self._client._coordinator
        while coordinator.rejoining and not rows:
            if not coordinator.need_rejoin():
                # Because of a race in the client, it may wait forever for a join that it does not
                # request.
                coordinator.request_rejoin()
            rows = _poll(self._client, _JOIN_MS)
        return rows

    def commit(self) -> dict[int, int]:
        positions = {owned: self._client.position(owned) for owned in self._client.assignment()}
        try:
            self._client.commit()
        except _REFUSALS as refused:
            raise CommitRefusedError(repr(refused)) from None
        except KafkaError as refused:
            if not refused.retriable:
                raise
            raise CommitRefusedError(repr(refused)) from None
        return {owned.partition: offset for owned, offset in positions.items() if offset}

    def assignment(self) -> list[int]:
        return [owned.partition for owned in self._client.assignment()]

    def close(self) -> None:
        self._client.close()


def _poll(client: KafkaConsumer, timeout_ms: int) -> list[ReadRow]:
    return [
        (message.partition, message.offset, _text(message.key), _text(message.value))
        for messages in client.poll(timeout_ms=timeout_ms).values()
        for message in messages
    ]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


if __name__ == "__main__":
    serve(KafkaPythonDriver(sys.argv[1]))
