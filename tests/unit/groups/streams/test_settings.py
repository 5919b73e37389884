"""What a streams group goes by: its own settings, the broker's, within bounds."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.directory import GroupDirectory
from kafkalite.groups.streams.group import StreamsGroup
from kafkalite.groups.streams.settings import SettingsBook
from kafkalite.metadata.image import MetadataImage
from kafkalite.testing.entropy import SeededEntropy


def book_and_group(**own: str) -> tuple[SettingsBook, StreamsGroup, BrokerConfig]:
    config = BrokerConfig.from_text({"group.streams.max.size": "7"})
    config.publish({}, {"g": {key.replace("_", "."): value for key, value in own.items()}})
    directory = GroupDirectory(config=config, entropy=SeededEntropy(), image=MetadataImage())
    return SettingsBook(config), StreamsGroup("g", directory), config


def test_without_settings_of_its_own_a_group_has_the_brokers() -> None:
    book, group, _ = book_and_group()
    settings = book.of(group)
    assert settings.session_timeout_ms == 45_000
    assert settings.heartbeat_interval_ms == 1_000
    assert settings.assignment_interval_ms == 1_000
    assert settings.initial_delay_ms == 0
    assert settings.max_size == 7
    assert settings.assignment_configs == {"num.standby.replicas": "0"}


def test_its_own_settings_stay_within_bounds() -> None:
    book, group, _ = book_and_group(
        streams_session_timeout_ms="999999",
        streams_num_standby_replicas="9",
        streams_initial_rebalance_delay_ms="70",
    )
    settings = book.of(group)
    assert settings.session_timeout_ms == 60_000
    assert settings.assignment_configs == {"num.standby.replicas": "2"}
    assert settings.initial_delay_ms == 70


def test_settings_are_read_anew_when_they_change() -> None:
    book, group, config = book_and_group()
    first = book.of(group)
    config.publish({}, {"g": {"streams.heartbeat.interval.ms": "3000"}})
    assert book.of(group) is first
    book.forget()
    assert book.of(group).heartbeat_interval_ms == 3_000
