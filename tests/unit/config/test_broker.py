"""BrokerConfig: typed reads, validation, and dynamic changes."""

from __future__ import annotations

import pytest

from kafkalite.config.broker import (
    RACK_AWARE_SELECTOR,
    BrokerConfig,
    check_no_plugins,
    parse_broker_text,
)
from kafkalite.config.definitions import ConfigError, ConfigType, value_to_text
from kafkalite.config.keys import broker_keys


def test_defaults_are_those_of_kafka_unless_overridden() -> None:
    config = BrokerConfig.from_text()
    assert config.int("message.max.bytes") == 1048588
    assert config.bool("auto.create.topics.enable") is True
    assert config.float("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.list("group.consumer.assignors") == ("uniform", "range")
    assert config.str("compression.type") == "producer"
    assert config.str_or_none("broker.rack") is None
    assert config.list("log.dirs") == ()


@pytest.mark.parametrize("key", ["compression.type", "log.retention.ms", "log.dirs"])
def test_reading_with_the_wrong_type_raises(key: str) -> None:
    config = BrokerConfig.from_text({"log.dirs": "/x"})
    with pytest.raises(TypeError, match=key):
        config.int(key)


@pytest.mark.parametrize("read", ["str", "bool", "float", "list"])
def test_each_typed_read_rejects_a_number(read: str) -> None:
    with pytest.raises(TypeError):
        getattr(BrokerConfig.from_text(), read)("num.partitions")


def test_an_unknown_key_is_rejected_with_a_similar_name() -> None:
    with pytest.raises(ConfigError) as refusal:
        BrokerConfig.from_text({"num.partition": "3"})
    assert refusal.value.key == "num.partition"
    assert refusal.value.message.endswith("did you mean num.partitions?")
    with pytest.raises(ConfigError, match=r"Unknown configuration zzzz$"):
        BrokerConfig.from_text({"zzzz": "3"})
    rate = "leader.replication.throttled.rate"
    with pytest.raises(ConfigError, match=f"^{rate} is only a dynamic setting, as kafka-configs"):
        BrokerConfig.from_text({rate: "1"})


def test_keys_of_the_authorizer_are_checked() -> None:
    text = {"super.users": "User:a;User:b", "allow.everyone.if.no.acl.found": "yes"}
    config = BrokerConfig.from_text(text)
    assert config.static_text.items() >= text.items()
    with pytest.raises(ConfigError, match=r"^Unknown configuration super.usersx; did you mean sup"):
        BrokerConfig.from_text({"super.usersx": "User:a"})


def test_keys_of_plugins_and_listeners_are_retained() -> None:
    config = BrokerConfig.from_text(
        {"rsm.config.x": "1", "listener.name.internal.ssl.client.auth": "none"}
    )
    assert config.get("rsm.config.x") == "1"
    assert config.get("listener.name.internal.ssl.client.auth") == "none"


def test_a_listener_key_is_validated_like_the_key_without_prefix() -> None:
    with pytest.raises(ConfigError, match="String must be one of"):
        BrokerConfig.from_text({"listener.name.internal.ssl.client.auth": "perhaps"})


def test_without_strict_unknown_keys_are_retained_as_text() -> None:
    assert BrokerConfig.from_text({"my.own": "x"}, strict=False).get("my.own") == "x"
    assert parse_broker_text({"leader.replication.throttled.rate": "5"}, strict=False) == {
        "leader.replication.throttled.rate": 5
    }


def test_a_published_change_is_visible_at_once() -> None:
    config = BrokerConfig.from_text({"message.max.bytes": "1000"})
    config.publish({"message.max.bytes": "2000"}, {})
    assert config.int("message.max.bytes") == 2000
    config.publish({}, {})
    assert config.int("message.max.bytes") == 1000


def test_a_group_setting_has_precedence_over_the_brokers() -> None:
    config = BrokerConfig.from_text({"group.consumer.session.timeout.ms": "50000"})
    key = "consumer.session.timeout.ms"
    assert config.group_int("g", key) == 50000
    config.publish({}, {"g": {key: "46000", "share.auto.offset.reset": "earliest"}})
    assert config.group_int("g", key) == 46000
    assert config.group_int("other", key) == 50000
    assert config.group_get("g", "share.auto.offset.reset") == "earliest"
    assert config.group_get("other", "share.auto.offset.reset") == "latest"


def test_a_group_setting_is_limited_by_the_brokers_bounds() -> None:
    config = BrokerConfig.from_text({"group.consumer.max.session.timeout.ms": "45000"})
    config.publish({}, {"g": {"consumer.session.timeout.ms": "59000"}})
    assert config.group_int("g", "consumer.session.timeout.ms") == 45000


def test_node_text_is_for_describing_only() -> None:
    config = BrokerConfig.from_text({"listeners": "PLAINTEXT://:1"})
    config.set_node_text(2, {"listeners": "PLAINTEXT://:2"})
    assert config.node_text(1)["listeners"] == "PLAINTEXT://:1"
    assert config.node_text(2)["listeners"] == "PLAINTEXT://:2"
    assert config.node_text(2)["node.id"] == config.node_text(2)["broker.id"] == "2"


def test_node_text_adds_to_the_settings_of_the_node() -> None:
    config = BrokerConfig.from_text()
    config.configure_node(2, {"broker.rack": "b"})
    config.set_node_text(2, {"listeners": "PLAINTEXT://:2"})
    assert config.node_text(2)["broker.rack"] == "b"
    assert config.node_text(2)["listeners"] == "PLAINTEXT://:2"
    assert "broker.rack" not in config.node_text(1)


def test_node_value_has_precedence_over_the_value_of_all_nodes() -> None:
    config = BrokerConfig.from_text({"broker.rack": "a", "replica.lag.time.max.ms": "5000"})
    config.configure_node(2, {"broker.rack": "b", "replica.selector.class": RACK_AWARE_SELECTOR})
    config.configure_node(3, {"replica.lag.time.max.ms": "9000"})
    assert [config.node_str_or_none(node, "broker.rack") for node in (1, 2, 3)] == ["a", "b", "a"]
    assert [config.node_int(node, "replica.lag.time.max.ms") for node in (1, 2, 3)] == [
        5000, 5000, 9000,
    ]  # fmt: skip
    selectors = [config.node_str_or_none(node, "replica.selector.class") for node in (1, 2)]
    assert selectors == [None, RACK_AWARE_SELECTOR]
    assert config.str("broker.rack") == "a"


def test_node_value_of_another_type_is_not_returned() -> None:
    config = BrokerConfig.from_text()
    with pytest.raises(TypeError, match=r"broker\.rack is not an integer"):
        config.node_int(1, "broker.rack")
    with pytest.raises(TypeError, match=r"replica\.lag\.time\.max\.ms is not a string"):
        config.node_str_or_none(1, "replica.lag.time.max.ms")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            {"group.version": "1"},
            "group.version cannot differ between nodes, because all nodes share its level",
        ),
        (
            {"broker.rak": "a"},
            "Unknown configuration broker.rak; did you mean broker.rack?",
        ),
        (
            {"replica.lag.time.max.ms": "x"},
            "Invalid value x for configuration replica.lag.time.max.ms: Not a number of type LONG",
        ),
        (
            {"replica.lag.time.max.ms": "100"},
            "replica.fetch.wait.max.ms should always be less than or equal to",
        ),
        (
            {"replica.selector.class": "com.example.Selector"},
            "replica.selector.class is com.example.Selector, but JVM plug-ins are not supported",
        ),
    ],
)
def test_invalid_setting_of_a_node_is_rejected(text: dict[str, str], message: str) -> None:
    config = BrokerConfig.from_text()
    with pytest.raises(ConfigError) as refused:
        config.configure_node(2, text)
    assert str(refused.value).startswith("node 2: ")
    assert message in str(refused.value)
    assert refused.value.key in {*text, "replica.fetch.wait.max.ms"}


GROUP = "org.apache.kafka.coordinator.group"
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PLUGIN_KEYS = [key for key, each in broker_keys().items() if each.type is ConfigType.CLASS] + [
    "authorizer.class.name",
    "group.consumer.assignors",
    "group.share.assignors",
    "group.share.persister.class.name",
    "replica.selector.class",
    "security.providers",
]


@pytest.mark.parametrize("key", PLUGIN_KEYS)
def test_a_class_that_is_not_kafkas_is_rejected_in_one_sentence(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_text({key: "com.example.Own"})
    assert refused.value.key == key
    assert str(refused.value) == (
        f"{key} is com.example.Own, but JVM plug-ins are not supported: remove this setting"
        + (f", or use {STANDARD_AUTHORIZER}" if key == "authorizer.class.name" else "")
    )


def test_the_removed_authorizer_is_rejected_with_its_successor() -> None:
    with pytest.raises(ConfigError) as refused:
        BrokerConfig.from_text({"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"})
    assert str(refused.value) == (
        "authorizer.class.name is kafka.security.authorizer.AclAuthorizer, which needs ZooKeeper "
        "and which Kafka 4.0 removed: use org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    )


@pytest.mark.parametrize("key", PLUGIN_KEYS)
def test_kafkas_default_class_is_accepted(key: str) -> None:
    default = value_to_text(broker_keys()[key].default)
    if default is not None:
        assert BrokerConfig.from_text({key: default}).get(key) == broker_keys()[key].default


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("group.consumer.assignors", f"range, {GROUP}.assignor.UniformAssignor"),
        ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        ("metric.reporters", "com.example.Reporter"),
        ("kafka.metrics.reporters", "com.example.Reporter"),
        ("listener.name.a.ssl.client.auth", "required"),
        ("listener.name.a.plain.sasl.jaas.config", "x"),
    ],
)  # fmt: skip
def test_other_settings_are_accepted(key: str, value: str) -> None:
    BrokerConfig.from_text({key: value})


@pytest.mark.parametrize(
    "name",
    [
        "listener.name.inside.principal.builder.class",
        "listener.name.inside.plain.sasl.server.callback.handler.class",
    ],
)
def test_a_class_for_one_listener_is_rejected_too(name: str) -> None:
    with pytest.raises(ConfigError, match="JVM plug-ins"):
        check_no_plugins({name: "com.example.Own"})


@pytest.mark.parametrize("kind", ["storage", "metadata"])
def test_classes_of_tiered_storage_are_accepted_because_they_are_not_loaded(kind: str) -> None:
    config = {
        f"remote.log.{kind}.manager.class.name": "com.example.Own",
        "remote.log.storage.system.enable": "true",
    }
    assert BrokerConfig.from_text(config).bool("remote.log.storage.system.enable")


def test_config_providers_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"config\.providers is file, but JVM plug-ins"):
        check_no_plugins({"config.providers": "file"})


def test_a_removed_node_has_no_settings_of_its_own() -> None:
    config = BrokerConfig.from_text({"broker.rack": "a"})
    config.configure_node(4, {"broker.rack": "b"})
    config.set_node_text(4, {"listeners": "PLAINTEXT://:9095"})
    config.forget_node(4)
    config.forget_node(4)
    assert config.node_str_or_none(4, "broker.rack") == "a"
    assert "listeners" not in config.node_text(4)


def test_refused_settings_of_a_node_have_no_effect() -> None:
    config = BrokerConfig.from_text({})
    with pytest.raises(ConfigError):
        config.configure_node(2, {"replica.lag.time.max.ms": "1", "broker.rack": "b"})
    assert config.node_str_or_none(2, "broker.rack") is None


def test_a_node_has_its_own_values_of_keys_that_can_differ() -> None:
    config = BrokerConfig.from_text({"fetch.max.bytes": "5000"})
    second = config.of_node(2)
    assert second is config.of_node(2)
    own = {
        "fetch.max.bytes": "2000",
        "num.io.threads": "3",
        "listener.name.ssl.ssl.client.auth": "required",
    }
    config.configure_node(2, own)
    assert [config.of_node(node).int("fetch.max.bytes") for node in (1, 2)] == [5000, 2000]
    assert second.get("listener.name.ssl.ssl.client.auth") == "required"
    assert {key: config.node_text(2)[key] for key in own} == own
    assert "num.io.threads" not in config.node_text(1)
    assert config.int("fetch.max.bytes") == 5000
    config.forget_node(2)
    assert second.int("fetch.max.bytes") == 5000


def test_dynamic_values_have_precedence_over_the_static_values_of_a_node() -> None:
    config = BrokerConfig.from_text()
    first, second = config.of_node(1), config.of_node(2)
    config.configure_node(2, {"max.connections": "20"})
    config.publish({}, {}, {1: {}, 2: {"max.connections": "7"}})
    assert (first.int("max.connections"), second.int("max.connections")) == (2147483647, 7)
    config.publish({"max.connections": "9"}, {}, {1: {"max.connections": "3"}, 2: {}})
    assert (first.int("max.connections"), second.int("max.connections")) == (3, 9)
    assert config.int("max.connections") == 3
    config.publish({}, {})
    assert second.int("max.connections") == 20


def test_a_node_has_own_defaults_of_topics_if_a_value_differs() -> None:
    config = BrokerConfig.from_text({"log.retention.ms": "1"})
    config.configure_node(2, {"max.connections": "20"})
    assert not config.has_own_topic_defaults(2)
    config.configure_node(3, {"log.retention.ms": "3"})
    assert [config.has_own_topic_defaults(node) for node in (1, 2, 3)] == [False, False, True]
    # The values without a node are those of the first one.
    config.publish({}, {}, {1: {"log.segment.bytes": "2000000"}, 2: {}, 3: {}})
    assert [config.has_own_topic_defaults(node) for node in (1, 2, 3)] == [False, True, True]


def test_the_defaults_of_topics_of_a_node_are_checked_together() -> None:
    config = BrokerConfig.from_text({"log.cleaner.min.compaction.lag.ms": "5"})
    with pytest.raises(ConfigError, match=r"^node 2: .*max\.compaction\.lag\.ms \(4\)"):
        config.configure_node(2, {"log.cleaner.max.compaction.lag.ms": "4"})


def test_the_controller_has_the_values_of_its_node() -> None:
    config = BrokerConfig.from_text()
    config.configure_node(2, {"num.partitions": "2"})
    assert config.of_controller((3, 2)).node_id == 2
    assert config.of_controller((3, 2)).int("num.partitions") == 2
    assert config.of_controller(()) is config
    separate = BrokerConfig.from_text(controller_id=3000)
    assert separate.of_controller((1, 2)) is separate


def test_a_key_with_a_value_of_one_node_is_known() -> None:
    config = BrokerConfig.from_text()
    config.configure_node(2, {"num.partitions": "2"})
    config.publish({}, {}, {1: {"log.retention.ms": "5"}})
    keys = ("num.partitions", "log.retention.ms", "log.retention.bytes")
    assert [config.has_own_value(key) for key in keys] == [True, True, False]
