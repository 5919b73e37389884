"""The internal topics, with the settings of their creation on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalite.metadata.creation import NewTopic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalite.config.broker import BrokerConfig
    from kafkalite.protocol.codec import RecordLog

OFFSETS_TOPIC = "__consumer_offsets"
SHARE_STATE_TOPIC = "__share_group_state"
TRANSACTION_STATE_TOPIC = "__transaction_state"

RECORD_LOGS: Final[Mapping[str, RecordLog]] = {
    OFFSETS_TOPIC: "group",
    TRANSACTION_STATE_TOPIC: "transaction",
    SHARE_STATE_TOPIC: "share",
}
"""Internal topic → kind of its records."""


def offsets_topic(config: BrokerConfig) -> NewTopic:
    """Return the topic of group coordinators, with the settings that Kafka gives it."""
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
    """Return the topic of share coordinators, with the settings that Kafka gives it."""
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
    """Return the topic of transaction coordinators, with the settings that Kafka gives it."""
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


_FACTORIES = {
    OFFSETS_TOPIC: offsets_topic,
    SHARE_STATE_TOPIC: share_state_topic,
    TRANSACTION_STATE_TOPIC: transaction_state_topic,
}


def auto_created_topic(name: str, config: BrokerConfig) -> NewTopic:
    """Return the topic that a node with these settings creates when a client names it."""
    factory = _FACTORIES.get(name)
    if factory is not None:
        return factory(config)
    return NewTopic(
        name=name,
        partitions=config.int("num.partitions"),
        replication_factor=config.int("default.replication.factor"),
    )
