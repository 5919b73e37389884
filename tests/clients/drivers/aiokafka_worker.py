"""A worker of aiokafka; see `tests.clients.drivers.worker`.

Its TxnOffsetCommit requests have no member id. So each worker has its own group and partitions, and
is fenced only by its transactional id.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, ProducerFenced
from aiokafka.structs import TopicPartition

from tests.clients.drivers.worker import (
    TRANSACTION_TIMEOUT_MS,
    FencedError,
    Orders,
    Task,
    after_these,
    given_task,
    last_words,
    say,
    transformed,
)

if TYPE_CHECKING:
    from tests.clients.drivers.protocol import ReadRow

_FENCED = (InvalidProducerEpoch, ProducerFenced)
_POLL_MS = 100


class AiokafkaWorker:
    """A consumer with its own partitions, and a transactional producer."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._owned = [TopicPartition(task.source, partition) for partition in task.partitions]
        self._producer = AIOKafkaProducer(
            bootstrap_servers=task.bootstrap,
            transactional_id=task.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=task.bootstrap,
            group_id=task.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )

    async def work(self) -> None:
        """Work until the order to stop."""
        await self._producer.start()
        self._consumer.assign(self._owned)
        await self._consumer.start()
        orders = Orders()
        say("ready")
        while not orders.is_over:
            polled = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=self._task.batch)
            rows: list[ReadRow] = [
                (message.partition, message.offset, message.key.decode(), message.value.decode())
                for messages in polled.values()
                for message in messages
            ]
            if rows:
                await self._transact(rows, orders)
        await self._consumer.stop()
        await self._producer.stop()

    async def _transact(self, rows: list[ReadRow], orders: Orders) -> None:
        producer = self._producer
        await producer.begin_transaction()
        sent = [
            await producer.send(
                self._task.sink, transformed(value).encode(), (key or "").encode(), partition
            )
            for partition, _offset, key, value in rows
        ]
        await asyncio.gather(*sent)
        offsets = {
            TopicPartition(self._task.source, partition): offset
            for partition, offset in after_these(rows).items()
        }
        await producer.send_offsets_to_transaction(offsets, self._task.group)
        if await asyncio.to_thread(orders.obey_inside):
            await producer.abort_transaction()
            for owned in self._owned:
                # Its own `seek_to_committed` does not seek to the beginning.
                self._consumer.seek(owned, await self._consumer.committed(owned) or 0)
            say("aborted")
        else:
            await producer.commit_transaction()
            say(f"committed {len(rows)}")


async def _main() -> None:
    try:
        await AiokafkaWorker(given_task()).work()
    except _FENCED as fenced:
        last_words(FencedError(type(fenced).__name__))
    except BaseException as failure:  # noqa: BLE001 - reported to the test
        last_words(failure)


if __name__ == "__main__":
    asyncio.run(_main())
