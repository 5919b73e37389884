"""Counts of the records that a read_committed consumer sees: each must be seen once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.observer import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from confluent_kafka import Message

_MAX_MESSAGES = 2_000
_READ_S = 0.2
_TIMEOUT_S = 30.0


class CommittedReader:
    """Reads whole topics from their beginnings, at isolation level `read_committed`."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int], patience_s: float) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "committed-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "reconnect.backoff.max.ms": 500,
            }
        )
        self._partitions = [
            (topic, index) for topic, partitions in topics.items() for index in range(partitions)
        ]
        self._reached: dict[tuple[str | None, int | None], int | None] = {}
        self._patience_s = patience_s
        self._consumer.assign([TopicPartition(*partition, 0) for partition in self._partitions])
        self.messages: list[Message] = []
        self.counts: dict[str | None, Counter[str]] = {topic: Counter() for topic in topics}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def read(self) -> None:
        """Read for a short time; the topic may still be written to."""
        for message in self._consumer.consume(_MAX_MESSAGES, _READ_S):
            self._add(message)

    def _add(self, message: Message) -> None:
        error = message.error()
        if error is None:
            self.messages.append(message)
            self.counts[message.topic()][(message.value() or b"").decode()] += 1
        elif error.code() == KafkaError._PARTITION_EOF:
            # The last stable offset. It counts markers too, which a consumer does not see.
            self._reached[message.topic(), message.partition()] = message.offset()

    def wait_for(self, topic: str, values: set[str]) -> None:
        """Read until all these values were seen."""

        def is_all_there() -> bool:
            self.read()
            return self.counts[topic].keys() >= values

        wait_until(is_all_there, f"all of {len(values)} in {topic}", self._patience_s)

    def read_to_the_end(self) -> None:
        """Read to the end of every partition; this waits for open transactions."""

        def is_at_the_end() -> bool:
            self.read()
            return all(
                self._reached.get(partition) == self._end_offset(*partition)
                for partition in self._partitions
            )

        wait_until(is_at_the_end, "every partition read to its end", self._patience_s)

    def _end_offset(self, topic: str, partition: int) -> int:
        try:
            topic_partition = TopicPartition(topic, partition)
            _, end = self._consumer.get_watermark_offsets(topic_partition, _TIMEOUT_S)
        except KafkaException:
            return -1
        return int(end)
