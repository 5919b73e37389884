"""Settings of streams groups: group configuration within the broker's bounds."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.settings import StreamsSettingsCache
from kafkalite.metadata.image import MetadataImage
from kafkalite.ports.seeded_entropy import SeededEntropy


def cache_and_group(**own: str) -> tuple[StreamsSettingsCache, StreamsGroup]:
    config = BrokerConfig.from_text({"group.streams.max.size": "7"})
    config.publish({}, {"g": {key.replace("_", "."): value for key, value in own.items()}})
    directory = GroupDirectory(config=config, entropy=SeededEntropy(), image=MetadataImage())
    return StreamsSettingsCache(config), StreamsGroup("g", directory)


def test_a_group_without_settings_uses_the_brokers() -> None:
    settings_cache, group = cache_and_group()
    settings = settings_cache.of(group)
    assert settings.session_timeout_ms == 45_000
    assert settings.heartbeat_interval_ms == 1_000
    assert settings.assignment_interval_ms == 1_000
    assert settings.initial_delay_ms == 0
    assert settings.max_size == 7
    assert settings.assignment_configs == {"num.standby.replicas": "0"}


def test_group_settings_are_limited_by_the_bounds() -> None:
    settings_cache, group = cache_and_group(
        streams_session_timeout_ms="999999",
        streams_num_standby_replicas="9",
        streams_initial_rebalance_delay_ms="70",
    )
    settings = settings_cache.of(group)
    assert settings.session_timeout_ms == 60_000
    assert settings.assignment_configs == {"num.standby.replicas": "2"}
    assert settings.initial_delay_ms == 70


def test_tags_are_settings_of_the_assignor() -> None:
    settings_cache, group = cache_and_group(streams_rack_aware_assignment_tags="zone, area")
    settings = settings_cache.of(group)
    assert settings.rack_tags == ("zone", "area")
    assert settings.assignment_configs == {
        "num.standby.replicas": "0", "rack.aware.assignment.tags": "zone,area",
    }  # fmt: skip


def test_an_assignor_that_is_not_configured_is_replaced_by_the_default_one() -> None:
    for requested in ("sticky", "unknown"):
        settings_cache, group = cache_and_group(streams_assignor_name=requested)
        assert settings_cache.of(group).assignor == "sticky"


def test_offset_settings_have_a_lower_limit() -> None:
    settings_cache, group = cache_and_group(streams_task_offset_interval_ms="1")
    settings = settings_cache.of(group)
    assert (settings.task_offset_interval_ms, settings.acceptable_recovery_lag) == (15_000, 10_000)
    assert not settings.stores_descriptions
