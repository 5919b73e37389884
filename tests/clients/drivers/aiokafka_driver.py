"""Drives aiokafka: its event loop runs in a thread, which receives requests one by one."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from typing import TYPE_CHECKING, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import CommitFailedError, IllegalOperation, KafkaError

from tests.clients.drivers.protocol import Event, EventLog, ReadRow, SentRow, serve

if TYPE_CHECKING:
    from collections.abc import Coroutine

_TIMEOUT_S = 60.0
_T = TypeVar("_T")


class AiokafkaDriver:
    """See `tests.clients.drivers.protocol.Driver`."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._log = EventLog()
        self._producers: dict[tuple[str, bool], AIOKafkaProducer] = {}
        self._members: dict[str, _Member] = {}
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def create_topic(self, topic: str, partitions: int) -> None:
        async def create() -> None:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            await admin.create_topics([NewTopic(topic, partitions, 1)])
            await admin.close()

        self._wait(create())

    def produce(
        self, topic: str, codec: str, records: list[SentRow], *, is_idempotent: bool = False
    ) -> None:
        async def send_all() -> None:
            producer = await self._producer(codec, is_idempotent=is_idempotent)
            sent = [
                await producer.send(topic, _bytes(value), _bytes(key), partition)
                for partition, key, value in records
            ]
            await asyncio.gather(*sent)

        self._wait(send_all())

    def read(self, topic: str, partitions: int, count: int) -> list[ReadRow]:
        async def read_all() -> list[ReadRow]:
            client = AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap, auto_offset_reset="earliest"
            )
            client.assign([TopicPartition(topic, partition) for partition in range(partitions)])
            await client.start()
            rows: list[ReadRow] = []
            while len(rows) < count:
                rows += await _poll(client, 1000)
            await client.stop()
            return rows

        return self._wait(read_all())

    def join(self, consumer: str, group: str, topic: str, protocol: str) -> None:
        assert protocol == "classic"

        async def start() -> _Member:
            client = AIOKafkaConsumer(
                topic,
                bootstrap_servers=self._bootstrap,
                client_id=consumer,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                heartbeat_interval_ms=300,
            )
            return _Member(consumer, client, self._log)

        self._members[consumer] = self._wait(start())

    def leave(self, consumer: str) -> None:
        self._wait(self._members.pop(consumer).leave())

    def members(self) -> dict[str, list[int]]:
        return {name: member.assigned for name, member in self._members.items()}

    def events(self) -> list[Event]:
        return self._log.take()

    def close(self) -> None:
        for consumer in list(self._members):
            self.leave(consumer)
        for producer in self._producers.values():
            self._wait(producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    async def _producer(self, codec: str, *, is_idempotent: bool) -> AIOKafkaProducer:
        key = (codec, is_idempotent)
        if key not in self._producers:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all",
                enable_idempotence=is_idempotent,
                linger_ms=5,
            )
            await producer.start()
            self._producers[key] = producer
        return self._producers[key]

    def _wait(self, work: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)


class _Member:
    """A group member as a task: poll, log, commit, until `leave`."""

    def __init__(self, name: str, client: AIOKafkaConsumer, log: EventLog) -> None:
        self.assigned: list[int] = []
        self._name = name
        self._client = client
        self._log = log
        self._is_leaving = False
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def leave(self) -> None:
        self._is_leaving = True
        await self._task

    async def _run(self) -> None:
        try:
            await self._client.start()
            await self._consume()
        except Exception:  # noqa: BLE001 - the test checks what the client raised
            self._log.add("error", self._name, traceback.format_exc())
        finally:
            await self._client.stop()

    async def _consume(self) -> None:
        is_dirty = False
        while not self._is_leaving:
            rows = await _poll(self._client, 100)
            self.assigned = [owned.partition for owned in self._client.assignment()]
            if rows:
                self._log.add("records", self._name, rows)
            if rows or is_dirty:
                is_dirty = not await self._committed(rows)
        if is_dirty:
            await self._committed([])

    async def _committed(self, rows: list[ReadRow]) -> bool:
        try:
            await self._client.commit()
        except (CommitFailedError, IllegalOperation) as refused:
            self._log.add("refused", self._name, repr(refused))
            return False
        except KafkaError as refused:
            if not refused.retriable:
                raise
            self._log.add("refused", self._name, repr(refused))
            return False
        self._log.add("commit", self._name, _next_offsets(rows))
        return True


async def _poll(client: AIOKafkaConsumer, timeout_ms: int) -> list[ReadRow]:
    polled = await client.getmany(timeout_ms=timeout_ms)
    return [
        (message.partition, message.offset, _text(message.key), _text(message.value))
        for messages in polled.values()
        for message in messages
    ]


def _next_offsets(rows: list[ReadRow]) -> dict[int, int]:
    return {partition: offset + 1 for partition, offset, _key, _value in rows}


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


if __name__ == "__main__":
    serve(AiokafkaDriver(sys.argv[1]))
