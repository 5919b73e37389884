"""Topics that come into being because somebody asked for them.

Kafka starts the creation, answers UNKNOWN_TOPIC_OR_PARTITION, and lets the client ask again. Here
the topic is there before the answer is written, so the answer tells of it: one round trip and one
client back-off less, and nothing a client could tell from Kafka being quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.groups.coordinator import offsets_topic_config
from kafkalite.metadata.creation import NewTopic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalite.apis.context import Services
    from kafkalite.config.broker import BrokerConfig

_CONSUMER_OFFSETS = "__consumer_offsets"


def topic_as_wanted(name: str, config: BrokerConfig) -> NewTopic:
    """Return the topic that a mere mention of `name` makes."""
    if name == _CONSUMER_OFFSETS:
        return NewTopic(
            name=name,
            partitions=config.int("offsets.topic.num.partitions"),
            replication_factor=config.int("offsets.topic.replication.factor"),
            configs=offsets_topic_config(config),
        )
    return NewTopic(name=name)


def create_mentioned(services: Services, names: Sequence[str]) -> None:
    """Make topics of these names where that can be; those that cannot stay unknown."""
    services.metadata.create_topics([topic_as_wanted(name, services.config) for name in names])
