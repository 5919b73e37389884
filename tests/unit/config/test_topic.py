"""Settings of a topic: its own, otherwise the broker's in any unit, otherwise the default."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.keys import topic_keys
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
def test_an_unset_key_has_the_value_of_its_synonym(
    broker: dict[str, str], topic: str, value: object
) -> None:
    assert topic_value(topic, {}, BrokerConfig.from_text(broker)) == value


def test_a_topics_own_setting_has_precedence() -> None:
    broker = BrokerConfig.from_text({"log.retention.ms": "3"})
    config = topic_log_config({"retention.ms": "4", "cleanup.policy": "compact,delete"}, broker)
    assert config.retention_ms == 4
    assert config.cleanup_policy == frozenset({"compact", "delete"})


def test_small_segments_are_possible_for_tests() -> None:
    config = topic_log_config({"internal.segment.bytes": "100"}, BrokerConfig.from_text())
    assert config.segment_bytes == 100


def test_an_unknown_key_is_reported_before_an_invalid_value() -> None:
    with pytest.raises(ConfigError, match="Unknown topic config name: foo"):
        parse_topic_text({"retention.ms": "x", "foo": "1"}, topic_keys())


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
def test_contradicting_values_are_rejected(own: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_topic_values(own, BrokerConfig.from_text())


class TestKeysOfReleasesBefore40:
    OLD = BrokerConfig.from_text(as_version="3.9")

    @pytest.mark.parametrize(
        "version",
        [
            "2.8",
            "2.8.1",
            "3.0-IV1",
            "3.9-IV0",
            "3.9",
            "3.9.1",
            "0.8.0",
            "0.10.0",
            "0.10.2.1",
            "4.0-IV0",
        ],
    )
    def test_a_version_of_the_record_format_is_accepted(self, version: str) -> None:
        check_topic_values({"message.format.version": version}, self.OLD)
        assert topic_value("message.format.version", {}, self.OLD) == "3.0-IV1"

    @pytest.mark.parametrize("version", ["x", "", "4.0", "4.1", "3.9-IV1", "0.10", "2"])
    def test_an_invalid_version_is_rejected(self, version: str) -> None:
        with pytest.raises(ConfigError) as refusal:
            check_topic_values({"message.format.version": version}, self.OLD)
        assert refusal.value.message == (
            f"Invalid value {version} for configuration message.format.version: "
            f"Version {version} is not a valid version"
        )

    @pytest.mark.parametrize("release", ["4.0", "4.4", None])
    def test_later_releases_lack_these_keys(self, release: str | None) -> None:
        config = BrokerConfig.from_text(as_version=release)
        for name in (
            "message.format.version",
            "message.downconversion.enable",
            "message.timestamp.difference.max.ms",
        ):
            assert name in self.OLD.topic_keys
            with pytest.raises(ConfigError, match=f"Unknown topic config name: {name}"):
                check_topic_values({name: "2.8"}, config)
