"""Settings of share groups: group configuration within the broker's bounds."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.settings import ShareSettings, ShareSettingsCache


def test_a_group_without_settings_uses_the_brokers() -> None:
    assert ShareSettingsCache(BrokerConfig.from_text({})).of(ShareGroup("g")) == ShareSettings(
        session_timeout_ms=45_000,
        heartbeat_interval_ms=1_000,
        assignment_interval_ms=1_000,
        max_size=200,
        initialize_retry_interval_ms=30_000,
    )


def test_group_settings_override_the_brokers_within_bounds() -> None:
    config = BrokerConfig.from_text({"group.share.max.session.timeout.ms": "50000"})
    own = {"share.session.timeout.ms": "60000", "share.heartbeat.interval.ms": "7000"}
    settings_cache, group = ShareSettingsCache(config), ShareGroup("g")
    assert settings_cache.of(group).session_timeout_ms == 45_000
    config.publish({}, {"g": own})
    assert settings_cache.of(group).heartbeat_interval_ms == 1_000, "cached until invalidation"
    settings_cache.invalidate()
    assert (
        settings_cache.of(group).session_timeout_ms,
        settings_cache.of(group).heartbeat_interval_ms,
    ) == (
        50_000,
        7_000,
    )
