"""BrokerConfig: read by type, refused with a reason, live when it changes."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import BrokerConfig, parse_broker_text
from kafkalite.config.definitions import ConfigError


def test_defaults_are_those_of_kafka_where_the_preset_says_nothing() -> None:
    config = BrokerConfig.from_text()
    assert config.int("message.max.bytes") == 1048588
    assert config.bool("auto.create.topics.enable") is True
    assert config.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.list("group.consumer.assignors") == ("uniform", "range")
    assert config.str("compression.type") == "producer"
    assert config.str_or_none("broker.rack") is None
    assert config.list("log.dirs") == ()


def test_what_is_set_counts_before_the_preset() -> None:
    assert BrokerConfig.from_text().int("group.initial.rebalance.delay.ms") == 0
    config = BrokerConfig.from_text({"group.initial.rebalance.delay.ms": "77"})
    assert config.int("group.initial.rebalance.delay.ms") == 77


@pytest.mark.parametrize("key", ["compression.type", "log.retention.ms", "log.dirs"])
def test_reading_by_the_wrong_type_is_a_mistake(key: str) -> None:
    config = BrokerConfig.from_text({"log.dirs": "/x"})
    with pytest.raises(TypeError, match=key):
        config.int(key)


@pytest.mark.parametrize("read", ["str", "bool", "float", "list"])
def test_each_reader_refuses_a_number(read: str) -> None:
    with pytest.raises(TypeError):
        getattr(BrokerConfig.from_text(), read)("num.partitions")


def test_an_unknown_key_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_text({"num.partition": "3"})
    assert refusal.value.key == "num.partition"
    assert refusal.value.message.endswith("did you mean num.partitions?")
    with pytest.raises(ConfigError, match=r"Unknown configuration zzzz$"):
        BrokerConfig.from_text({"zzzz": "3"})


def test_keys_of_plugins_and_listeners_are_kept() -> None:
    config = BrokerConfig.from_text(
        {"rsm.config.x": "1", "listener.name.internal.ssl.client.auth": "none"}
    )
    assert config.get("rsm.config.x") == "1"
    assert config.get("listener.name.internal.ssl.client.auth") == "none"


def test_a_listener_key_is_judged_as_the_key_it_is() -> None:
    with pytest.raises(ConfigError, match="String must be one of"):
        BrokerConfig.from_text({"listener.name.internal.ssl.client.auth": "perhaps"})


def test_without_strictness_unknown_keys_are_kept_as_text() -> None:
    assert BrokerConfig.from_text({"my.own": "x"}, strict=False).get("my.own") == "x"
    assert parse_broker_text({"leader.replication.throttled.rate": "5"}, strict=False) == {
        "leader.replication.throttled.rate": 5
    }


def test_a_published_change_is_seen_by_whoever_holds_the_configuration() -> None:
    config = BrokerConfig.from_text({"message.max.bytes": "1000"})
    config.publish({"message.max.bytes": "2000"}, {})
    assert config.int("message.max.bytes") == 2000
    config.publish({}, {})
    assert config.int("message.max.bytes") == 1000


def test_a_group_has_its_own_word_then_the_brokers() -> None:
    config = BrokerConfig.from_text({"group.consumer.session.timeout.ms": "50000"})
    key = "consumer.session.timeout.ms"
    assert config.group_int("g", key) == 50000
    config.publish({}, {"g": {key: "46000", "share.auto.offset.reset": "earliest"}})
    assert config.group_int("g", key) == 46000
    assert config.group_int("other", key) == 50000
    assert config.group_get("g", "share.auto.offset.reset") == "earliest"
    assert config.group_get("other", "share.auto.offset.reset") == "latest"


def test_a_group_stays_within_what_its_broker_allows_now() -> None:
    config = BrokerConfig.from_text({"group.consumer.max.session.timeout.ms": "45000"})
    config.publish({}, {"g": {"consumer.session.timeout.ms": "59000"}})
    assert config.group_int("g", "consumer.session.timeout.ms") == 45000


def test_nodes_are_told_apart_for_describing_alone() -> None:
    config = BrokerConfig.from_text({"listeners": "PLAINTEXT://:1"})
    config.set_apart(2, {"listeners": "PLAINTEXT://:2"})
    assert config.node_text(1)["listeners"] == "PLAINTEXT://:1"
    assert config.node_text(2)["listeners"] == "PLAINTEXT://:2"
    assert config.node_text(2)["node.id"] == config.node_text(2)["broker.id"] == "2"
