"""What a running broker takes: for one node, for all, or only with a restart."""

from __future__ import annotations

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
    ],
)
def test_these_are_taken_while_the_broker_runs(own: dict[str, str]) -> None:
    check(own)


REFUSED = [
    ({"num.partitions": "3"}, "Cannot update these configs dynamically: [num.partitions]"),
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
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or "
            "log.dir. Missing entries : *,/x"
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
def test_these_are_refused_while_the_broker_runs(own: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check(own)
    assert refusal.value.message == complaint


def test_what_each_node_has_for_itself_cannot_be_set_for_all() -> None:
    own = {"listener.name.internal.ssl.keystore.location": "/x"}
    with pytest.raises(ConfigError, match="at default cluster level, broker id must be specified"):
        check(own, is_per_broker=False)
    check({"leader.replication.throttled.rate": "5"}, is_per_broker=False)
