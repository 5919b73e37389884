"""Topics of the broker's own, as they are wanted when somebody first needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalite.metadata.creation import NewTopic

if TYPE_CHECKING:
    from kafkalite.config.broker import BrokerConfig

OFFSETS_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
TRANSACTION_STATE_TOPIC = "__transaction_state"


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


def share_state_topic(config: BrokerConfig) -> NewTopic:
    """Return the topic that share coordinators live on, configured as Kafka configures it."""
    prefix = "share.coordinator.state.topic"
    return NewTopic(
        name=SHARE_STATE_TOPIC,
        partitions=config.int(f"{prefix}.num.partitions"),
        replication_factor=config.int(f"{prefix}.replication.factor"),
        configs={
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(config.int(f"{prefix}.segment.bytes")),
            "min.insync.replicas": str(config.int(f"{prefix}.min.isr")),
            "retention.ms": "-1",
        },
    )


def transaction_state_topic(config: BrokerConfig) -> NewTopic:
    """Return the topic that transaction coordinators live on, configured as Kafka configures it."""
    prefix = "transaction.state.log"
    return NewTopic(
        name=TRANSACTION_STATE_TOPIC,
        partitions=config.int(f"{prefix}.num.partitions"),
        replication_factor=config.int(f"{prefix}.replication.factor"),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(config.int(f"{prefix}.segment.bytes")),
            "min.insync.replicas": str(config.int(f"{prefix}.min.isr")),
            "unclean.leader.election.enable": "false",
        },
    )


_MAKERS = {
    OFFSETS_TOPIC: offsets_topic,
    SHARE_STATE_TOPIC: share_state_topic,
    TRANSACTION_STATE_TOPIC: transaction_state_topic,
}


def topic_as_wanted(name: str, config: BrokerConfig) -> NewTopic:
    """Return the topic that a mere mention of `name` makes."""
    make = _MAKERS.get(name)
    return NewTopic(name=name) if make is None else make(config)
