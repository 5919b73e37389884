"""A topic's settings: its own, else its broker's in whatever unit, else the default."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.log_config import LogConfig
from kafkalite.config.topic import (
    check_topic_values,
    parse_topic_text,
    topic_log_config,
    topic_value,
)


def test_a_plain_topic_of_a_plain_broker_has_kafka_defaults() -> None:
    assert topic_log_config({}, BrokerConfig.from_text()) == LogConfig()


@pytest.mark.parametrize(
    ("broker", "topic", "value"),
    [
        ({"log.retention.hours": "1"}, "retention.ms", 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, "retention.ms", 120_000),
        ({"log.retention.minutes": "2", "log.retention.ms": "3"}, "retention.ms", 3),
        ({"log.retention.ms": "-7"}, "retention.ms", -1),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.roll.hours": "2"}, "segment.ms", 7_200_000),
        ({"log.roll.jitter.hours": "1"}, "segment.jitter.ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush.ms", 9),
        ({"message.max.bytes": "10"}, "max.message.bytes", 10),
        ({}, "remote.storage.enable", False),
    ],
)
def test_an_unset_key_follows_its_broker(broker: dict[str, str], topic: str, value: object) -> None:
    assert topic_value(topic, {}, BrokerConfig.from_text(broker)) == value


def test_a_topics_own_word_counts_first() -> None:
    broker = BrokerConfig.from_text({"log.retention.ms": "3"})
    config = topic_log_config({"retention.ms": "4", "cleanup.policy": "compact,delete"}, broker)
    assert config.retention_ms == 4
    assert config.cleanup_policy == frozenset({"compact", "delete"})


def test_small_segments_are_there_for_tests() -> None:
    config = topic_log_config({"internal.segment.bytes": "100"}, BrokerConfig.from_text())
    assert config.segment_bytes == 100


def test_an_unknown_key_is_told_before_a_bad_value() -> None:
    with pytest.raises(ConfigError, match="Unknown topic config name: foo"):
        parse_topic_text({"retention.ms": "x", "foo": "1"})


@pytest.mark.parametrize(
    ("own", "complaint"),
    [
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "3"},
            (
                r"conflict topic config setting min\.compaction\.lag\.ms \(5\) > "
                r"max\.compaction\.lag\.ms \(3\)"
            ),
        ),
        ({"remote.storage.enable": "true"}, "Tiered Storage functionality is disabled"),
    ],
)
def test_values_that_do_not_go_together_are_refused(own: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_topic_values(own, BrokerConfig.from_text())
