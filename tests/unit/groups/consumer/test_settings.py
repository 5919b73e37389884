"""Settings of consumer groups: group configuration within the broker's bounds."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.settings import ConsumerSettings, ConsumerSettingsCache


def test_a_group_without_settings_uses_the_brokers() -> None:
    config = BrokerConfig.from_text(
        {
            "group.consumer.session.timeout.ms": "50000",
            "group.consumer.heartbeat.interval.ms": "6000",
            "group.consumer.assignment.interval.ms": "70",
            "group.consumer.max.size": "8",
            "group.consumer.regex.refresh.interval.ms": "90000",
        }
    )
    assert ConsumerSettingsCache(config).of(ConsumerGroup("g")) == ConsumerSettings(
        session_timeout_ms=50_000,
        heartbeat_interval_ms=6_000,
        assignment_interval_ms=70,
        max_size=8,
        compares_incarnations=False,
        regex_refresh_interval_ms=90_000,
    )


def test_an_earlier_setting_is_limited_to_the_current_bounds() -> None:
    config = BrokerConfig.from_text(
        {
            "group.consumer.min.session.timeout.ms": "45000",
            "group.consumer.max.session.timeout.ms": "60000",
        }
    )
    settings_cache = ConsumerSettingsCache(config)
    config.publish(
        {},
        {
            "low": {"consumer.session.timeout.ms": "1"},
            "high": {"consumer.session.timeout.ms": "10000000"},
            "within": {"consumer.session.timeout.ms": "50000"},
        },
    )
    timeouts = [
        settings_cache.of(ConsumerGroup(name)).session_timeout_ms
        for name in ("low", "high", "within")
    ]
    assert timeouts == [45_000, 60_000, 50_000]
