"""Settings as DescribeConfigs shows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkalite.config.broker import BrokerConfig
from kafkalite.config.definitions import ConfigType
from kafkalite.config.describe import (
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from kafkalite.config.keys import own_broker_keys
from kafkalite.config.layers import BrokerLayers, ConfigSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalite.config.describe import ConfigEntry

CONFIG = BrokerConfig.from_text()
LAYERS = BrokerLayers(
    node={}, cluster_default={}, static=CONFIG.node_text(1), defaults=CONFIG.default_text
)


def by_name(entries: Iterable[ConfigEntry]) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in entries}


def test_a_topic_shows_all_keys_that_are_not_internal() -> None:
    plain = by_name(describe_topic({}, LAYERS, CONFIG))
    assert len(plain) == 37
    assert "internal.segment.bytes" not in plain
    own = by_name(describe_topic({"internal.segment.bytes": "9"}, LAYERS, CONFIG))
    assert own["internal.segment.bytes"].value == "9"


def test_a_topics_own_value_is_shown_as_parsed() -> None:
    own = by_name(describe_topic({"cleanup.policy": " compact , compact"}, LAYERS, CONFIG))
    entry = own["cleanup.policy"]
    assert (entry.value, entry.source) == ("compact", ConfigSource.DYNAMIC_TOPIC)
    assert [(each.name, each.value) for each in entry.synonyms] == [
        ("cleanup.policy", "compact"),
        ("log.cleanup.policy", "delete"),
    ]
    assert (entry.type, entry.is_read_only, entry.is_sensitive) == (ConfigType.LIST, False, False)


def test_a_value_from_a_synonym_in_another_unit_is_described_as_a_default() -> None:
    entry = by_name(describe_topic({}, LAYERS, CONFIG))["retention.ms"]
    assert (entry.value, entry.source, entry.synonyms) == ("604800000", ConfigSource.DEFAULT, ())


def test_secrets_are_shown_without_values() -> None:
    layers = BrokerLayers(
        node={}, cluster_default={}, static={"ssl.key.password": "hush", "my.own": "hush"}
    )
    shown = by_name(describe_broker(layers, CONFIG))
    for name, kind in (("ssl.key.password", ConfigType.PASSWORD), ("my.own", None)):
        assert shown[name].value is None
        assert shown[name].is_sensitive
        assert shown[name].type is kind
        assert [each.value for each in shown[name].synonyms] == [None]


def test_keys_that_kafka_does_not_have_are_shown_only_after_dynamic_changes() -> None:
    name = "group.consumer.offset.commit.fencing"
    static = {name: "strict", "transaction.version": "1", "kafkalite.client.telemetry": "true"}
    layers = replace(LAYERS, static={**LAYERS.static, **static})
    shown = by_name(describe_broker(layers, CONFIG))
    assert not own_broker_keys() & shown.keys()
    changed = by_name(describe_broker(replace(layers, cluster_default={name: "strict"}), CONFIG))
    assert own_broker_keys() & changed.keys() == {name}


def test_keys_without_dynamic_updates_are_read_only() -> None:
    shown = by_name(describe_broker(LAYERS, CONFIG))
    assert shown["num.partitions"].is_read_only
    assert not shown["num.io.threads"].is_read_only
    assert shown["node.id"].source is ConfigSource.STATIC_BROKER
    assert shown["group.initial.rebalance.delay.ms"].value == "0"


def test_settings_without_a_place_in_a_properties_file_have_no_documentation() -> None:
    rate = "leader.replication.throttled.rate"
    layers = replace(LAYERS, node={rate: "5"})
    entries = by_name(describe_broker(layers, CONFIG))
    assert (entries[rate].value, entries[rate].documentation) == ("5", None)
    assert entries["log.retention.ms"].documentation


def test_a_listener_key_has_the_type_of_the_key_it_overrides() -> None:
    name = "listener.name.internal.ssl.keystore.location"
    layers = BrokerLayers(node={name: "/x"}, cluster_default={}, static={})
    entry = by_name(describe_broker(layers, CONFIG))[name]
    assert (entry.value, entry.type) == ("/x", ConfigType.STRING)


def test_a_key_of_a_sasl_mechanism_has_the_type_of_the_key_it_overrides() -> None:
    prefix = "listener.name.login.scram-sha-512."
    reauthentication, jaas = f"{prefix}connections.max.reauth.ms", f"{prefix}sasl.jaas.config"
    layers = BrokerLayers(
        node={}, cluster_default={}, static={reauthentication: "600000", jaas: "secret"}
    )
    shown = by_name(describe_broker(layers, CONFIG))
    entry = shown[reauthentication]
    assert (entry.value, entry.type, entry.is_sensitive) == ("600000", ConfigType.LONG, False)
    assert [(each.name, each.value) for each in entry.synonyms] == [
        (reauthentication, "600000"),
        ("connections.max.reauth.ms", "0"),
    ]
    entry = shown[jaas]
    assert (entry.value, entry.type, entry.is_sensitive) == (None, ConfigType.PASSWORD, True)
    assert [each.value for each in entry.synonyms] == [None]


def test_the_cluster_default_shows_its_own_settings() -> None:
    layers = BrokerLayers(
        node={"message.max.bytes": "1"},
        cluster_default={"message.max.bytes": "2"},
        static={"message.max.bytes": "3"},
    )
    (entry,) = describe_cluster_default(layers, CONFIG)
    assert (entry.name, entry.value) == ("message.max.bytes", "2")
    assert [each.source for each in entry.synonyms] == [ConfigSource.DYNAMIC_DEFAULT_BROKER]


def test_a_group_shows_its_own_settings_and_the_brokers() -> None:
    shown = by_name(describe_group({"consumer.session.timeout.ms": "46000"}, LAYERS, CONFIG))
    own = shown["consumer.session.timeout.ms"]
    assert (own.value, own.source) == ("46000", ConfigSource.GROUP)
    assert [each.name for each in own.synonyms] == [
        "consumer.session.timeout.ms",
        "group.consumer.session.timeout.ms",
    ]
    preset = shown["consumer.heartbeat.interval.ms"]
    assert (preset.value, preset.source) == ("1000", ConfigSource.DEFAULT)
    assert [(each.value, each.source) for each in preset.synonyms] == [
        ("1000", ConfigSource.DEFAULT)
    ]
    alone = shown["share.auto.offset.reset"]
    assert [(each.name, each.source) for each in alone.synonyms] == [
        ("share.auto.offset.reset", ConfigSource.DEFAULT)
    ]


def test_a_subscription_shows_defaults_without_synonyms() -> None:
    shown = by_name(describe_client_metrics({"metrics": "a,b"}, CONFIG))
    assert (shown["metrics"].value, shown["metrics"].source) == ("a,b", ConfigSource.CLIENT_METRICS)
    assert (shown["interval.ms"].value, shown["interval.ms"].synonyms) == ("300000", ())


def test_kafka_before_4_3_describes_no_synonyms_of_groups() -> None:
    config = BrokerConfig.from_text(
        {"group.consumer.session.timeout.ms": "50000"}, as_version="4.2"
    )
    layers = replace(LAYERS, static=config.node_text(1))
    plain = by_name(describe_group({}, layers, config))["consumer.session.timeout.ms"]
    assert (plain.value, plain.source) == ("50000", ConfigSource.DEFAULT)
    assert [each.name for each in plain.synonyms] == ["consumer.session.timeout.ms"]
    overrides = {"consumer.session.timeout.ms": "46000"}
    own = by_name(describe_group(overrides, layers, config))["consumer.session.timeout.ms"]
    assert (own.value, [each.source for each in own.synonyms]) == ("46000", [ConfigSource.GROUP])


def test_kafka_before_4_1_describes_the_set_metrics_of_a_subscription() -> None:
    config = BrokerConfig.from_text(as_version="4.0")
    assert list(describe_client_metrics({}, config)) == []
    (entry,) = describe_client_metrics({"interval.ms": "1000"}, config)
    assert (entry.value, entry.type, entry.documentation) == ("1000", None, "")


def test_a_setting_of_a_later_release_is_unknown() -> None:
    config = BrokerConfig.from_text({"share.coordinator.threads": "2"}, as_version="3.9")
    layers = replace(LAYERS, static=config.node_text(1), keys=config.described_keys)
    entry = by_name(describe_broker(layers, config))["share.coordinator.threads"]
    assert (entry.value, entry.is_sensitive, entry.is_read_only) == (None, True, True)
