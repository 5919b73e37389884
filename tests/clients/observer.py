"""An independent observer: the state of the broker, read by another client."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable

_TIMEOUT_S = 30.0
Offsets: TypeAlias = dict[int, int]


def committed_offsets(bootstrap: str, group: str, topic: str) -> Offsets:
    """Return a group's committed offsets by partition of a topic, for partitions that have one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    futures = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    offsets = futures[group].result(_TIMEOUT_S).topic_partitions or []
    return {row.partition: row.offset for row in offsets if row.topic == topic and row.offset >= 0}


def commit_the_beginning(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    """Commit offset 0 for all partitions for a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    beginning = [TopicPartition(topic, index, 0) for index in range(partitions)]
    consumer.commit(offsets=beginning, asynchronous=False)
    consumer.close()


def end_offsets(bootstrap: str, topic: str, partitions: int) -> Offsets:
    """Return the end offset of every partition of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "observer"})
    watermarks = {
        index: consumer.get_watermark_offsets(TopicPartition(topic, index), _TIMEOUT_S)
        for index in range(partitions)
    }
    consumer.close()
    return {index: high for index, (_low, high) in watermarks.items()}


def wait_until(
    condition: Callable[[], bool], description: str, timeout_s: float = _TIMEOUT_S
) -> None:
    """Poll until a condition holds; an observer gets no notification."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s: {description}")
        time.sleep(0.05)
