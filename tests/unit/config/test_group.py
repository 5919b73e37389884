"""The settings of a group are limited by the broker's bounds."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.group import DEAD_LETTER_TOPIC, check_group_values, clamp_to_bounds

REFUSED = [
    (
        {"consumer.session.timeout.ms": "5"},
        ("consumer.session.timeout.ms must be in the range 1000 to 60000 inclusive."),
    ),
    (
        {"consumer.heartbeat.interval.ms": "99999"},
        ("consumer.heartbeat.interval.ms must be in the range 100 to 15000 inclusive."),
    ),
    (
        {"streams.num.standby.replicas": "9"},
        ("streams.num.standby.replicas must be less than or equal to 2"),
    ),
    (
        {"share.session.timeout.ms": "1000"},
        "share.session.timeout.ms must be greater than share.heartbeat.interval.ms",
    ),
]


@pytest.mark.parametrize(("own", "complaint"), REFUSED)
def test_values_out_of_bounds_are_rejected(own: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_group_values(own, BrokerConfig.from_text())
    assert refusal.value.message == complaint


def test_values_within_bounds_are_accepted() -> None:
    own = {
        "consumer.session.timeout.ms": "30000",
        "consumer.heartbeat.interval.ms": "500",
        "share.renew.acknowledge.enable": "false",
        "share.auto.offset.reset": "by_duration:PT1H",
    }
    check_group_values(own, BrokerConfig.from_text())


def test_only_numeric_values_are_clamped_to_bounds() -> None:
    config = BrokerConfig.from_text()
    assert clamp_to_bounds("share.isolation.level", "read_committed", config) == "read_committed"
    assert clamp_to_bounds("share.renew.acknowledge.enable", True, config) is True
    assert clamp_to_bounds("consumer.session.timeout.ms", 1, config) == 1000


@pytest.mark.parametrize(
    ("release", "complaint"),
    [
        ("4.3", "must be less than or equal to group.share.max.delivery.count.limit"),
        ("4.4", "must be in the range 2 to 10 inclusive."),
    ],
)
def test_a_release_names_the_limits_in_its_own_way(release: str, complaint: str) -> None:
    config = BrokerConfig.from_text(as_version=release)
    with pytest.raises(ConfigError, match=complaint):
        check_group_values({"share.delivery.count.limit": "11"}, config)


def test_the_name_of_a_dead_letter_topic_is_not_internal() -> None:
    config = BrokerConfig.from_text(as_version="4.4")
    check_group_values({DEAD_LETTER_TOPIC: "dlq.a"}, config)
    check_group_values({DEAD_LETTER_TOPIC: ""}, config)
    with pytest.raises(ConfigError, match="must not start with __"):
        check_group_values({DEAD_LETTER_TOPIC: "__a"}, config)
    with pytest.raises(ConfigError, match="Unknown group config name"):
        check_group_values({DEAD_LETTER_TOPIC: "a"}, BrokerConfig.from_text(as_version="4.3"))
