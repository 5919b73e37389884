"""Dynamic updates: which settings can change for one node, for all, or at a restart only."""

from __future__ import annotations

import re

import pytest

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigError
from kafkalite.config.dynamic import check_dynamic_values


def check(own: dict[str, str], *, is_per_broker: bool = True) -> None:
    check_dynamic_values(own, BrokerConfig.from_text(), is_per_broker=is_per_broker)


@pytest.mark.parametrize(
    "own",
    [
        {"log.retention.ms": "5"},
        {"unknown.to.kafka": "5"},
        {"num.io.threads": "16"},
        {"num.io.threads": "4"},
        {"listener.name.internal.ssl.keystore.location": "/x"},
        {"leader.replication.throttled.rate": "5"},
        {"log.cleanup.policy": "delete,compact"},
        {"cordoned.log.dirs": "*"},
        {"log.local.retention.ms": "600000000"},
        {"log.local.retention.bytes": "5"},
        {"max.connections": "7"},
        {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097154"},
        {"log.cleaner.min.compaction.lag.ms": "10", "log.cleaner.max.compaction.lag.ms": "9"},
    ],
)
def test_dynamic_updates_are_accepted(own: dict[str, str]) -> None:
    check(own)


REFUSED = [
    (
        {"ssl.keystore.location": "/x"},
        (
            "These security configs can be dynamically updated only per-listener using the "
            "listener prefix: [ssl.keystore.location]"
        ),
    ),
    (
        {"num.io.threads": "0"},
        "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
    ),
    (
        {"num.io.threads": "17"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count "
            "update validation failed for num.io.threads=17, value should not be greater than "
            "double the current value 8 for configuration Invalid dynamic configuration"
        ),
    ),
    (
        {"num.io.threads": "3"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count "
            "update validation failed for num.io.threads=3, value should be at least half the "
            "current value 8 for configuration Invalid dynamic configuration"
        ),
    ),
    (
        {"follower.replication.throttled.rate": "-1"},
        (
            "Invalid value -1 for configuration follower.replication.throttled.rate: "
            "Value must be at least 0"
        ),
    ),
    ({"log.roll.ms": "0"}, "requirement failed: log.roll.ms must be greater than or equal to 1"),
    (
        {"cordoned.log.dirs": "*,/x"},
        (
            "requirement failed: When cordoned.log.dirs is set to *, it must not contain other "
            "values"
        ),
    ),
    (
        {"cordoned.log.dirs": "/x"},
        (
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or "
            "log.dir. Missing entries : /x"
        ),
    ),
    (
        {"log.cleaner.threads": "3"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads "
            "cannot be increased to more than double the current value 1 for configuration Invalid "
            "dynamic configuration"
        ),
    ),
    (
        {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097153"},
        (
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread."
        ),
    ),
    (
        {"group.share.assignment.interval.ms": "1000000"},
        (
            "group.share.assignment.interval.ms must be less than or equal to "
            "group.share.max.assignment.interval.ms"
        ),
    ),
    (
        {"max.connections": "0"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Invalid max.connections "
            "0 for configuration Invalid dynamic configuration"
        ),
    ),
    (
        {"listener.name.plaintext.max.connection.creation.rate": "0"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Invalid "
            "max.connection.creation.rate 0 for configuration Invalid dynamic configuration"
        ),
    ),
    (
        {"metric.reporters": "org.example.Own"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Class org.example.Own "
            "could not be found. for configuration Invalid dynamic configuration"
        ),
    ),
    (
        {"log.local.retention.ms": "604800001"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value 604800001 "
            "for configuration log.local.retention.ms: Value must not be more than "
            "log.retention.ms property value: 604800000 for configuration Invalid dynamic "
            "configuration"
        ),
    ),
    (
        {"log.local.retention.bytes": "-1", "log.retention.bytes": "5"},
        (
            "Invalid value org.apache.kafka.common.config.ConfigException: Invalid value -1 for "
            "configuration log.local.retention.bytes: Value must not be -1 as log.retention.bytes "
            "value is set as 5. for configuration Invalid dynamic configuration"
        ),
    ),
]


@pytest.mark.parametrize(("own", "complaint"), REFUSED)
def test_invalid_dynamic_updates_are_rejected(own: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check(own)
    assert refusal.value.message == complaint


def test_repeated_items_are_rejected_unless_the_key_has_a_prefix() -> None:
    for name in ("ssl.cipher.suites", "log.cleanup.policy"):
        with pytest.raises(ConfigError) as refusal:
            check({name: "a,a"})
        assert refusal.value.message == f"Configuration '{name}' values must not be duplicated."
    check({"ssl.cipher.suites": "a,b"})
    check({"config.providers": "a,a"})
    check({"listener.name.internal.ssl.cipher.suites": "a,a"})


def test_repeated_items_are_ignored_by_earlier_releases() -> None:
    config = BrokerConfig.from_text(as_version="4.3")
    check_dynamic_values({"ssl.cipher.suites": "a,a"}, config, is_per_broker=True)


def test_per_broker_keys_cannot_be_set_for_all_nodes() -> None:
    own = {"listener.name.internal.ssl.keystore.location": "/x"}
    with pytest.raises(ConfigError, match="at default cluster level, broker id must be specified"):
        check(own, is_per_broker=False)
    check({"leader.replication.throttled.rate": "5"}, is_per_broker=False)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("log.dirs", "Cannot update these configs dynamically: Set(log.dirs)"),
        (
            "ssl.keystore.type",
            (
                "These security configs can be dynamically updated only per-listener using the "
                "listener prefix: HashSet(ssl.keystore.type)"
            ),
        ),
        (
            "listener.name.x.ssl.keystore.type",
            (
                "Cannot update these configs at default cluster level, broker id must be "
                "specified: Set(listener.name.x.ssl.keystore.type)"
            ),
        ),
    ],
)
def test_refused_settings_are_a_set_of_scala_before_4_3(name: str, message: str) -> None:
    for release, expected in (
        ("4.2", message),
        ("4.3", re.sub(r"(Hash)?Set\((.*)\)$", r"[\2]", message)),
    ):
        with pytest.raises(ConfigError) as refusal:
            check_dynamic_values(
                {name: "x"}, BrokerConfig.from_text(as_version=release), is_per_broker=False
            )
        assert refusal.value.message == expected


def test_settings_of_later_releases_are_not_checked() -> None:
    own = {"cordoned.log.dirs": "/x", "group.share.max.share.sessions": "x"}
    config = BrokerConfig.from_text(as_version="4.0")
    check_dynamic_values(own, config, is_per_broker=True)
    config.publish(own, {}, {1: own})
    assert config.get("cordoned.log.dirs") == ()
    assert config.of_node(1).get("group.share.max.share.sessions") == 2000


def test_the_directory_in_use_can_be_cordoned() -> None:
    config = BrokerConfig.from_text()
    config.set_node_text(1, {"log.dirs": "/data"})
    check_dynamic_values({"cordoned.log.dirs": "/data"}, config, is_per_broker=True)
    with pytest.raises(ConfigError, match=r"must be present in log\.dirs"):
        check_dynamic_values({"cordoned.log.dirs": "/other"}, config, is_per_broker=True)


def test_a_deletion_is_validated_as_a_change_to_the_default() -> None:
    config = BrokerConfig.from_text({"log.cleaner.dedupe.buffer.size": "2000000"})
    memory = {"log.cleaner.dedupe.buffer.size": "3000000"}
    config.publish({}, {}, {1: {**memory, "log.cleaner.threads": "2"}})
    with pytest.raises(ConfigError, match="1MB per cleaner"):
        check_dynamic_values({"log.cleaner.threads": "2"}, config, is_per_broker=True)
    check_dynamic_values({}, config, is_per_broker=True)
    config.publish({}, {}, {1: {"num.io.threads": "32"}})
    with pytest.raises(ConfigError, match="value should be at least half the current value 32"):
        check_dynamic_values({}, config, is_per_broker=True)


def test_a_node_setting_has_precedence_over_the_cluster_default() -> None:
    config = BrokerConfig.from_text()
    config.publish({}, {}, {1: {"log.cleaner.dedupe.buffer.size": "3000000"}})
    assert config.int("log.cleaner.dedupe.buffer.size") == 3_000_000
    check_dynamic_values({"log.cleaner.dedupe.buffer.size": "5"}, config, is_per_broker=False)
    with pytest.raises(ConfigError, match="1MB per cleaner"):
        check_dynamic_values({"log.cleaner.dedupe.buffer.size": "5"}, config, is_per_broker=True)


@pytest.mark.parametrize(
    "own",
    [
        {"listeners": "x"},
        {"listeners": "INSIDE://h:1,PLAINTEXT://h:9092"},
        {"listeners": "SSL://h:1"},
        {"listener.security.protocol.map": ""},
        {"listener.security.protocol.map": "INSIDE:PLAINTEXT"},
    ],
)
def test_listeners_in_use_cannot_be_removed_and_need_a_protocol(own: dict[str, str]) -> None:
    config = BrokerConfig.from_text()
    config.set_node_text(1, {"listeners": "PLAINTEXT://h:9092"})
    with pytest.raises(ConfigError, match="listeners"):
        check_dynamic_values(own, config, is_per_broker=True)


def test_listeners_can_be_added() -> None:
    config = BrokerConfig.from_text()
    config.set_node_text(1, {"listeners": "PLAINTEXT://h:9092"})
    own = {
        "listeners": "PLAINTEXT://h:9092,INSIDE://h:1",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,inside:PLAINTEXT",
    }
    check_dynamic_values(own, config, is_per_broker=True)
