"""The broker's own topics are wanted as Kafka wants them."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.metadata.creation import BROKER_DEFAULT
from kafkalite.metadata.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    topic_as_wanted,
)


def test_the_offsets_topic_follows_its_own_settings() -> None:
    config = BrokerConfig.from_text(
        {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "5"}
    )
    wanted = topic_as_wanted(OFFSETS_TOPIC, config)
    assert (wanted.partitions, wanted.replication_factor) == (7, 1)
    assert wanted.configs == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "5",
    }


def test_the_topic_of_share_states_follows_its_own_settings() -> None:
    prefix = "share.coordinator.state.topic"
    config = BrokerConfig.from_text(
        {f"{prefix}.num.partitions": "7", f"{prefix}.segment.bytes": "5", f"{prefix}.min.isr": "3"}
    )
    wanted = topic_as_wanted(SHARE_STATE_TOPIC, config)
    assert (wanted.partitions, wanted.replication_factor) == (7, 1)
    assert wanted.configs == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": "5",
        "min.insync.replicas": "3",
        "retention.ms": "-1",
    }


def test_the_topic_of_transactions_follows_its_own_settings() -> None:
    prefix = "transaction.state.log"
    config = BrokerConfig.from_text(
        {f"{prefix}.num.partitions": "7", f"{prefix}.segment.bytes": "5", f"{prefix}.min.isr": "3"}
    )
    wanted = topic_as_wanted(TRANSACTION_STATE_TOPIC, config)
    assert (wanted.partitions, wanted.replication_factor) == (7, 1)
    assert wanted.configs == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": "5",
        "min.insync.replicas": "3",
        "unclean.leader.election.enable": "false",
    }


def test_any_other_topic_follows_the_broker() -> None:
    wanted = topic_as_wanted("mine", BrokerConfig.from_text())
    assert (wanted.partitions, wanted.configs) == (BROKER_DEFAULT, {})
