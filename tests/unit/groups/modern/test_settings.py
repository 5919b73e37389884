"""GroupSettingsCache: settings are computed once per group and again after changes."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.modern.settings import GroupSettingsCache


class Soft:
    def __init__(self) -> None:
        self.settings: tuple[int, tuple[int, int] | None] = (0, None)


class Group:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.soft = Soft()


class CountingSettingsCache(GroupSettingsCache[tuple[int, int]]):
    """Counts the computations of settings."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(config)
        self.worked_out = 0

    def compute(self, config: BrokerConfig, group_id: str) -> tuple[int, int]:
        self.worked_out += 1
        return (
            config.group_int(group_id, "consumer.heartbeat.interval.ms"),
            config.int("group.consumer.max.size"),
        )


def test_settings_of_a_group_are_computed_once() -> None:
    settings_cache, group = (
        CountingSettingsCache(BrokerConfig.from_text({"group.consumer.max.size": "8"})),
        Group("g"),
    )
    assert [settings_cache.of(group) for _ in range(3)] == [(1_000, 8)] * 3
    assert settings_cache.worked_out == 1


def test_a_change_applies_after_invalidation() -> None:
    config = BrokerConfig.from_text({})
    settings_cache, group = CountingSettingsCache(config), Group("g")
    before = settings_cache.of(group)
    config.publish({}, {"g": {"consumer.heartbeat.interval.ms": "6000"}})
    assert settings_cache.of(group) is before
    settings_cache.invalidate()
    assert settings_cache.of(group)[0] == 6_000


def test_groups_without_settings_share_one_object() -> None:
    config = BrokerConfig.from_text({})
    config.publish({}, {"own": {"consumer.heartbeat.interval.ms": "6000"}})
    settings_cache = CountingSettingsCache(config)
    assert settings_cache.of(Group("own"))[0] == 6_000
    assert settings_cache.of(Group("a")) is settings_cache.of(Group("b"))
