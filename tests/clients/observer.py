"""A second pair of eyes: what the broker holds, asked by a client that is not the one on trial."""

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
    """Give a group's committed offset per partition of a topic; absent where there is none."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = asked[group].result(_TIMEOUT_S).topic_partitions or []
    return {at.partition: at.offset for at in found if at.topic == topic and at.offset >= 0}


def commit_the_beginning(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    """Commit offset 0 everywhere for a group that nobody has joined yet."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    beginning = [TopicPartition(topic, index, 0) for index in range(partitions)]
    consumer.commit(offsets=beginning, asynchronous=False)
    consumer.close()


def end_offsets(bootstrap: str, topic: str, partitions: int) -> Offsets:
    """Give the end offset of every partition of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "observer"})
    marks = {
        index: consumer.get_watermark_offsets(TopicPartition(topic, index), _TIMEOUT_S)
        for index in range(partitions)
    }
    consumer.close()
    return {index: high for index, (_low, high) in marks.items()}


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = _TIMEOUT_S) -> None:
    """Ask again until a condition holds; an outside judge has nothing better to wait on."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(0.05)
