"""What a share group goes by: its own settings before the broker's, kept within bounds."""

from __future__ import annotations

from kafkalite.config.broker import BrokerConfig
from kafkalite.groups.share.group import ShareGroup
from kafkalite.groups.share.settings import ShareSettings, ShareSettingsBook


def test_a_group_goes_by_the_brokers_settings() -> None:
    assert ShareSettingsBook(BrokerConfig.from_text({})).of(ShareGroup("g")) == ShareSettings(
        session_timeout_ms=45_000,
        heartbeat_interval_ms=1_000,
        assignment_interval_ms=1_000,
        max_size=200,
        initialize_retry_interval_ms=30_000,
    )


def test_a_groups_own_settings_come_first_and_within_bounds() -> None:
    config = BrokerConfig.from_text({"group.share.max.session.timeout.ms": "50000"})
    own = {"share.session.timeout.ms": "60000", "share.heartbeat.interval.ms": "7000"}
    book, group = ShareSettingsBook(config), ShareGroup("g")
    assert book.of(group).session_timeout_ms == 45_000
    config.publish({}, {"g": own})
    assert book.of(group).heartbeat_interval_ms == 1_000, "kept until told to forget"
    book.forget()
    assert (book.of(group).session_timeout_ms, book.of(group).heartbeat_interval_ms) == (
        50_000,
        7_000,
    )
