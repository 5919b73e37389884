"""A reader of one partition with confluent-kafka; `partition_readers` describes it."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, TopicPartition

_POLL_S = 0.05


def main(arguments: list[str]) -> None:
    """Read partition 0 of a topic until the process is killed."""
    servers, topic, offset, epoch, _ = arguments
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "client.id": "reader",
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 100,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 100,
        }
    )
    start = TopicPartition(topic, 0, int(offset))
    if int(epoch) >= 0:
        start = TopicPartition(topic, 0, int(offset), leader_epoch=int(epoch))
    consumer.assign([start, TopicPartition(topic, 1, 0)])
    _say("ready")
    while True:
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        if (error := message.error()) is not None:
            _say(f"failed {error}")
        elif message.partition() == 0:
            _say(f"record {message.offset()} {(message.value() or b'').decode()}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
