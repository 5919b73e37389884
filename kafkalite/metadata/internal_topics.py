"""Topics of the broker's own, as they are wanted when somebody first needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.creation import NewTopic

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"


def offsets_topic(config: BrokerConfig) -> NewTopic:
    """Return the topic that group coordinators live on, configured as Kafka configures it."""
    return NewTopic(
        name=OFFSETS_TOPIC,
        partitions=config.int("offsets.topic.num.partitions"),
        replication_factor=config.int("offsets.topic.replication.factor"),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.int("offsets.topic.segment.bytes")),
        },
    )


def topic_as_wanted(name: str, config: BrokerConfig) -> NewTopic:
    """Return the topic that a mere mention of `name` makes."""
    return offsets_topic(config) if name == OFFSETS_TOPIC else NewTopic(name=name)
