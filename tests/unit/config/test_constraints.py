"""Settings that are valid on their own but not together."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.constraints import MIN_SEGMENT_BYTES
from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import topic_keys

INVALID_COMBINATIONS = [
    (
        {"log.cleaner.threads": "128"},
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    ),
    (
        {"log.retention.minutes": "0"},
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    ),
    (
        {"replica.fetch.wait.max.ms": "600", "replica.lag.time.max.ms": "599"},
        (
            "replica.fetch.wait.max.ms should always be less than or equal to "
            "replica.lag.time.max.ms to prevent frequent changes in ISR"
        ),
    ),
    (
        {"group.share.max.share.sessions": "199"},
        "group.share.max.share.sessions must be greater than or equal to group.share.max.size",
    ),
    (
        {"group.streams.num.standby.replicas": "3"},
        (
            "group.streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas"
        ),
    ),
    (
        {"group.coordinator.rebalance.protocols": "consumer"},
        "Disabling the 'classic' protocol is not supported.",
    ),
    (
        {"connections.max.idle.ms": "100"},
        (
            "connection.failed.authentication.delay.ms should always be less than "
            "connections.max.idle.ms to prevent failed authentication responses from timing out"
        ),
    ),
    ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
    ({"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater than or equal to 0"),
    (
        {"log.cleaner.threads": "0"},
        "log.cleaner.threads must be at least 1, because logs are always cleaned",
    ),
    (
        {"max.connections.per.ip": "0"},
        (
            "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
            "property is set."
        ),
    ),
    (
        {"queued.max.request.bytes": "5"},
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    ),
    (
        {"offsets.topic.segment.bytes": "1048575"},
        "offsets.topic.segment.bytes must be at least 1048576, the minimum of segment.bytes",
    ),
    (
        {"transaction.state.log.segment.bytes": "1000"},
        (
            "transaction.state.log.segment.bytes must be at least 1048576, "
            "the minimum of segment.bytes"
        ),
    ),
    (
        {"share.coordinator.state.topic.segment.bytes": "1"},
        (
            "share.coordinator.state.topic.segment.bytes must be at least 1048576, "
            "the minimum of segment.bytes"
        ),
    ),
    (
        {"group.consumer.session.timeout.ms": "500"},
        (
            "group.consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms"
        ),
    ),
    (
        {"group.share.session.timeout.ms": "60001"},
        (
            "group.share.session.timeout.ms must be less than or equal to "
            "group.share.max.session.timeout.ms"
        ),
    ),
    (
        {"group.streams.min.heartbeat.interval.ms": "15001"},
        (
            "group.streams.max.heartbeat.interval.ms must be greater than or equal to "
            "group.streams.min.heartbeat.interval.ms"
        ),
    ),
    (
        {
            "group.consumer.session.timeout.ms": "1000",
            "group.consumer.heartbeat.interval.ms": "1000",
        },
        "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
    ),
]


INVALID_AT_THE_START = [
    ({"node.id": "1", "broker.id": "2"}, "broker.id"),
    (
        {
            "inter.broker.listener.name": "PLAINTEXT",
            "security.inter.broker.protocol": "PLAINTEXT",
        },
        "inter.broker.listener.name",
    ),
    (
        {"process.roles": "broker", "node.id": "1", "controller.quorum.voters": "1@h:1"},
        "controller.quorum.voters",
    ),
    (
        {"process.roles": "controller", "node.id": "1", "controller.quorum.voters": "2@h:1"},
        "controller.quorum.voters",
    ),
    (
        {
            "process.roles": "broker",
            "node.id": "1",
            "controller.quorum.auto.join.enable": "true",
        },
        "controller.quorum.auto.join.enable",
    ),
    (
        {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "9"},
        "log.cleaner.min.compaction.lag.ms",
    ),
    (
        {
            "remote.log.storage.system.enable": "true",
            "log.retention.ms": "5",
            "log.local.retention.ms": "6",
        },
        "log.local.retention.ms",
    ),
]


@pytest.mark.parametrize(("text", "key"), INVALID_AT_THE_START)
def test_settings_are_checked_together_at_the_start(text: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_text(text)
    assert refusal.value.key == key


def test_only_the_local_retention_of_tiered_logs_is_limited() -> None:
    BrokerConfig.from_text({"log.retention.ms": "5", "log.local.retention.ms": "6"})


@pytest.mark.parametrize(("text", "complaint"), INVALID_COMBINATIONS)
def test_impossible_combinations_are_refused(text: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_text(text)
    assert refusal.value.message.removeprefix("requirement failed: ") == complaint


def test_negative_retention_means_unlimited() -> None:
    assert BrokerConfig.from_text({"log.retention.ms": "-5"}).int("log.retention.ms") == -5


def test_connection_overrides_have_an_address_and_a_number() -> None:
    assert BrokerConfig.from_text({"max.connections.per.ip.overrides": "h:1, 10.0.0.1:2"})
    for wrong in ("h", "h:x", "a b:1", "h:1,,k:2", f"h:{1 << 31}"):
        with pytest.raises(ConfigError, match="Error parsing configuration property"):
            BrokerConfig.from_text({"max.connections.per.ip.overrides": wrong})


def test_segments_of_internal_topics_may_have_the_minimum_size() -> None:
    least = str(MIN_SEGMENT_BYTES)
    assert topic_keys()["segment.bytes"].parse(least) == MIN_SEGMENT_BYTES
    with pytest.raises(ConfigError):
        topic_keys()["segment.bytes"].parse(str(MIN_SEGMENT_BYTES - 1))
    config = BrokerConfig.from_text({"offsets.topic.segment.bytes": least})
    assert config.int("offsets.topic.segment.bytes") == MIN_SEGMENT_BYTES
