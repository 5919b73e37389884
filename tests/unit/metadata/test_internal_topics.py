"""Internal topics have Kafka's settings."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    auto_created_topic,
)


def test_the_offsets_topic_follows_its_own_settings() -> None:
    config = BrokerConfig.from_text(
        {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "2000000"}
    )
    topic = auto_created_topic(OFFSETS_TOPIC, config)
    assert (topic.partitions, topic.replication_factor) == (7, 1)
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "2000000",
    }


def test_the_topic_of_share_states_follows_its_own_settings() -> None:
    prefix = "share.coordinator.state.topic"
    config = BrokerConfig.from_text(
        {
            f"{prefix}.num.partitions": "7",
            f"{prefix}.segment.bytes": "2000000",
            f"{prefix}.min.isr": "3",
        }
    )
    topic = auto_created_topic(SHARE_STATE_TOPIC, config)
    assert (topic.partitions, topic.replication_factor) == (7, 1)
    assert topic.configs == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": "2000000",
        "min.insync.replicas": "3",
        "retention.ms": "-1",
    }


def test_the_topic_of_transactions_follows_its_own_settings() -> None:
    prefix = "transaction.state.log"
    config = BrokerConfig.from_text(
        {
            f"{prefix}.num.partitions": "7",
            f"{prefix}.segment.bytes": "2000000",
            f"{prefix}.min.isr": "3",
        }
    )
    topic = auto_created_topic(TRANSACTION_STATE_TOPIC, config)
    assert (topic.partitions, topic.replication_factor) == (7, 1)
    assert topic.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": "2000000",
        "min.insync.replicas": "3",
        "unclean.leader.election.enable": "false",
    }


def test_other_topics_have_the_brokers_defaults() -> None:
    config = BrokerConfig.from_text({"num.partitions": "3", "default.replication.factor": "2"})
    topic = auto_created_topic("mine", config)
    assert (topic.partitions, topic.replication_factor, topic.configs) == (3, 2, {})
