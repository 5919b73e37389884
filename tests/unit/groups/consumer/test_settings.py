"""A group's settings: its own within the broker's bounds, worked out anew when they change."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.consumer.group import ConsumerGroup
from kafkalite.groups.consumer.settings import GroupSettings, SettingsBook


def test_without_settings_of_its_own_a_group_goes_by_the_brokers() -> None:
    config = BrokerConfig.from_text(
        {
            "group.consumer.session.timeout.ms": "50000",
            "group.consumer.heartbeat.interval.ms": "6000",
            "group.consumer.assignment.interval.ms": "70",
            "group.consumer.max.size": "8",
            "group.consumer.regex.refresh.interval.ms": "90000",
        }
    )
    assert SettingsBook(config).of(ConsumerGroup("g")) == GroupSettings(
        session_timeout_ms=50_000,
        heartbeat_interval_ms=6_000,
        assignment_interval_ms=70,
        max_size=8,
        compares_incarnations=False,
        regex_refresh_interval_ms=90_000,
    )


def test_a_setting_made_under_wider_bounds_is_kept_within_todays() -> None:
    config = BrokerConfig.from_text(
        {
            "group.consumer.min.session.timeout.ms": "45000",
            "group.consumer.max.session.timeout.ms": "60000",
        }
    )
    book = SettingsBook(config)
    config.publish(
        {},
        {
            "low": {"consumer.session.timeout.ms": "1"},
            "high": {"consumer.session.timeout.ms": "10000000"},
            "within": {"consumer.session.timeout.ms": "50000"},
        },
    )
    timeouts = [
        book.of(ConsumerGroup(name)).session_timeout_ms for name in ("low", "high", "within")
    ]
    assert timeouts == [45_000, 60_000, 50_000]


def test_a_change_counts_when_the_book_is_told_of_it() -> None:
    config = BrokerConfig.from_text({})
    book, group = SettingsBook(config), ConsumerGroup("g")
    before = book.of(group)
    config.publish({}, {"g": {"consumer.session.timeout.ms": "50000"}})
    assert book.of(group) is before
    book.forget()
    assert book.of(group).session_timeout_ms == 50_000
