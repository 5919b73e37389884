"""Synonyms: the sources of a value in order of precedence, beginning with the key itself."""

from __future__ import annotations

from kafkalite.config.layers import BrokerLayers, ConfigSource, Synonym

NOTHING = BrokerLayers(node={}, cluster_default={}, static={})


def test_a_plain_key_has_only_its_default() -> None:
    assert NOTHING.synonyms("message.max.bytes") == (
        Synonym("message.max.bytes", "1048588", ConfigSource.DEFAULT),
    )


def test_a_default_of_kafkalite_is_described_as_a_default() -> None:
    layers = BrokerLayers(
        node={}, cluster_default={}, static={}, defaults={"message.max.bytes": "7"}
    )
    assert layers.synonyms("message.max.bytes") == (
        Synonym("message.max.bytes", "7", ConfigSource.DEFAULT),
    )


def test_sources_are_in_order_of_precedence() -> None:
    layers = BrokerLayers(
        node={"message.max.bytes": "1"},
        cluster_default={"message.max.bytes": "2"},
        static={"message.max.bytes": "3"},
    )
    found = layers.synonyms("message.max.bytes")
    assert [(each.value, each.source) for each in found] == [
        ("1", ConfigSource.DYNAMIC_BROKER),
        ("2", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("3", ConfigSource.STATIC_BROKER),
        ("1048588", ConfigSource.DEFAULT),
    ]


def test_sources_before_the_key_itself_are_omitted() -> None:
    """As in Kafka: a key without a value of its own has no synonyms."""
    assert NOTHING.synonyms("log.retention.ms") == ()
    layers = BrokerLayers(node={}, cluster_default={"log.retention.ms": "5"}, static={})
    assert [each.name for each in layers.synonyms("log.retention.ms")] == [
        "log.retention.ms",
        "log.retention.hours",
    ]
    assert [each.name for each in layers.synonyms("log.retention.hours")] == ["log.retention.hours"]


def test_secrets_are_listed_without_values() -> None:
    layers = BrokerLayers(node={}, cluster_default={}, static={"ssl.key.password": "secret"})
    assert layers.synonyms("ssl.key.password", is_sensitive=True) == (
        Synonym("ssl.key.password", None, ConfigSource.STATIC_BROKER),
    )


def test_a_listener_key_has_the_overridden_key_as_synonym() -> None:
    name = "listener.name.internal.ssl.client.auth"
    layers = BrokerLayers(node={}, cluster_default={}, static={name: "required"})
    assert [each.name for each in layers.synonyms(name)] == [name, "ssl.client.auth"]
