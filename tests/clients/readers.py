"""All committed records of a topic, read by two other clients."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TypeAlias

from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

Rows: TypeAlias = dict[int, list[tuple[str | None, str | None]]]
"""partition → keys and values, in the order of their offsets."""

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
_TIMEOUT_S = 30.0


def read_by_librdkafka(
    bootstrap: str, topic: str, partitions: int, isolation_level: str = COMMITTED
) -> Rows:
    """Read every partition to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation_level,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    rows: Rows = defaultdict(list)
    reading = set(range(partitions))
    while reading:
        message = consumer.poll(_TIMEOUT_S)
        assert message is not None, f"{reading} do not end"
        partition, error = message.partition(), message.error()
        assert partition is not None
        if error is None:
            rows[partition].append((_text(message.key()), _text(message.value())))
        elif error.code() == KafkaError._PARTITION_EOF:
            reading.discard(partition)
        else:
            raise KafkaException(error)
    consumer.close()
    return dict(rows)


def read_by_aiokafka(bootstrap: str, topic: str, partitions: int) -> Rows:
    """Read every partition up to its last stable offset."""
    owned = [AioTopicPartition(topic, partition) for partition in range(partitions)]
    return asyncio.run(_read(bootstrap, owned))


async def _read(bootstrap: str, owned: list[AioTopicPartition]) -> Rows:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level=COMMITTED,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consumer.assign(owned)
    await consumer.start()
    rows: Rows = defaultdict(list)
    ends = await consumer.end_offsets(owned)
    for partition in owned:
        while await consumer.position(partition) < ends[partition]:
            for messages in (await consumer.getmany(partition, timeout_ms=100)).values():
                for message in messages:
                    rows[message.partition].append((_text(message.key), _text(message.value)))
    await consumer.stop()
    return dict(rows)


def _text(data: str | bytes | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data
